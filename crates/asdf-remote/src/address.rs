//! Rules for the network addresses to which requests may be sent.
//!
//! The user chooses the mounted URL, so it may be anywhere. A redirect or a tree is data from strangers. It
//! may lead only to public addresses, and to addresses of the classes that the mounted URL itself has. It must
//! not make the daemon ask a cloud's metadata service or a neighbour in a private network.
//!
//! The check is part of name resolution: the connection goes to the address that was checked. A stranger
//! gains nothing from a name that resolves to another address later.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use seekable::error::{Error, Kind};
use seekable::sync::locked;

/// Time for which the addresses of a resolved name are reused.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum number of remembered names.
const NAMES: usize = 256;

/// Addresses at which clouds serve credentials and settings to their machines.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// The reach of a network address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Anywhere in the Internet.
    Public,
    /// A private network.
    Private,
    /// This link, and the metadata services of clouds.
    LinkLocal,
    /// This machine.
    Loopback,
    /// Multicast, reserved and other addresses that no server has.
    Special,
}

impl Class {
    /// Returns the class of an address.
    pub(super) fn of(address: IpAddr) -> Self {
        if METADATA.contains(&address) {
            return Self::LinkLocal;
        }
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127, ..] | [0, 0, 0, 0] => Self::Loopback,
            [169, 254, ..] => Self::LinkLocal,
            [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => Self::Private,
            [0 | 224..=255, ..] | [192, 0, 0 | 2, _] | [198, 18 | 19, ..] => Self::Special,
            [198, 51, 100, _] | [203, 0, 113, _] => Self::Special,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let v4 = |high: u16, low: u16| {
            Self::of(IpAddr::V4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))))
        };
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Self::Loopback,
            // An IPv4 address: mapped, compatible, translated (NAT64), 6to4.
            [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
            [0x2002, high, low, ..] => v4(high, low),
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Self::Private,
            [0x2001, 0xdb8 | 0, ..] | [0xff00..=0xffff, ..] => Self::Special,
            [0x2000..=0x3fff, ..] => Self::Public,
            _ => Self::Special,
        }
    }
}

/// The classes of addresses that the mounted URLs have, and resolved names.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    mounted: Mutex<BTreeSet<Class>>,
    names: Mutex<HashMap<String, (Instant, Vec<SocketAddr>)>>,
}

impl Addresses {
    /// True if a redirect or a tree may lead to the address.
    pub(super) fn may_be_asked(&self, address: IpAddr) -> bool {
        match Class::of(address) {
            Class::Public => true,
            Class::Special => false,
            class => locked(&self.mounted).contains(&class),
        }
    }

    fn known(&self, name: &str) -> Option<Vec<SocketAddr>> {
        let names = locked(&self.names);
        names
            .get(name)
            .filter(|(since, _)| since.elapsed() < REMEMBERED)
            .map(|(_, addresses)| addresses.clone())
    }

    fn remember(&self, name: String, addresses: &[SocketAddr]) {
        let mut names = locked(&self.names);
        if names.len() >= NAMES {
            names.clear();
        }
        names.insert(name, (Instant::now(), addresses.to_vec()));
    }
}

/// Error for an address to which no request may be sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Forbidden(String);

/// Returns the error for a host that may not be asked.
pub(super) fn forbidden(host: &str) -> Error {
    Error::new(Kind::System(libc::EACCES), format!("{host} is not contacted: {REASON}"))
}

const REASON: &str = "its address is in a private network, on this machine or reserved, \
     and only a mounted URL may be there";

/// A resolver of names. Checks the addresses of names. Addresses of mounted URLs are allowed, and their
/// classes are noted.
#[derive(Debug)]
pub(super) struct CheckingResolver {
    pub(super) addresses: Arc<Addresses>,
    /// True for mounted URLs: they may be anywhere, and their classes are noted.
    pub(super) is_mounted: bool,
    /// Host and port of the proxy, which the user chose.
    pub(super) proxy: Option<(String, u16)>,
    pub(super) inner: DefaultResolver,
}

impl CheckingResolver {
    fn is_proxy(&self, uri: &Uri) -> bool {
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        self.proxy.as_ref().is_some_and(|(host, at)| uri.host() == Some(host) && port == *at)
    }
}

impl Resolver for CheckingResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> std::result::Result<ResolvedSocketAddrs, ureq::Error> {
        let name = format!(
            "{}:{}",
            uri.scheme_str().unwrap_or_default(),
            uri.authority().map_or("", |at| at.as_str())
        );
        let all = match self.addresses.known(&name) {
            Some(addresses) => addresses,
            None => {
                let resolved = self.inner.resolve(uri, config, timeout)?;
                self.addresses.remember(name, &resolved);
                resolved.to_vec()
            }
        };
        let is_proxy = self.is_proxy(uri);
        let mut allowed = self.empty();
        for address in all.iter().take(8) {
            if self.is_mounted || is_proxy || self.addresses.may_be_asked(address.ip()) {
                allowed.push(*address);
            }
        }
        if allowed.is_empty() {
            let why = format!("{} is not contacted: {REASON}", uri.host().unwrap_or_default());
            return Err(ureq::Error::Other(Box::new(Forbidden(why))));
        }
        if self.is_mounted && !is_proxy {
            locked(&self.addresses.mounted).extend(allowed.iter().map(|address| Class::of(address.ip())));
        }
        Ok(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_class() {
        for (class, addresses) in [
            (Class::Public, "1.1.1.1 8.8.8.8 172.32.0.1 100.63.1.1 2600:1f18::1 64:ff9b::808:808"),
            (
                Class::Private,
                "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 fd12::1 ::ffff:10.1.1.1",
            ),
            (Class::LinkLocal, "169.254.1.1 169.254.169.254 fe80::1 fd00:ec2::254 ::ffff:169.254.169.254"),
            (Class::LinkLocal, "100.100.100.200 168.63.129.16 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1"),
            (Class::Loopback, "127.0.0.1 127.8.8.8 0.0.0.0 ::1 :: ::ffff:127.0.0.1"),
            (Class::Special, "0.1.2.3 224.0.0.1 255.255.255.255 240.0.0.1 ff02::1 198.18.0.1 2001:db8::1"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(Class::of(address.parse().unwrap()), class, "{address}");
            }
        }
    }

    #[test]
    fn a_stranger_leads_to_public_addresses_and_to_those_of_the_mounted_url() {
        let addresses = Addresses::default();
        let may = |address: &str| addresses.may_be_asked(address.parse().unwrap());
        assert!(may("1.1.1.1") && !may("10.0.0.1") && !may("127.0.0.1") && !may("169.254.169.254"));
        locked(&addresses.mounted).insert(Class::Private);
        assert!(may("192.168.0.1") && !may("127.0.0.1") && !may("169.254.169.254") && !may("fd00:ec2::254"));
    }
}
