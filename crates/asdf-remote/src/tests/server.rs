//! An HTTP server that misbehaves on demand. The tests of mounts use it, too.

#![allow(dead_code, unreachable_pub, missing_debug_implementations)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A request, with the names of its headers in lower case.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: HashMap<String, String>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns the first byte of the range, and the one after the last.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.header("range").strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse::<usize>().ok()? + 1))
    }
}

impl Request {
    /// Returns the ranges of a request for several.
    pub fn ranges(&self) -> Option<Vec<Range<usize>>> {
        let ranges = self.header("range").strip_prefix("bytes=").filter(|ranges| ranges.contains(','))?;
        let range = |range: &str| {
            let (first, last) = range.trim().split_once('-')?;
            Some(first.parse().ok()?..last.parse::<usize>().ok()? + 1)
        };
        ranges.split(',').map(range).collect()
    }
}

/// A reply, and what goes wrong with it.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Number of bytes of the body after which the connection is closed.
    pub cut: Option<usize>,
    /// Number of bytes of the body after which nothing more is sent.
    pub stall: Option<usize>,
    /// True to send the body in chunks that never end.
    pub endless: bool,
    pub delay: Duration,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        let headers = Vec::new();
        let body = Vec::new();
        let delay = Duration::ZERO;
        Self { status, headers, body, cut: None, stall: None, endless: false, delay }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub fn status_of(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub fn body(self, kind: &str, body: &str) -> Self {
        let mut reply = self.with("Content-Type", kind);
        reply.body = body.as_bytes().to_vec();
        reply
    }

    /// Answers a request for a part of an object as a proper server does.
    pub fn part(data: &[u8], etag: &str, request: &Request) -> Self {
        Self::part_of(data.len(), etag, request, |range| data[range].to_vec())
    }

    /// Answers a request for a part of an object of `total` bytes; `read` returns a range of them.
    pub fn part_of(
        total: usize,
        etag: &str,
        request: &Request,
        read: impl Fn(Range<usize>) -> Vec<u8>,
    ) -> Self {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let reply = |status| Self::status(status).with("ETag", etag).with("Last-Modified", date);
        let wanted = request.header("if-match");
        if !wanted.is_empty() && wanted != etag {
            return Self::status(412);
        }
        if !etag.is_empty() && request.header("if-none-match") == etag {
            return reply(304);
        }
        if let Some(ranges) = request.ranges() {
            return Self::parts(total, reply(206), &ranges, read);
        }
        let Some((first, end)) = request.range() else {
            let mut reply = reply(200);
            reply.body = read(0..total);
            return reply;
        };
        if first >= total {
            return Self::status(416).with("Content-Range", &format!("bytes */{total}"));
        }
        let end = end.min(total);
        let mut reply = reply(206).with("Content-Range", &format!("bytes {first}-{}/{total}", end - 1));
        reply.body = read(first..end);
        reply
    }

    /// Adds several parts of an object to a reply.
    fn parts(
        total: usize,
        reply: Self,
        ranges: &[Range<usize>],
        read: impl Fn(Range<usize>) -> Vec<u8>,
    ) -> Self {
        let mut reply = reply.with("Content-Type", "multipart/byteranges; boundary=00042");
        for range in ranges {
            let (first, last) = (range.start, range.end - 1);
            let head = format!("\r\n--00042\r\nContent-Range: bytes {first}-{last}/{total}\r\n\r\n");
            reply.body.extend_from_slice(head.as_bytes());
            reply.body.extend_from_slice(&read(range.clone()));
        }
        reply.body.extend_from_slice(b"\r\n--00042--\r\n");
        reply
    }

    fn send(&self, mut to: &TcpStream, stop: &AtomicBool) -> std::io::Result<bool> {
        std::thread::sleep(self.delay);
        let mut head = format!("HTTP/1.1 {} Status\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let has_length = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if self.endless {
            head += "Transfer-Encoding: chunked\r\n";
        } else if !has_length {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        to.write_all(format!("{head}\r\n").as_bytes())?;
        let len = self.cut.or(self.stall).unwrap_or(self.body.len()).min(self.body.len());
        if self.endless {
            // Some megabytes are endless enough: a reader that takes them all has failed.
            to.write_all(format!("{:x}\r\n", self.body.len()).as_bytes())?;
            to.write_all(&self.body)?;
            for _ in 0..64 {
                to.write_all(b"\r\n10000\r\n")?;
                to.write_all(&[b'x'; 0x10000])?;
            }
            return Ok(false);
        }
        to.write_all(&self.body[..len])?;
        let begun = Instant::now();
        while self.stall.is_some()
            && !stop.load(Ordering::Relaxed)
            && begun.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(self.cut.is_none() && self.stall.is_none())
    }
}

type Answer = dyn Fn(&Request, usize) -> Reply + Send + Sync;

/// A server on a port of this machine, until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Box<Answer>,
    requests: Mutex<Vec<Request>>,
    busy: AtomicUsize,
    most_busy: AtomicUsize,
    sent: AtomicU64,
    stop: AtomicBool,
}

impl Server {
    /// Starts a server; `answer` gets a request and its number.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            requests: Mutex::default(),
            busy: AtomicUsize::new(0),
            most_busy: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let server = Self { address, shared: shared.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stop.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(stream), shared) = (stream, shared.clone()) else { continue };
                std::thread::spawn(move || shared.serve(&stream));
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.shared.requests.lock().unwrap().len()
    }

    /// Returns the greatest number of requests that were answered at a time.
    pub fn most_busy(&self) -> usize {
        self.shared.most_busy.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes in the bodies of all replies.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Server({})", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader) {
            let number = {
                let mut requests = self.requests.lock().unwrap();
                requests.push(request.clone());
                requests.len() - 1
            };
            let busy = self.busy.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_busy.fetch_max(busy, Ordering::Relaxed);
            let mut reply = (self.answer)(&request, number);
            if request.method == "HEAD" {
                reply = reply.clone().with("Content-Length", &reply.body.len().to_string());
                reply.body.clear();
            }
            self.sent.fetch_add(reply.body.len() as u64, Ordering::Relaxed);
            let sent = reply.send(stream, &self.stop);
            self.busy.fetch_sub(1, Ordering::Relaxed);
            if !sent.unwrap_or(false) {
                break;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.take(8192).read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let method = words.next()?;
    let target = words.next()?;
    let mut headers = HashMap::new();
    for _ in 0..100 {
        let mut line = String::new();
        reader.take(8192).read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Some(Request { method, target, headers })
}
