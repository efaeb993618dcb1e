//! The library's agents: one for mounted URLs and one for strangers' URLs, each without and with TLS.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seekable::error::{Error, Kind, Result};
use ureq::http::Uri;
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, RustlsConnector, TcpConnector};
use ureq::{Agent, Proxy};

use super::HEADERS;
use crate::address::{Addresses, CheckingResolver, Class, forbidden};
use crate::cancel::CancelConnector;
use crate::options::RemoteOptions;
use crate::tls;
use crate::url::Url;

/// Time after which an idle connection is closed, before a firewall drops it.
const IDLE_AGE: Duration = Duration::from_secs(15);

/// The agents of a mount. They are made by the first request.
#[derive(Debug)]
pub(super) struct Agents {
    ca_bundle: Option<PathBuf>,
    /// Maximum number of idle connections to a server.
    idle: usize,
    addresses: Arc<Addresses>,
    proxy: Option<Proxy>,
    plain: OnceLock<Pair>,
    secure: OnceLock<Pair>,
}

/// Two agents that share no connection.
#[derive(Debug)]
struct Pair {
    mounted: Agent,
    stranger: Agent,
}

impl Agents {
    pub(super) fn new(options: &RemoteOptions) -> Result<Self> {
        let agents = Self {
            ca_bundle: options.ca_bundle.clone(),
            idle: options.max_requests,
            addresses: Arc::default(),
            proxy: Proxy::try_from_env(),
            plain: OnceLock::new(),
            secure: OnceLock::new(),
        };
        // A wrong bundle is reported when mounting.
        tls::certificates(options.ca_bundle.as_deref()).map(|_| agents)
    }

    /// Returns the agent for a mounted URL, which may be anywhere.
    pub(super) fn mounted(&self, url: &Url) -> Result<&Agent> {
        Ok(&self.pair(url.https)?.mounted)
    }

    /// Returns the agent for a redirect, or for a URL that a tree names.
    pub(super) fn stranger(&self, url: &Url) -> Result<&Agent> {
        self.check_stranger(url)?;
        Ok(&self.pair(url.https)?.stranger)
    }

    /// Fails if the URL itself shows that a stranger may not lead there.
    pub(super) fn check_stranger(&self, url: &Url) -> Result<()> {
        if url.ip().is_some_and(|ip| !self.addresses.may_be_asked(ip)) {
            return Err(forbidden(&url.host));
        }
        // A proxy resolves the name, so the address can't be checked. A service that is not meant for the
        // Internet has no certificate for a stranger's name.
        let is_safe = url.https && url.ip().is_none_or(|ip| Class::of(ip) == Class::Public);
        let is_proxied = self.proxy.as_ref().is_some_and(|proxy| {
            let uri = url.request_text().parse::<Uri>();
            uri.is_ok_and(|uri| !proxy.is_no_proxy(&uri))
        });
        if is_proxied && !is_safe {
            let why = format!(
                "{} is not contacted through the proxy, because the URL does not begin with https://",
                url.host
            );
            return Err(Error::new(Kind::System(libc::EACCES), why));
        }
        Ok(())
    }

    fn pair(&self, https: bool) -> Result<&Pair> {
        let slot = if https { &self.secure } else { &self.plain };
        if let Some(pair) = slot.get() {
            return Ok(pair);
        }
        let tls = if https { tls::config(self.ca_bundle.as_deref())? } else { TlsConfig::default() };
        let pair = Pair { mounted: self.agent(&tls, true), stranger: self.agent(&tls, false) };
        Ok(slot.get_or_init(|| pair))
    }

    fn agent(&self, tls: &TlsConfig, is_mounted: bool) -> Agent {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_response_header_size(HEADERS)
            .max_idle_connections(2 * self.idle)
            .max_idle_connections_per_host(self.idle)
            .max_idle_age(IDLE_AGE)
            .user_agent(concat!("asdf-mount/", env!("CARGO_PKG_VERSION")))
            .proxy(self.proxy.clone())
            .tls_config(tls.clone())
            .build();
        let resolver = CheckingResolver {
            addresses: self.addresses.clone(),
            is_mounted,
            proxy: self.proxy.as_ref().map(|proxy| (proxy.host().to_owned(), proxy.port())),
            inner: DefaultResolver::default(),
        };
        let connector = ConnectProxyConnector::default()
            .chain(TcpConnector::default())
            .chain(CancelConnector)
            .chain(RustlsConnector::default());
        Agent::with_parts(config, connector, resolver)
    }
}
