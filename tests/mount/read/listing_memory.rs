//! The memory for listings of servers does not grow with what a server sends.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

use crate::on_servers::{mount, plain};
use common::mount::{fresh_folder, program, wait_until};
use common::server::{Reply, Server};

/// Returns the peak memory of a process.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Serves a bucket with long ETags.
fn bucket(entries: usize) -> Server {
    const PAGE: usize = 1000;
    let tag = "t".repeat(1000);
    Server::start(move |request, _| {
        let token = request.target.split("continuation-token=").nth(1);
        let first = token.map_or(0, |token| token.split('&').next().unwrap().parse::<usize>().unwrap());
        let end = (first + PAGE).min(entries);
        let mut page = String::from("<ListBucketResult>");
        for n in first..end {
            page += &format!("<Contents><Key>p/{n:08}</Key><Size>5</Size><ETag>\"{tag}\"</ETag></Contents>");
        }
        if end < entries {
            let next = "<IsTruncated>true</IsTruncated><NextContinuationToken>";
            page += &format!("{next}{end}</NextContinuationToken>");
        }
        Reply::status(200).body("application/xml", &(page + "</ListBucketResult>"))
    })
}

#[test]
fn long_tags_of_a_listing_are_not_kept() {
    const ENTRIES: usize = 50_000;
    let server = bucket(ENTRIES);
    let mounted = mount(&format!("ro,endpoint={}", server.url("")), "s3://data/p/");
    assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), ENTRIES);
    let peak = peak(mounted.daemon().unwrap());
    eprintln!("{} MiB for {ENTRIES} names", peak >> 20);
    assert!(peak <= 72 << 20, "{peak} bytes");
}

/// A program that runs until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes longest. Only `scripts/test --all` runs it.
mod rare {
    use super::*;

    #[test]
    fn a_directory_that_contains_itself_takes_bounded_memory() {
        const ENTRIES: usize = 40_000;
        let links: String =
            (0..ENTRIES).map(|n| format!("<a href=\"{}/\">x</a>\n", n + 10_usize.pow(18))).collect();
        let page =
            format!("<title>Index of /x</title>{}", links.replace("/\"", &format!("{}/\"", "x".repeat(200))));
        let server = Server::start(move |_, _| Reply::status(200).body("text/html", &page));
        let (mut command, dir) = (Command::new(program()), fresh_folder());
        plain(&mut command);
        let log = dir.path().join("log");
        command
            .args(["--check", "-q", &server.url("/x/")])
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap());
        let checking = Running(command.spawn().unwrap());
        // Each level holds a page, until all of them are too long. Then the walk goes on.
        assert!(wait_until(|| fs::read_to_string(&log)
            .unwrap()
            .contains("takes more than 128 MiB of memory")));
        let peak = peak(checking.0.id());
        eprintln!("{} MiB for {} pages", peak >> 20, server.count());
        assert!(server.count() < 30 && peak <= 256 << 20, "{} pages, {peak} bytes", server.count());
    }
}
