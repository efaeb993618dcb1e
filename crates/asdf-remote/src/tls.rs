//! The settings for TLS.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use seekable::error::{Error, Kind, Result};

/// Variables that name further certificates.
const BUNDLES: [&str; 2] = ["AWS_CA_BUNDLE", "CURL_CA_BUNDLE"];

/// Variables that name the system's certificates.
const OF_SYSTEM: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Returns the settings for TLS: the certificates of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`, those of
/// `bundle`, and those that the environment names.
pub(super) fn config(bundle: Option<&Path>) -> Result<TlsConfig> {
    let system = rustls_native_certs::load_native_certs();
    if system.certs.is_empty()
        && let Some(name) = OF_SYSTEM.into_iter().find(|name| std::env::var_os(name).is_some())
    {
        let why = system.errors.first().map_or_else(|| "it has none".to_owned(), ToString::to_string);
        return Err(Error::new(Kind::Usage, format!("{name}: no certificate can be read: {why}")));
    }
    let own = system.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
    let mut roots: Vec<Certificate<'static>> = own.chain(certificates(bundle)?).collect();
    for name in BUNDLES {
        if let Some(path) = std::env::var_os(name).filter(|path| !path.is_empty()) {
            roots.extend(read(Path::new(&path), name)?);
        }
    }
    if roots.is_empty() {
        let why = match system.errors.first() {
            Some(error) => format!("the system's certificates can't be read: {error}"),
            None => "the system has no certificates (install ca-certificates), and there is no ca-bundle"
                .to_owned(),
        };
        return Err(Error::new(Kind::System(libc::EIO), why));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

/// Reads the certificates of `-o ca-bundle=FILE`.
pub(super) fn certificates(bundle: Option<&Path>) -> Result<Vec<Certificate<'static>>> {
    bundle.map_or(Ok(Vec::new()), |path| read(path, "ca-bundle"))
}

/// Reads the certificates of a file, which the option or variable `origin` names.
fn read(path: &Path, origin: &str) -> Result<Vec<Certificate<'static>>> {
    let pem = std::fs::read(path).map_err(|error| Error::from(error).of(path).within(origin))?;
    let items = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = items.collect();
    if certificates.is_empty() {
        Err(Error::new(Kind::Usage, format!("{origin}: the file has no certificate in PEM")).of(path))
    } else {
        Ok(certificates)
    }
}
