//! Failed requests: whether a retry may help, and the error for the reader.
//!
//! No message repeats a text of the library, which may contain a URL with secrets.

use seekable::error::{Error, Kind};
use ureq::Timeout;

use super::Reply;
use crate::address::Forbidden;
use crate::retry::{Failure, eio, retry_after};
use crate::s3::is_region;
use crate::version::{changed, text};

/// Returns the failure for an error of the library.
pub(super) fn of(error: ureq::Error) -> Failure {
    use ureq::Error as E;
    match error {
        E::Io(error) => of_io(&error),
        E::Timeout(Timeout::Connect) => {
            Failure::transient("the server can't be reached: the connection timed out")
        }
        E::Timeout(Timeout::Resolve) => Failure::transient("the server's name can't be resolved: no answer"),
        E::Timeout(_) => Failure::transient("the server stalls"),
        E::ConnectionFailed => Failure::transient("the server can't be reached"),
        E::HostNotFound => eio("the server's name is not known").into(),
        E::LargeResponseHeader(..) => eio("the headers of the server's reply are too large").into(),
        E::Protocol(_) | E::Http(_) | E::BodyStalled => eio("the server's reply is not valid HTTP").into(),
        E::Rustls(error) => of_tls(&error),
        E::Tls(_) | E::TlsRequired => eio("TLS with the server failed").into(),
        E::ConnectProxyFailed(_) | E::InvalidProxyUrl => eio("the proxy refuses the connection").into(),
        E::Other(error) if error.is::<Forbidden>() => {
            Error::new(Kind::System(libc::EACCES), error.to_string()).into()
        }
        _ => eio("the request failed").into(),
    }
}

fn of_io(error: &std::io::Error) -> Failure {
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return of_tls(error);
    }
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Failure::transient("the server closed the connection early"),
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => {
            eio("the server's reply is not valid HTTP").into()
        }
        _ if error.raw_os_error().is_none() && is_unknown_name(error) => {
            eio("the server's name is not known").into()
        }
        kind => Failure::transient(format!("the server can't be reached: {kind}")),
    }
}

/// True if the system says that a name does not exist, rather than that no name server answered.
fn is_unknown_name(error: &std::io::Error) -> bool {
    let text = error.to_string();
    text.contains("lookup address") && !text.contains("Temporary failure")
}

fn of_tls(error: &rustls::Error) -> Failure {
    use rustls::CertificateError as E;
    let rustls::Error::InvalidCertificate(why) = error else {
        return eio(format!("TLS with the server failed: {error}")).into();
    };
    let why = match why {
        E::UnknownIssuer => {
            let unknown = eio("the server's certificate is signed by an unknown authority");
            return unknown
                .advise("for a private authority, give its certificate with -o ca-bundle=FILE")
                .into();
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => "is for another host name",
        E::Expired | E::ExpiredContext { .. } => "has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => "is not valid yet",
        E::Revoked => "was revoked",
        // As `openssl req -x509` makes it. The type of the error is no part of rustls.
        why if format!("{why:?}").contains("CaUsedAsEndEntity") => {
            let authority =
                eio("the server's certificate is that of an authority, and servers may not use it");
            return authority.advise("make one for the server with basicConstraints=CA:FALSE").into();
        }
        _ => "is not valid",
    };
    eio(format!("the server's certificate {why}")).into()
}

/// True for the code of a refusal that other credentials may change.
pub(super) fn is_of_credentials(code: &str) -> bool {
    matches!(code, "ExpiredToken" | "TokenRefreshRequired" | "InvalidToken" | "InvalidAccessKeyId")
}

/// Returns the failure for a status that is neither success nor a followed redirect, and S3's code of it.
pub(super) fn of_status(mut reply: Reply) -> (Failure, String) {
    let status = reply.status;
    let has_login = reply.has_login;
    let server = match &reply.redirected {
        Some(origin) => format!("{origin}, to which the server redirects,"),
        None => "the server".to_owned(),
    };
    let wait = text(&reply.headers, "retry-after").and_then(retry_after);
    let body = start_of(&mut reply);
    let code = element(&body, "Code").unwrap_or_default();
    let region = text(&reply.headers, "x-amz-bucket-region").map(str::to_owned);
    let region = region.or_else(|| element(&body, "Region")).filter(|region| is_region(region));
    let is_of_region = matches!(
        &*code,
        "AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException"
    );
    let with_status = |message: &str| {
        let comma = if code.is_empty() { "" } else { ", " };
        format!("{message} (HTTP {status}{comma}{code})")
    };
    if let Some(region) = region.filter(|_| is_of_region || status == 301) {
        let what = with_status(&format!("the bucket is in the region {region}"));
        let error = Error::new(Kind::System(libc::EACCES), what);
        return (error.advise(format!("use -o region={region}")).into(), code);
    }
    let refused =
        |what: &str| Error::new(Kind::System(libc::EACCES), with_status(&format!("{server} {what}")));
    let failure = match status {
        401 if code.is_empty() && has_login => {
            refused("refuses the login").advise("correct the token, or the password").into()
        }
        401 if code.is_empty() => refused("asks for a login")
            .advise("give a token with -o token-file=FILE or ASDF_MOUNT_TOKEN, or a password in ~/.netrc")
            .into(),
        _ if code == "ExpiredToken" => {
            Error::new(Kind::System(libc::EACCES), with_status("the login has expired"))
                .advise("log in again, or renew the credentials")
                .into()
        }
        403 if code == "AccessDenied" && !has_login => refused("refuses access without a login")
            .advise("give AWS credentials, by AWS_PROFILE for instance")
            .into(),
        403 if code == "AccessDenied" => refused("refuses access with these credentials")
            .advise("use others; -o requester-pays reads buckets that charge their readers")
            .into(),
        401 | 403 => refused("refuses access").into(),
        404 | 410 => Error::new(Kind::NotFound, with_status("the object does not exist")).into(),
        412 => changed().into(),
        // 501 and 505 are final.
        408 | 425 | 429 | 500 | 502..=504 | 506..=599 => {
            Failure { retry_after: wait, ..Failure::transient(with_status("the server is not available")) }
        }
        _ => eio(with_status("the server answers with an error")).into(),
    };
    (failure, code)
}

/// Returns the start of an error reply of S3.
fn start_of(reply: &mut Reply) -> String {
    let is_xml = text(&reply.headers, "content-type").is_some_and(|kind| kind.contains("xml"));
    let mut start = [0; 1024];
    let read = if is_xml { reply.body.read(&mut start).unwrap_or(0) } else { 0 };
    String::from_utf8_lossy(&start[..read]).into_owned()
}

/// Returns the text of an element, such as the code `SlowDown`.
fn element(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let is_plain = text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain.then(|| text.to_owned())
}
