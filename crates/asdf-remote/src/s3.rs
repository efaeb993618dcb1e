//! Buckets: their URLs, regions and signatures.

#[cfg(feature = "s3-signing")]
mod blocking;
#[cfg(feature = "s3-signing")]
mod credentials;
mod settings;
#[cfg(feature = "s3-signing")]
mod sign;

use std::collections::HashMap;
use std::sync::Mutex;

use seekable::error::{Error, Kind, Result};
use seekable::sync::locked;
use ureq::http::{HeaderMap, Request};

use self::settings::{Endpoint, ThisUser, UserSettings};
use super::options::RemoteOptions;
use super::url::{Address, Url, segment};
use super::version;

const DEFAULT_REGION: &str = "us-east-1";
/// Maximum number of buckets with a remembered region.
const BUCKETS: usize = 1024;

/// The S3 server.
#[derive(Debug)]
pub(super) struct Buckets {
    /// The server instead of AWS. An error of the user's settings is reported when a bucket is used.
    endpoint: Result<Option<Url>>,
    region: String,
    /// Regions of buckets, as servers gave them.
    learned: Mutex<HashMap<String, String>>,
    #[cfg(feature = "s3-signing")]
    signer: Option<sign::Signer>,
}

impl Buckets {
    pub(super) fn new(options: &RemoteOptions) -> Result<Self> {
        Self::of(options, UserSettings::of(&ThisUser))
    }

    fn of(options: &RemoteOptions, user: UserSettings) -> Result<Self> {
        let endpoint = match &options.endpoint {
            Some(text) => Ok(Some(endpoint(text, "endpoint")?)),
            None => user.endpoint.map(|Endpoint { url, origin }| endpoint(&url, &origin)).transpose(),
        };
        let region = match &options.region {
            Some(region) if is_region(region) => region.clone(),
            Some(_) => return Err(Error::new(Kind::Usage, "region: this is not the name of a region")),
            None => {
                user.region.filter(|region| is_region(region)).unwrap_or_else(|| DEFAULT_REGION.to_owned())
            }
        };
        Ok(Self {
            endpoint,
            region,
            learned: Mutex::default(),
            #[cfg(feature = "s3-signing")]
            signer: (!options.anonymous).then(|| sign::Signer::of_user(options.ca_bundle.clone())),
        })
    }

    /// Returns a text that identifies the server.
    pub(super) fn server(&self) -> String {
        match &self.endpoint {
            Ok(Some(url)) => url.identity(),
            _ => "aws".to_owned(),
        }
    }

    fn region(&self, bucket: &str) -> String {
        locked(&self.learned).get(bucket).unwrap_or(&self.region).clone()
    }

    /// Returns the URL of a key. A bucket is part of the path at an endpoint, and if its name does not fit
    /// the certificate of AWS.
    pub(super) fn url(&self, bucket: &str, key: &str) -> Result<Url> {
        let key = key.split('/').map(|name| segment(name.as_bytes())).collect::<Vec<_>>().join("/");
        if let Some(endpoint) = self.endpoint.as_ref().map_err(Error::clone)? {
            let base = endpoint.path.trim_end_matches('/');
            return Ok(Url { path: format!("{base}/{bucket}/{key}"), ..endpoint.clone() });
        }
        let region = self.region(bucket);
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let is_host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if bucket.bytes().all(is_host) {
            Url::parse(&format!("https://{bucket}.s3.{region}.{domain}/{key}"))
        } else {
            Url::parse(&format!("https://s3.{region}.{domain}/{bucket}/{key}"))
        }
    }

    /// Remembers the region that a server tells; true if it is another region than before.
    pub(super) fn learns_region(&self, address: &Address, headers: &HeaderMap) -> bool {
        let Address::S3 { bucket, .. } = address else { return false };
        let Some(region) = version::text(headers, "x-amz-bucket-region") else { return false };
        if !is_region(region) || !matches!(self.endpoint, Ok(None)) || region == self.region(bucket) {
            return false;
        }
        let mut learned = locked(&self.learned);
        // A region is learned only once for each bucket, so that a server can't cause endless retries.
        let is_new = learned.len() < BUCKETS && !learned.contains_key(bucket);
        if is_new {
            learned.insert(bucket.clone(), region.to_owned());
        }
        is_new
    }

    /// Signs a request, unless it is to be anonymous or there are no credentials.
    #[cfg(feature = "s3-signing")]
    pub(super) fn sign(&self, bucket: &str, request: &mut Request<()>) -> Result<()> {
        match &self.signer {
            Some(signer) => signer.sign(&self.region(bucket), request),
            None => Ok(()),
        }
    }

    /// Looks for other credentials after a server refused those of a request; true if there are any.
    #[cfg(feature = "s3-signing")]
    pub(super) fn renews_credentials(&self) -> bool {
        self.signer.as_ref().is_some_and(|signer| signer.renews(&self.region))
    }

    /// Requests have no credentials.
    #[cfg(not(feature = "s3-signing"))]
    pub(super) fn renews_credentials(&self) -> bool {
        false
    }

    /// Leaves the request anonymous.
    #[cfg(not(feature = "s3-signing"))]
    pub(super) fn sign(&self, _bucket: &str, _request: &mut Request<()>) -> Result<()> {
        Ok(())
    }
}

/// Parses the URL of an endpoint; `origin` names the option or setting.
fn endpoint(text: &str, origin: &str) -> Result<Url> {
    let url = Url::parse(text).map_err(|error| error.within(origin))?;
    if url.query.is_some() || url.login.is_some() {
        let message = format!("{origin}: the URL may have neither a query nor a login");
        return Err(Error::new(Kind::Usage, message));
    }
    Ok(url)
}

/// True for a text that may be the name of a region.
pub(super) fn is_region(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(options: RemoteOptions) -> Buckets {
        Buckets::of(&RemoteOptions { anonymous: true, ..options }, UserSettings::default()).unwrap()
    }

    #[test]
    fn a_key_has_a_url_by_region_or_endpoint() {
        let region = Some("eu-west-1".to_owned());
        let aws = buckets(RemoteOptions { region, ..RemoteOptions::default() });
        let url = |bucket: &str, key: &str| aws.url(bucket, key).unwrap().to_string();
        assert_eq!(
            url("stpubdata", "roman/a b+c.asdf"),
            "https://stpubdata.s3.eu-west-1.amazonaws.com/roman/a%20b%2Bc.asdf"
        );
        assert_eq!(url("with.dots", "x"), "https://s3.eu-west-1.amazonaws.com/with.dots/x");
        assert_eq!(url("abc", "a/../%2f?#"), "https://abc.s3.eu-west-1.amazonaws.com/a/%2E%2E/%252f%3F%23");
        let endpoint = Some("http://127.0.0.1:9000/base/".to_owned());
        let own = buckets(RemoteOptions { endpoint, ..RemoteOptions::default() });
        assert_eq!(own.url("abc", "k//e").unwrap().to_string(), "http://127.0.0.1:9000/base/abc/k//e");
    }

    #[test]
    fn the_users_endpoint_counts_unless_an_option_names_another() {
        let user = |url: &str| {
            let endpoint = Some(Endpoint { url: url.to_owned(), origin: "AWS_ENDPOINT_URL".to_owned() });
            UserSettings { endpoint, region: Some("eu-south-2".to_owned()) }
        };
        let options = |endpoint: Option<&str>| RemoteOptions {
            anonymous: true,
            endpoint: endpoint.map(str::to_owned),
            ..RemoteOptions::default()
        };
        let url = |endpoint, of_user| {
            let buckets = Buckets::of(&options(endpoint), user(of_user)).unwrap();
            assert_eq!(buckets.region("abc"), "eu-south-2");
            buckets.url("abc", "x").map(|url| url.to_string())
        };
        assert_eq!(url(None, "http://ours:9000").unwrap(), "http://ours:9000/abc/x");
        assert_eq!(url(Some("http://other:9000"), "http://ours:9000").unwrap(), "http://other:9000/abc/x");
        for wrong in ["ours:9000", "http://me:secret@ours", "http://ours?secret"] {
            let error = url(None, wrong).unwrap_err();
            assert!(error.message().contains("AWS_ENDPOINT_URL"), "{error}");
            assert!(error.kind() == Kind::Usage && !error.to_string().contains("secret"), "{error}");
            assert!(url(Some("http://other:9000"), wrong).is_ok());
        }
    }

    #[test]
    fn a_region_is_learned_once() {
        let aws = buckets(RemoteOptions { region: Some("eu-west-1".into()), ..RemoteOptions::default() });
        let address = Address::parse("s3://abc/x").unwrap();
        let told = |region: &str| {
            HeaderMap::from_iter([("x-amz-bucket-region".parse().unwrap(), region.parse().unwrap())])
        };
        assert!(
            !aws.learns_region(&address, &told("a/../b")) && !aws.learns_region(&address, &told("eu-west-1"))
        );
        assert!(aws.learns_region(&address, &told("us-west-2")));
        assert!(aws.url("abc", "x").unwrap().to_string().contains(".us-west-2."));
        assert!(!aws.learns_region(&address, &told("us-west-1")));
    }

    #[test]
    fn wrong_options_are_refused() {
        for (endpoint, region) in [(Some("x"), None), (Some("http://a:b@c/"), None), (None, Some("a b"))] {
            let endpoint = endpoint.map(str::to_owned);
            let region = region.map(str::to_owned);
            let options = RemoteOptions { endpoint, region, ..RemoteOptions::default() };
            assert_eq!(Buckets::new(&options).unwrap_err().kind(), Kind::Usage);
        }
    }
}
