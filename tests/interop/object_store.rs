//! Objects in S3: an independent server (moto) checks signatures and If-Match, and lists buckets.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use common::asdf::{AsdfBuilder, Block};
use common::case::errno;
use common::mount::{Mounted, fresh_folder, program};
use common::python::python;

/// An offset in the block of a large file that opening does not read.
const FAR: u64 = 3 << 20;

/// The server with a bucket, until it is dropped.
struct Bucket {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    options: String,
    key: String,
    secret: String,
}

impl Bucket {
    fn serve(folder: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/serve_s3.py");
        let mut command = Command::new(python());
        command.arg(script).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let (input, output) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
        let (options, key, secret) = (String::new(), String::new(), String::new());
        let mut bucket = Self { server, input, output, options, key, secret };
        bucket.options = format!("endpoint={}", bucket.line());
        (bucket.key, bucket.secret) = (bucket.line(), bucket.line());
        bucket
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the server ended");
        line.trim_end().to_owned()
    }

    fn put(&mut self, name: &str, file: &Path) {
        writeln!(self.input.as_ref().unwrap(), "{name} {}", file.display()).unwrap();
        assert_eq!(self.line(), "done");
    }

    /// Sets the user's credentials.
    fn sign(&self, command: &mut Command, secret: &str) {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in names.filter(|name| name.starts_with("AWS_") || name.to_lowercase().ends_with("_proxy")) {
            command.env_remove(name);
        }
        command.env("AWS_ACCESS_KEY_ID", &self.key).env("AWS_SECRET_ACCESS_KEY", secret);
    }

    fn run(&self, secret: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program());
        self.sign(&mut command, secret);
        command.args(arguments).args(["-o", &self.options]).output().unwrap()
    }

    fn mount(&self, secret: &str, source: &str) -> Result<Mounted, Output> {
        Mounted::prepared(["-o", &self.options, source], |command| self.sign(command, secret))
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // The server ends with its input.
        self.input = None;
        let _ = self.server.wait();
    }
}

fn large(seed: u8) -> Vec<u8> {
    AsdfBuilder::new().block(Block::new(vec![seed; 5 << 20])).build().bytes
}

#[test]
fn signed_requests_are_accepted_by_another_server() {
    let (folder, other) = (fresh_folder(), fresh_folder());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample.asdf");
    fs::create_dir_all(folder.path().join("p/deep er")).unwrap();
    for name in ["p/a.asdf", "p/deep er/b+c.asdf"] {
        fs::copy(&example, folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("p/large.asdf"), large(1)).unwrap();
    let mut bucket = Bucket::serve(folder.path());
    let secret = bucket.secret.clone();
    for key in ["p/both", "p/both/deeper/x.asdf"] {
        bucket.put(key, &example);
    }

    let mounted = bucket.mount(&secret, "s3://roman/p/").unwrap();
    let mut names: Vec<_> =
        fs::read_dir(mounted.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.asdf", "both", "both%-", "deep er", "large.asdf"]);
    let local = Mounted::file(&example);
    let image = fs::read(local.path("arrays/image.npy")).unwrap();
    for name in ["deep er/b+c.asdf", "both%-/deeper/x.asdf"] {
        assert!(fs::read(mounted.path(name).join("arrays/image.npy")).unwrap() == image, "{name}");
    }
    let both = mounted.path("both");
    assert!(both.is_file() && fs::read(both).unwrap() == fs::read(&example).unwrap());

    // If-Match: bytes of the new object do not reach readers of the old one.
    let block = File::open(mounted.path("large.asdf/blocks/0.bin")).unwrap();
    let (mut piece, replaced) = ([0; 10], other.path().join("large.asdf"));
    assert_eq!((block.read_at(&mut piece, 0).unwrap(), piece), (10, [1; 10]));
    fs::write(&replaced, large(2)).unwrap();
    bucket.put("p/large.asdf", &replaced);
    assert_eq!(errno(block.read_at(&mut piece, FAR)), libc::ESTALE);

    let output = bucket.run(&secret, &["--catalog", "-q", "s3://roman/p/"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("\"etag\":\"\\\"")).count(), 5, "{lines}");
    let old = other.path().join("old");
    fs::write(&old, lines.replace("\"format\":\"asdf\"", "\"format\":\"copy\"")).unwrap();
    fs::write(&replaced, large(3)).unwrap();
    bucket.put("p/large.asdf", &replaced);
    let since = ["--catalog", "-q", "s3://roman/p/", "--since", old.to_str().unwrap()];
    let lines = String::from_utf8(bucket.run(&secret, &since).stdout).unwrap();
    assert_eq!(lines.matches("\"format\":\"copy\"").count(), 4, "{lines}");
    let output = bucket.run(&secret, &["--check", "s3://roman/p/"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.starts_with("5 files, ") && said.contains(", sound"), "{said}");
}

#[test]
fn wrong_signatures_are_refused_with_the_reason() {
    let folder = fresh_folder();
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample.asdf"),
        folder.path().join("a.asdf"),
    )
    .unwrap();
    let bucket = Bucket::serve(folder.path());
    let refused = |output: Output, says: &str| {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("s3://roman/a.asdf: the server refuses access (HTTP 403"), "{stderr}");
        assert!(stderr.contains(says) && !stderr.contains("wrong"), "{stderr}");
    };
    refused(bucket.mount("wrong", "s3://roman/a.asdf").unwrap_err(), "SignatureDoesNotMatch");
    let cat = ["--cat", "s3://roman/a.asdf", "tree.yaml"];
    refused(bucket.run("wrong", &cat), "SignatureDoesNotMatch");
    refused(bucket.run(&bucket.secret, &[&cat[..], &["-o", "anonymous"]].concat()), "");
    let stderr = String::from_utf8(bucket.mount("wrong", "s3://roman/").unwrap_err().stderr).unwrap();
    assert!(stderr.contains("s3://roman/: the server refuses access (HTTP 403"), "{stderr}");
}

#[test]
fn the_endpoint_of_the_environment_or_the_profile_is_used() {
    let (folder, home) = (fresh_folder(), fresh_folder());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample.asdf");
    fs::create_dir(folder.path().join("p")).unwrap();
    fs::copy(&example, folder.path().join("p/a.asdf")).unwrap();
    let bucket = Bucket::serve(folder.path());
    let url = bucket.options.strip_prefix("endpoint=").unwrap();
    fs::create_dir(home.path().join(".aws")).unwrap();
    let config = format!(
        "[default]\nregion = us-east-1\nendpoint_url = http://127.0.0.1:1\n[profile ours]\nservices = s\n\
         [services s]\ns3 =\n  endpoint_url = {url}\n"
    );
    fs::write(home.path().join(".aws/config"), config).unwrap();
    let closed = "http://127.0.0.1:1";
    for variables in [
        &[("AWS_ENDPOINT_URL", url)][..],
        &[("AWS_ENDPOINT_URL", closed), ("AWS_ENDPOINT_URL_S3", url)],
        &[("AWS_PROFILE", "ours")],
    ] {
        let prepare = |command: &mut Command| {
            bucket.sign(command, &bucket.secret);
            command.env("HOME", home.path()).envs(variables.iter().copied());
        };
        let mounted = Mounted::prepared(["s3://roman/p/"], prepare).unwrap();
        let tree = fs::read(mounted.path("a.asdf/tree.yaml")).unwrap();
        assert!(tree.starts_with(b"#ASDF"), "{variables:?}");
        let mut cat = Command::new(program());
        prepare(&mut cat);
        let output = cat.args(["--cat", "s3://roman/p/a.asdf", "tree.yaml"]).output().unwrap();
        assert!(output.stdout == tree, "{variables:?}: {output:?}");
    }
    // The option counts before all settings.
    let mut cat = Command::new(program());
    bucket.sign(&mut cat, &bucket.secret);
    cat.env("HOME", home.path()).env("AWS_ENDPOINT_URL_S3", closed);
    cat.args(["--cat", "-o", &bucket.options, "s3://roman/p/a.asdf", "tree.yaml"]);
    assert!(cat.output().unwrap().stdout.starts_with(b"#ASDF"));
    let mut cat = Command::new(program());
    bucket.sign(&mut cat, &bucket.secret);
    cat.env("HOME", home.path()).env("AWS_ENDPOINT_URL", "minio:9000");
    let output = cat.args(["--cat", "s3://roman/p/a.asdf", "tree.yaml"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("AWS_ENDPOINT_URL") && output.status.code() == Some(2), "{stderr}");
}
