//! GET and HEAD requests: timeouts, redirects, and the meaning of failures.
//!
//! Redirects are followed here and not by the library, because each target is checked, and the login and the
//! signature are sent to the first server only.

mod agents;
mod failure;

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seekable::error::Result;
use ureq::http::header::{ACCEPT_ENCODING, AUTHORIZATION, IF_MATCH, IF_NONE_MATCH, RANGE};
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Request};

use self::agents::Agents;
use super::login::Logins;
use super::options::RemoteOptions;
use super::retry::{Answer, Failure, eio, too_late};
use super::s3::Buckets;
use super::stats::Counters;
use super::url::{Address, Url};
use super::version;

/// Maximum number of redirects of a request.
const REDIRECTS: usize = 5;
/// Timeouts of the parts of a request.
const CONNECT: Duration = Duration::from_secs(5);
const FIRST_BYTE: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(10);
/// Maximum length of a reply's headers.
const HEADERS: usize = 64 << 10;
/// The header with which the reader of a bucket agrees to pay.
const PAYER: HeaderName = HeaderName::from_static("x-amz-request-payer");

/// The origin of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The user mounted it. The address may be of any class.
    Mounted,
    /// A tree names it. The address must be public, or of a class that the mounted URLs have. The request is
    /// anonymous.
    Named,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) address: &'a Address,
    pub(super) trust: Trust,
    /// The query of a listing.
    pub(super) query: Option<&'a str>,
    /// Offsets of the first and the last byte of each range; none for the whole object.
    pub(super) ranges: &'a [(u64, u64)],
    pub(super) condition: Option<Condition<'a>>,
    /// True for a HEAD request, whose reply has no body.
    pub(super) is_head: bool,
}

/// A condition of a request, with a strong ETag.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition<'a> {
    /// If-Match: the server refuses to send bytes of another version.
    Is(&'a str),
    /// If-None-Match: the server sends bytes of another version only; else it answers 304.
    IsNot(&'a str),
}

/// A reply with the status 200, 206 or 416, or 304 if the request has a condition.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
    /// The URL after all redirects.
    pub(super) url: Url,
    /// True if the request had a login or a signature.
    pub(super) has_login: bool,
    /// The server to which another one has redirected the request.
    pub(super) redirected: Option<String>,
}

/// The body of a reply.
pub(super) struct Body {
    reader: ureq::BodyReader<'static>,
    counters: Arc<Counters>,
}

impl Body {
    /// Reads into `buf`; returns 0 at the end.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Answer<usize> {
        let read = self.reader.read(buf).map_err(|error| failure::of(ureq::Error::from(error)))?;
        self.counters.received(read);
        Ok(read)
    }

    /// Reads to the end, at most `most` bytes.
    pub(super) fn read_all(&mut self, most: usize) -> Answer<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut piece = vec![0; 64 << 10];
        loop {
            match self.read(&mut piece)? {
                0 => return Ok(bytes),
                read if bytes.len() + read > most => {
                    return Err(eio(format!("the server's reply is longer than {most} bytes")).into());
                }
                read => bytes.extend_from_slice(&piece[..read]),
            }
        }
    }
}

/// The HTTP client of a mount.
#[derive(Debug)]
pub(super) struct Client {
    agents: Agents,
    logins: Logins,
    requester_pays: bool,
    pub(super) buckets: Buckets,
    pub(super) counters: Arc<Counters>,
}

impl Client {
    pub(super) fn new(options: &RemoteOptions) -> Result<Self> {
        let agents = Agents::new(options)?;
        Ok(Self {
            agents,
            logins: Logins::of_user(options),
            requester_pays: options.requester_pays,
            buckets: Buckets::new(options)?,
            counters: Arc::default(),
        })
    }

    /// Fails if a tree may not name the address. The addresses of a host name are checked when a request is
    /// sent.
    pub(super) fn may_be_named(&self, address: &Address) -> Result<()> {
        self.agents.check_stranger(&self.url_of(address)?)
    }

    /// Sends a request and follows redirects.
    pub(super) fn get(&self, ask: &Ask<'_>, deadline: Instant) -> Answer<Reply> {
        let first = self.url_of(ask.address)?;
        let mut url = first.clone();
        for _ in 0..=REDIRECTS {
            let is_first = url.same_origin(&first);
            let reply = self.send(ask, &url, is_first, deadline)?;
            match reply.status {
                200 | 206 | 416 => return Ok(reply),
                304 if matches!(ask.condition, Some(Condition::IsNot(_))) => return Ok(reply),
                301 | 302 | 303 | 307 | 308 => {
                    if self.buckets.learns_region(ask.address, &reply.headers) {
                        return Err(Failure {
                            retry_after: Some(Duration::ZERO),
                            ..Failure::transient("the bucket is in another region")
                        });
                    }
                    let Some(location) = version::text(&reply.headers, "location") else {
                        if version::text(&reply.headers, "x-amz-bucket-region").is_some() {
                            return Err(failure::of_status(reply).0);
                        }
                        let status = reply.status;
                        let what = format!("the server redirects (HTTP {status}) without a valid Location");
                        return Err(eio(what).into());
                    };
                    url = self.redirected(&url, location)?;
                }
                _ if self.buckets.learns_region(ask.address, &reply.headers) => {
                    return Err(Failure {
                        retry_after: Some(Duration::ZERO),
                        ..Failure::transient("the bucket is in another region")
                    });
                }
                _ => {
                    let reply = Reply { redirected: (!is_first).then(|| url.origin()), ..reply };
                    let (failure, code) = failure::of_status(reply);
                    let is_signed = is_first && ask.trust == Trust::Mounted;
                    let is_refused = is_signed && failure::is_of_credentials(&code);
                    if is_refused && self.buckets.renews_credentials() {
                        return Err(Failure {
                            retry_after: Some(Duration::ZERO),
                            ..Failure::transient("the server refuses the credentials")
                        });
                    }
                    return Err(failure);
                }
            }
        }
        Err(eio(format!("the server redirects more than {REDIRECTS} times")).into())
    }

    fn url_of(&self, address: &Address) -> Result<Url> {
        match address {
            Address::Web(url) => Ok(url.clone()),
            Address::S3 { bucket, key } => self.buckets.url(bucket, key),
        }
    }

    fn redirected(&self, from: &Url, location: &str) -> Result<Url> {
        let to = from
            .resolve(location)
            .map_err(|error| eio(format!("a redirect is not followed: {}", error.message())))?;
        if from.https && !to.https {
            return Err(eio(format!("a redirect from https to {to} is not followed: it is not encrypted")));
        }
        Ok(to)
    }

    /// Sends one request. The login or the signature goes to the first server only, and only if the user
    /// mounted the address.
    fn send(&self, ask: &Ask<'_>, url: &Url, is_first: bool, deadline: Instant) -> Answer<Reply> {
        let mut url = url.clone();
        if is_first && let Some(query) = ask.query {
            url.query = Some(query.to_owned());
        }
        let text = url.request_text();
        let request = if ask.is_head { Request::head(text) } else { Request::get(text) };
        let mut request = request.header(ACCEPT_ENCODING, "identity");
        if !ask.ranges.is_empty() {
            let ranges: Vec<_> = ask.ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
            request = request.header(RANGE, format!("bytes={}", ranges.join(",")));
        }
        match ask.condition {
            Some(Condition::Is(etag)) => request = request.header(IF_MATCH, etag),
            Some(Condition::IsNot(etag)) => request = request.header(IF_NONE_MATCH, etag),
            None => {}
        }
        let mut request = request.body(()).map_err(|_| eio("the URL can't be sent in a request"))?;
        if is_first && ask.trust == Trust::Mounted {
            self.authorise(ask.address, &mut request)?;
        }
        let has_login = request.headers().contains_key(AUTHORIZATION);
        let agent = match ask.trust {
            Trust::Mounted if is_first => self.agents.mounted(&url)?,
            _ => self.agents.stranger(&url)?,
        };
        let rest = deadline.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero());
        let rest = rest.ok_or_else(too_late)?;
        let request = agent.configure_request(request);
        let request = request
            .timeout_global(Some(rest))
            .timeout_resolve(Some(CONNECT.min(rest)))
            .timeout_connect(Some(CONNECT.min(rest)))
            .timeout_send_request(Some(FIRST_BYTE.min(rest)))
            .timeout_recv_response(Some(FIRST_BYTE.min(rest)))
            .timeout_per_read(Some(STALL.min(rest)))
            .build();
        self.counters.request();
        let response = agent.run(request).map_err(failure::of)?;
        let (parts, body) = response.into_parts();
        let body = Body { reader: body.into_reader(), counters: self.counters.clone() };
        Ok(Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            url,
            has_login,
            redirected: None,
        })
    }

    fn authorise(&self, address: &Address, request: &mut Request<()>) -> Result<()> {
        match address {
            Address::Web(url) => {
                if let Some(login) = self.logins.header(url)? {
                    request.headers_mut().insert(AUTHORIZATION, login);
                }
                Ok(())
            }
            Address::S3 { bucket, .. } => {
                if self.requester_pays {
                    request.headers_mut().insert(PAYER, HeaderValue::from_static("requester"));
                }
                self.buckets.sign(bucket, request)
            }
        }
    }
}
