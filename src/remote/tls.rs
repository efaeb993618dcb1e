//! The settings for TLS.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use crate::error::{Error, Kind, Result};

/// Returns the settings for TLS: the system's certificates, and those of `bundle`.
pub(super) fn config(bundle: Option<&Path>) -> Result<TlsConfig> {
    let system = rustls_native_certs::load_native_certs();
    let system = system.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
    let roots: Vec<Certificate<'static>> = system.chain(certificates(bundle)?).collect();
    if roots.is_empty() {
        let why = "the system has no certificates (install ca-certificates), and there is no ca-bundle";
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
    let Some(path) = bundle else { return Ok(Vec::new()) };
    let pem = std::fs::read(path).map_err(|error| Error::from(error).of(path).within("ca-bundle"))?;
    let items = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = items.collect();
    if certificates.is_empty() {
        Err(Error::new(Kind::Usage, "ca-bundle: the file has no certificate in PEM").of(path))
    } else {
        Ok(certificates)
    }
}
