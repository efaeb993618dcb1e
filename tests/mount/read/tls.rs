//! Files on a web server (nginx) with TLS, whose certificate a private authority has signed.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::on_servers::{example, mount, plain, run, try_mount};
use common::mount::{fresh_folder, program, wait_until};
use common::names;

/// nginx, until it is dropped.
pub(crate) struct Nginx {
    server: Child,
    /// The certificate of the authority.
    authority: PathBuf,
    port: u16,
}

impl Nginx {
    /// Serves the directory `www` in a directory, in which it keeps its own files, with TLS.
    fn serve(dir: &Path) -> Self {
        certificates(dir);
        let at = dir.display();
        Self::start(
            dir,
            "ssl",
            &format!("ssl_certificate {at}/server.pem; ssl_certificate_key {at}/key.pem;"),
        )
    }

    /// Serves the directory `www` in a directory, in which it keeps its own files, without TLS.
    pub(crate) fn plain(dir: &Path) -> Self {
        Self::start(dir, "", "")
    }

    fn start(dir: &Path, listen: &str, more: &str) -> Self {
        // The listener is closed at once, so that nginx can take the port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = dir.display();
        let settings = format!(
            "daemon off; pid {at}/pid; error_log {at}/log; worker_processes 1; user root;\n\
             events {{}}\n\
             http {{ access_log off; client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c;\n\
             uwsgi_temp_path {at}/d; scgi_temp_path {at}/e;\n\
             server {{ listen 127.0.0.1:{port} {listen}; {more}\n\
             root {at}/www; autoindex on; }} }}\n"
        );
        fs::write(dir.join("nginx.conf"), settings).unwrap();
        let server =
            Command::new("nginx").arg("-c").arg(dir.join("nginx.conf")).stderr(Stdio::null()).spawn();
        let server = Self { server: server.unwrap(), authority: dir.join("authority.pem"), port };
        assert!(wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok()), "nginx does not start");
        server
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    pub(crate) fn plain_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // nginx ends its worker on SIGTERM.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.server),
            rustix::process::Signal::TERM,
        );
        let _ = self.server.wait();
    }
}

/// Makes an authority, and a certificate of `localhost` that it has signed.
fn certificates(dir: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let script = format!(
        "openssl req -x509 {key} -keyout ca.pem -out authority.pem -subj '/CN=Our own authority'
         openssl req {key} -keyout key.pem -out request.pem -subj /CN=localhost
         echo subjectAltName=DNS:localhost >names
         openssl x509 -req -in request.pem -CA authority.pem -CAkey ca.pem -CAcreateserial -days 2 \
             -extfile names -out server.pem"
    );
    let made = Command::new("sh").args(["-euc", &script]).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn a_private_authority_is_trusted_if_its_certificate_is_given() {
    let dir = fresh_folder();
    fs::create_dir_all(dir.path().join("www/deep")).unwrap();
    for name in ["www/a b.asdf", "www/deep/c.asdf"] {
        fs::write(dir.path().join(name), example()).unwrap();
    }
    let nginx = Nginx::serve(dir.path());
    let (url, local) = (nginx.url("/a%20b.asdf"), dir.path().join("www/a b.asdf"));
    let local = local.to_str().unwrap();
    let image = run(&["--cat", local, "arrays/image.npy"]).stdout;
    assert!(image.starts_with(b"\x93NUMPY"));

    let bundle = format!("ca-bundle={}", nginx.authority.display());
    let mounted = mount(&bundle, &nginx.url("/"));
    assert_eq!(names(mounted.root()), ["a b.asdf", "deep"]);
    assert!(fs::read(mounted.path("deep/c.asdf/arrays/image.npy")).unwrap() == image);
    mounted.unmount();

    assert!(run(&["--cat", "-o", &bundle, &url, "arrays/image.npy"]).stdout == image);
    assert!(run(&["--ls", "-o", &bundle, &url, "arrays"]).stdout == run(&["--ls", local, "arrays"]).stdout);
    let into = dir.path().join("copy");
    let output = run(&["--extract", "-o", &bundle, &url, "arrays", "-C", into.to_str().unwrap()]);
    assert!(
        output.status.success() && fs::read(into.join("arrays/image.npy")).unwrap() == image,
        "{output:?}"
    );
    let output = run(&["--check", "-o", &bundle, &url]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let lines = run(&["--catalog", "-q", "-o", &bundle, &nginx.url("/")]).stdout;
    assert_eq!(String::from_utf8(lines).unwrap().matches("\"format\":\"asdf\"").count(), 2);

    // The variables of other programs.
    let authority = nginx.authority.to_str().unwrap();
    for (name, path, is_trusted) in [
        ("SSL_CERT_FILE", authority, true),
        ("AWS_CA_BUNDLE", authority, true),
        ("CURL_CA_BUNDLE", authority, true),
        ("CURL_CA_BUNDLE", "/none.pem", false),
        ("AWS_CA_BUNDLE", local, false),
    ] {
        let mut command = Command::new(program());
        plain(&mut command);
        let output = command.args(["--cat", &url, "arrays/image.npy"]).env(name, path).output().unwrap();
        assert_eq!(output.stdout == image, is_trusted, "{name} {output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(is_trusted || stderr.contains(name) && stderr.contains(path), "{stderr}");
    }

    let without = [
        try_mount("ro", &url).unwrap_err(),
        run(&["--cat", &url, "tree.yaml"]),
        run(&["--check", &url]),
        run(&["--refs", &url]),
    ];
    for output in without {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && stderr.lines().next().unwrap().contains("/a%20b.asdf: "),
            "{stderr}"
        );
        let why = "the server's certificate is signed by an unknown authority; for a private authority, give its \
                   certificate with -o ca-bundle=FILE\n";
        assert!(stderr.contains(why), "{stderr}");
    }
    let by_address = url.replace("localhost", "127.0.0.1");
    let output = run(&["--cat", "-o", &bundle, &by_address, "tree.yaml"]);
    let why = ": the server's certificate is for another host name\n";
    assert!(output.stderr.ends_with(why.as_bytes()), "{output:?}");
}
