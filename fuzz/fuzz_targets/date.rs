//! Dates in replies of servers: headers, listings of buckets, index pages.
#![no_main]

use asdf_remote::date;

/// Seconds from 1970 to the year 10000.
const LAST: i64 = 253_402_300_800;

libfuzzer_sys::fuzz_target!(|lines: &str| {
    let (text, time) = lines.split_once('\n').unwrap_or((lines, ""));
    let dates = [date::http(text).map(|seconds| (seconds, 0)), date::iso(text), date::index_page(text, time)];
    for (seconds, nanoseconds) in dates.into_iter().flatten() {
        assert!(seconds.abs() <= LAST && nanoseconds < 1_000_000_000);
    }
});
