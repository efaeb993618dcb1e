//! When replies with the same ETag and date have bytes of the same version.
//!
//! Many servers make the ETag from the modification time in seconds and the size, as nginx does. If a file is
//! written twice within a second, with the same size, two versions have one ETag. It is strong only in a reply
//! whose Date is a second or more after Last-Modified (RFC 9110, 8.8.2.2): any later change gets another time.
//! Until then If-Match, If-None-Match and equal headers prove nothing.
//!
//! | reply | meaning |
//! |---|---|
//! | Date is a second or more after Last-Modified | [`Proof::Proven`] |
//! | Date is earlier | [`Proof::Recent`] |
//! | Date is more than a minute earlier: a clock is wrong | [`Proof::Unknown`] |
//! | no Date | by the clock of this machine, with a margin of a minute |
//! | no Last-Modified that can be read | [`Proof::Unknown`] |
//! | the ETag of a bucket's object is a digest of its bytes | [`Proof::Proven`] |
//!
//! An object with a recent version is asked for its first bytes again before any other bytes are used
//! ([`super::object`]), and nothing of it is kept on disk.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::client::Reply;
use super::date;
use super::url::Address;
use super::version::{ObjectVersion, text};

/// Minimum seconds from Last-Modified to Date.
const LATER: i64 = 1;
/// Seconds by which clocks may be wrong: that of this machine, and those of a server and its disk.
const SKEW: i64 = 60;
/// Time after which a second reply without a Date proves the version of the first one.
const APART: Duration = Duration::from_secs(2);

/// The strength of the validators of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Replies with the same validators from now on have the same bytes.
    Proven,
    /// Nothing is known about the time of the last change.
    Unknown,
    /// The object was changed so shortly before the reply that another change may leave its validators as they
    /// are.
    Recent,
}

/// The time of a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Seconds since 1970 by the server's clock.
    date: Option<i64>,
    arrived: Instant,
}

impl Sent {
    pub(super) fn of(reply: &Reply) -> Self {
        let date = text(&reply.headers, "date").and_then(date::http);
        Self { date, arrived: Instant::now() }
    }

    /// True if the server tells no time, and so much has passed since an earlier reply that a change since then
    /// has another time.
    pub(super) fn is_well_after(&self, earlier: &Self) -> bool {
        self.date.is_none() && self.arrived.duration_since(earlier.arrived) >= APART
    }

    /// Returns the time for which to wait until another reply may be proven.
    pub(super) fn until_proven(&self, version: &ObjectVersion) -> Duration {
        let later = match (self.date, modified(version)) {
            (Some(date), Some(modified)) => {
                let seconds = modified.saturating_add(LATER).saturating_sub(date);
                Duration::from_secs(seconds.clamp(1, SKEW).unsigned_abs())
            }
            _ => APART,
        };
        later.saturating_sub(self.arrived.elapsed())
    }
}

impl Proof {
    /// Judges a version by the reply that has it.
    pub(super) fn of(address: &Address, version: &ObjectVersion, sent: &Sent) -> Self {
        let is_digest = version.strong().is_some_and(is_digest);
        if is_digest && matches!(address, Address::S3 { .. }) {
            return Self::Proven;
        }
        match (modified(version), sent.date) {
            (None, _) => Self::Unknown,
            (Some(modified), None) if is_old(modified) => Self::Proven,
            (Some(_), None) => Self::Recent,
            (Some(modified), Some(date)) if date >= modified.saturating_add(LATER) => Self::Proven,
            (Some(modified), Some(date)) if date >= modified.saturating_sub(SKEW) => Self::Recent,
            (Some(_), Some(_)) => Self::Unknown,
        }
    }

    /// True if a listing of a bucket shows the same version as the object itself.
    pub(super) fn of_listed(etag: &str, modified: Option<i64>) -> bool {
        is_digest(etag) || modified.is_some_and(is_old)
    }
}

/// Returns the time of the last change, in seconds since 1970.
fn modified(version: &ObjectVersion) -> Option<i64> {
    version.last_modified.as_deref().and_then(date::http)
}

/// True if a time is in the past, even if the clock of this machine is a little wrong.
fn is_old(modified: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    i64::try_from(now).is_ok_and(|now| now >= modified.saturating_add(SKEW))
}

/// True if an ETag is the MD5 of an object, or that of an object uploaded in parts: `"MD5-PARTS"`.
fn is_digest(etag: &str) -> bool {
    let Some(tag) = etag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')) else { return false };
    let (digest, parts) = tag.split_once('-').unwrap_or((tag, "1"));
    digest.len() == 32
        && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        && (1..=5).contains(&parts.len())
        && parts.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(etag: &str, modified: Option<&str>) -> ObjectVersion {
        ObjectVersion { etag: Some(etag.into()), last_modified: modified.map(str::to_owned), size: 1 }
    }

    fn sent(date: Option<i64>) -> Sent {
        Sent { date, arrived: Instant::now() }
    }

    #[test]
    fn a_validator_is_strong_a_second_after_the_change() {
        const AT: i64 = 784_111_777;
        let web = Address::parse("https://a.org/x").unwrap();
        let bucket = Address::parse("s3://abc/x").unwrap();
        let old = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        let future = Some("Sun, 06 Nov 2094 08:49:37 GMT");
        let digest = "\"d41d8cd98f00b204e9800998ecf8427e\"";
        for (address, etag, modified, date, wanted) in [
            (&web, "\"a-1\"", old, Some(AT - 61), Proof::Unknown),
            (&web, "\"a-1\"", old, Some(AT - 60), Proof::Recent),
            (&web, "\"a-1\"", old, Some(AT), Proof::Recent),
            (&web, "\"a-1\"", old, Some(AT + 1), Proof::Proven),
            (&web, "\"a-1\"", old, None, Proof::Proven),
            (&web, "\"a-1\"", future, None, Proof::Recent),
            (&web, "\"a-1\"", Some("yesterday"), Some(AT), Proof::Unknown),
            (&web, "\"a-1\"", None, Some(AT), Proof::Unknown),
            (&web, digest, old, Some(AT), Proof::Recent),
            (&bucket, digest, old, Some(AT), Proof::Proven),
            (&bucket, "\"d41d8cd98f00b204e9800998ecf8427e-12\"", None, None, Proof::Proven),
            (&bucket, "\"1\"", old, Some(AT), Proof::Recent),
        ] {
            let found = Proof::of(address, &version(etag, modified), &sent(date));
            assert_eq!(found, wanted, "{address} {etag} {modified:?} {date:?}");
        }
        for etag in
            ["", "\"\"", "\"d41d8cd98f00b204e9800998ecf8427e-\"", "\"d41d8cd98f00b204e9800998ecf8427g\""]
        {
            assert!(!is_digest(etag), "{etag}");
        }
    }

    #[test]
    fn a_reply_is_waited_for_until_it_may_be_proven() {
        let earlier = |date| Sent { date, arrived: Instant::now() - Duration::from_secs(3) };
        assert!(sent(None).is_well_after(&earlier(None)) && !sent(Some(1)).is_well_after(&earlier(Some(1))));
        assert!(!sent(None).is_well_after(&sent(None)));
        let wait = |sent: Sent| sent.until_proven(&version("\"a\"", Some("Thu, 01 Jan 1970 00:01:40 GMT")));
        assert!(
            wait(sent(Some(100))) <= Duration::from_secs(1) && wait(sent(Some(90))) > Duration::from_secs(9)
        );
        assert_eq!(wait(earlier(Some(100))), Duration::ZERO);
    }
}
