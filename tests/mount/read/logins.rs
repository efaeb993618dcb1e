//! Logins for web servers: tokens and `.netrc`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::on_servers::{example, plain};
use common::mount::{Mounted, fresh_folder, program};
use common::server::{Reply, Request, Server};
use common::site::Site;

/// Base64 of `me:secret`.
const PASSWORD: &str = "Basic bWU6c2VjcmV0";

/// Starts a server with a file that asks for one of these headers.
fn guarded(logins: &'static [&'static str]) -> Site {
    let site =
        Site::web(
            move |request: &Request, reply| {
                if logins.contains(&request.header("authorization")) { reply } else { Reply::status(401) }
            },
        );
    site.put("x.asdf", example());
    site
}

/// Runs the program with these variables and this home directory.
fn run(home: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    plain(&mut command);
    command.env("HOME", home).envs(variables.iter().copied()).args(arguments).output().unwrap()
}

fn reads(output: &Output) -> bool {
    output.status.success() && output.stdout.starts_with(b"#ASDF")
}

#[test]
fn a_server_gets_the_token_that_is_current() {
    let site = guarded(&["Bearer first", "Bearer second"]);
    let home = fresh_folder();
    let file = home.path().join("token");
    fs::write(&file, "first\n").unwrap();
    let url = site.server.url("/x.asdf");
    let option = format!("token-file={}", file.display());
    assert!(reads(&run(home.path(), &[], &["--cat", "-o", &option, &url, "tree.yaml"])));
    let variable = [("ASDF_MOUNT_TOKEN", "second")];
    assert!(reads(&run(home.path(), &variable, &["--cat", &url, "tree.yaml"])));

    let mounted = Mounted::prepared(["-o", &option, &url], plain).unwrap();
    fs::read(mounted.path("tree.yaml")).unwrap();
    let before = site.server.count();
    fs::write(&file, "second").unwrap();
    fs::read(mounted.path("blocks/0.bin")).unwrap();
    let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
    mounted.unmount();
    let requests = site.server.requests();
    let sent = |request: &Request| request.header("authorization").to_owned();
    assert!(requests[before..].iter().all(|request| sent(request) == "Bearer second"));
    assert!(!status.contains("first") && !status.contains("second"), "{status}");

    for (text, says) in [("", "not a token"), ("two words", "not a token"), ("wrong", "HTTP 401")] {
        fs::write(&file, text).unwrap();
        let output = run(home.path(), &[], &["--cat", "-o", &option, &url, "tree.yaml"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && stderr.contains(says) && !stderr.contains("two words"),
            "{stderr}"
        );
    }
    fs::remove_file(&file).unwrap();
    let output = run(home.path(), &[], &["--cat", "-o", &option, &url, "tree.yaml"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("token-file: no such file"));
}

#[test]
fn a_token_goes_to_one_server_and_not_along_with_a_redirect() {
    let other = guarded(&["Bearer secret"]);
    let target = other.server.url("/x.asdf");
    let redirect = target.clone();
    let first = Server::start(move |_, _| Reply::status(302).with("Location", &redirect));
    let home = fresh_folder();
    let variable = [("ASDF_MOUNT_TOKEN", "secret")];
    let output = run(home.path(), &variable, &["--cat", &first.url("/x.asdf"), "tree.yaml"]);
    assert!(!output.status.success());
    assert!(first.requests().iter().all(|request| request.header("authorization") == "Bearer secret"));
    assert!(other.server.count() > 0);
    assert!(other.server.requests().iter().all(|request| request.header("authorization").is_empty()));

    // The first server that is asked gets the token, and the second one none.
    let asked = guarded(&["Bearer secret"]);
    let output = run(home.path(), &variable, &["--diff", &asked.server.url("/x.asdf"), &target]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("give the login for "), "{stderr}");
    let tokens = |site: &Site| {
        site.server.requests().iter().any(|request| !request.header("authorization").is_empty())
    };
    assert!(tokens(&asked) != tokens(&other));
}

#[test]
fn the_list_of_processes_does_not_show_a_login() {
    let site = guarded(&[PASSWORD]);
    let url = format!("{}?sign=secret", site.server.url("/x.asdf").replace("http://", "http://me:secret@"));
    let mounted = Mounted::prepared(["-o", "views=arrays", &url], plain).unwrap();
    assert!(mounted.tree().starts_with(b"#ASDF"));
    let daemon = mounted.daemon().unwrap();
    let line = fs::read(format!("/proc/{daemon}/cmdline")).unwrap();
    let line = String::from_utf8(line).unwrap().replace('\0', " ");
    assert!(line.contains(&site.server.url("/x.asdf")) && line.contains(" -o views=arrays "), "{line}");
    assert!(!line.contains("secret"), "{line}");
    assert_eq!(fs::read_to_string(format!("/proc/{daemon}/comm")).unwrap(), "asdf-mount\n");
    mounted.unmount();
}

#[test]
fn a_login_of_netrc_is_sent_to_its_host() {
    let site = guarded(&[PASSWORD]);
    let url = site.server.url("/x.asdf");
    let home = fresh_folder();
    let netrc = home.path().join(".netrc");
    let cat =
        |variables: &[(&str, &str)], url: &str| run(home.path(), variables, &["--cat", url, "tree.yaml"]);
    let says = |output: Output, what: &str| {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(what) && !stderr.contains("secret"), "{stderr}");
    };
    says(cat(&[], &url), "the server asks for a login (HTTP 401); give a token with -o token-file=FILE");

    fs::write(
        &netrc,
        "machine other.org port 80 login you password no\nmachine 127.0.0.1 login me password secret\n",
    )
    .unwrap();
    fs::set_permissions(&netrc, Permissions::from_mode(0o644)).unwrap();
    let advice = format!("chmod 600 {}", netrc.display());
    says(cat(&[], &url), &advice);
    fs::set_permissions(&netrc, Permissions::from_mode(0o600)).unwrap();
    assert!(reads(&cat(&[], &url)));
    assert!(reads(&cat(&[], &url.replace("http://", "http://me@"))));
    says(
        cat(&[], &url.replace("http://", "http://you@")),
        "the server refuses the login (HTTP 401); correct",
    );
    let token = |text| [("ASDF_MOUNT_TOKEN", text)];
    says(cat(&token("secret"), &url), "the server refuses the login (HTTP 401)");
    says(cat(&token("Bearer secret"), &url), "ASDF_MOUNT_TOKEN: it is not a token alone");

    let named = home.path().join("named");
    let variable = [("NETRC", named.to_str().unwrap())];
    says(cat(&variable, &url), "no such file");
    fs::write(&named, "default login me password secret").unwrap();
    assert!(reads(&cat(&variable, &url)));
    fs::write(&named, "machine 127.0.0.1 login me\npasword secret").unwrap();
    says(cat(&variable, &url), "line 2");
}

#[test]
fn a_reader_of_a_bucket_agrees_to_pay() {
    let site = Site::s3();
    site.put("data/x.asdf", example());
    let home = fresh_folder();
    let url = site.server.url("");
    for (option, header) in [("region=eu-west-1", ""), ("requester-pays", "requester")] {
        let options = format!("endpoint={url},{option}");
        let keys = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let before = site.server.count();
        assert!(reads(&run(home.path(), &keys, &["--cat", "-o", &options, "s3://data/x.asdf", "tree.yaml"])));
        for request in &site.server.requests()[before..] {
            assert_eq!(request.header("x-amz-request-payer"), header);
            let is_signed = request.header("authorization").contains("x-amz-request-payer");
            assert_eq!(is_signed, !header.is_empty());
        }
    }
}

#[test]
fn a_command_for_credentials_starts_without_privileges() {
    let site = Site::s3();
    site.put("data/x.asdf", example());
    let home = fresh_folder();
    let [script, status] = ["keys", "status"].map(|name| home.path().join(name));
    let keys = r#"{"Version": 1, "AccessKeyId": "its-key", "SecretAccessKey": "secret"}"#;
    fs::write(&script, format!("cat /proc/self/status >'{}'\necho '{keys}'\n", status.display())).unwrap();
    fs::create_dir(home.path().join(".aws")).unwrap();
    let config = format!("[default]\ncredential_process = sh '{}'\n", script.display());
    fs::write(home.path().join(".aws/config"), config).unwrap();
    let options = format!("endpoint={}", site.server.url(""));
    let prepare = |command: &mut Command| {
        plain(command);
        command.env("HOME", home.path());
    };
    let mounted = Mounted::prepared(["-o", &options, "s3://data/x.asdf"], prepare).unwrap();
    assert!(fs::read(mounted.path("tree.yaml")).unwrap().starts_with(b"#ASDF"));
    mounted.unmount();
    let signed = |request: &Request| request.header("authorization").contains("Credential=its-key/");
    assert!(site.server.requests().iter().all(signed));
    assert!(fs::read_to_string(status).unwrap().contains("NoNewPrivs:\t1\n"));
}
