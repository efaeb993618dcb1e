use super::*;

const TEXT: Scalar = Scalar::Ascii(40);

fn text(format: Option<&str>, scale: &str, text: &str) -> Option<i64> {
    Notation::of(format, scale, TEXT)?.of_text(format!("{text}\0\0").as_bytes())?.nanos()
}

fn float(format: &str, scale: &str, value: f64) -> Option<i64> {
    Notation::of(Some(format), scale, Scalar::Float64)?.of_float(value)?.nanos()
}

#[test]
fn texts_of_the_calendar_are_instants() {
    for (written, nanos) in [
        ("1970-01-01", 0),
        ("1970-01-02T00:00", 86_400_000_000_000),
        ("2000-02-29 12:34:56", 951_827_696_000_000_000),
        ("2000-03-01T00:00:00.5Z", 951_868_800_500_000_000),
        ("1969-12-31T23:59:59.999999999", -1),
        ("1969-12-31T23:59:59.9999999990", -1),
        ("2000:060:12:34:56", 951_827_696_000_000_000),
        ("2016:366:23:59:59.000", 1_483_228_799_000_000_000),
    ] {
        assert_eq!(text(None, "utc", written), Some(nanos), "{written}");
    }
    let of = |written: &str| Notation::of(None, "utc", TEXT).unwrap().of_text(written.as_bytes());
    assert_eq!(of("9999-12-31T23:59:59.999999").unwrap().micros(), Some(253_402_300_799_999_999));
    assert_eq!(of("9999-12-31").unwrap().nanos(), None);
    assert_eq!(of("2000-01-01T00:00:00.0000001").unwrap().micros(), None);
}

#[test]
fn texts_without_an_exact_timestamp_have_none() {
    for written in [
        "",
        "2000",
        "2000-13-01",
        "2001-02-29",
        "2000-1-1",
        "2000-01-01T24:00:00",
        "2016-12-31T23:59:60",
        "2016-12-31T23:59:60.5",
        "2000-01-01T00:00:00.0000000001",
        "2000-01-01T00:00:00+01:00",
        "2000-01-01T00:00:00(TAI)",
        "2000-01-01X00:00",
        "0000-01-01",
        "J2000.0",
        "2001:366",
        "2000:001T00:00:00",
        "2000-01-01:00:00:00",
    ] {
        assert_eq!(text(None, "utc", written), None, "{written}");
    }
    assert_eq!(text(None, "tai", "2000-01-01T00:00:00Z"), None);
    assert_eq!(text(None, "tdb", "2000-01-01"), None);
    assert_eq!(text(Some("jyear"), "utc", "2000-01-01"), None);
}

/// Instants are those of astropy: `Time(value, format=…, scale=…).isot`.
#[test]
fn numbers_are_instants_where_that_is_exact() {
    for (format, scale, value, nanos) in [
        ("mjd", "utc", 40587.0, 0),
        ("mjd", "tai", 57753.5, 1_483_185_600_000_000_000),
        ("mjd", "utc", 51544.25, 946_706_400_000_000_000),
        ("jd", "utc", 2_440_587.5, 0),
        ("jd", "utc", 2_451_545.0, 946_728_000_000_000_000),
        ("unix", "utc", -1.0, -1_000_000_000),
        ("unix", "utc", 946_684_800.25, 946_684_800_250_000_000),
        ("unix_tai", "tai", 946_684_832.0, 946_684_832_000_000_000),
        ("gps", "tai", 630_720_013.0, 946_684_832_000_000_000),
    ] {
        assert_eq!(float(format, scale, value), Some(nanos), "{format} {scale} {value}");
    }
    for (format, scale, value) in [
        ("mjd", "utc", 51544.1),
        ("mjd", "tt", 51544.0),
        ("mjd", "utc", f64::NAN),
        ("mjd", "utc", f64::INFINITY),
        ("mjd", "utc", f64::MAX),
        ("mjd", "utc", f64::MIN_POSITIVE),
        ("jd", "utc", 0.0),
        ("unix", "utc", 0.1),
        ("unix", "tai", 0.0),
        ("gps", "utc", 0.0),
        ("jyear", "utc", 2000.0),
        // The day has a leap second, so half of it is not noon.
        ("mjd", "utc", 57753.5),
        ("unix", "utc", 1_483_185_600.0),
    ] {
        assert_eq!(float(format, scale, value), None, "{format} {scale} {value}");
    }
    assert_eq!(float("mjd", "utc", 57753.0), Some(1_483_142_400_000_000_000));
    let seconds = Notation::of(Some("unix"), "utc", Scalar::Int64).unwrap();
    assert_eq!(seconds.of_integer(5).unwrap().micros(), Some(5_000_000));
    assert_eq!(seconds.of_integer(i64::MAX.into()), None);
    assert_eq!(seconds.of_integer(u64::MAX.into()), None);
}
