//! Options as users write them.

use std::os::unix::ffi::OsStringExt;

use super::*;
use proptest::prelude::*;

pub(super) fn parse(list: &str) -> Result<Options> {
    Options::parse(&[OsString::from(list)])
}

pub(super) fn refusal(list: &str) -> String {
    let error = parse(list).expect_err(list);
    assert_eq!(error.kind(), Kind::Usage);
    error.to_string()
}

#[test]
fn tables_are_kept_unless_it_is_turned_off() {
    assert!(parse("").unwrap().index_cache && parse("index-cache=off,index-cache=on").unwrap().index_cache);
    assert!(!parse("index-cache=off").unwrap().index_cache);
    for list in ["index-cache", "index-cache=", "index-cache=no", "index-cache=OFF"] {
        assert!(refusal(list).contains("index-cache"), "{list}");
    }
}

#[test]
fn views_are_named_between_commas() {
    let has = |list: &str, name| parse(list).unwrap().views.has(name);
    assert!(has("ro", "arrays") && has("views=none,views=all", "fits"));
    assert!(!has("views=none", "arrays"));
    for list in ["views=arrays,fits", "ro,views=arrays,fits,uid=1", r#"views="arrays,fits",ro"#] {
        assert!(has(list, "arrays") && has(list, "fits") && !has(list, "tables"), "{list}");
    }
    assert!(!has("views=arrays,views=fits", "arrays"), "the last one counts");
    assert!(refusal("views=fit").contains("-o views=fit is not all, none, or one of arrays, "));
    assert!(refusal("views=fits,tabels").contains("-o views=tabels is not all, none, or one of arrays, "));
    assert!(refusal("fits").contains("unknown option -o fits"));
    assert!(refusal("views=fits,ro,arrays").contains("unknown option"));
    assert_eq!(refusal("views"), "-o views needs a value: views=…");
}

#[test]
fn takes_what_mount_and_fstab_pass() {
    let plain = parse("").unwrap();
    for list in [
        "rw,dev,suid",
        "ro,rw,nosuid,nodev,async,exec",
        "defaults,noauto,nofail,user,users,nouser,owner,group,auto,_netdev",
        "x-systemd.automount,X-mount.mkdir=0755,comment=a b,user=bob",
        "rw,,subtype=asdf-mount,default_permissions,",
        "noexec,exec,noatime,atime,nodiratime,diratime,sync,async",
    ] {
        assert_eq!(parse(list).unwrap(), plain, "{list}");
    }
}

#[test]
fn options_of_other_programs_are_ignored_with_a_word_or_refused_with_what_to_do() {
    let options = parse("nonempty,auto_unmount,entry_timeout=1,nonempty,lazytime,ro").unwrap();
    assert_eq!(options.notes.len(), 4, "{:?}", options.notes);
    assert_eq!(options.notes[0], "-o nonempty has no effect: a mount may cover files");
    assert!(options.read_only);
    // mount(8) gives a remount all options of the mount.
    assert!(refusal("user_id=0,ro").contains("set by asdf-mount itself"));
    assert!(parse("user_id=0,ro,remount").unwrap().remount);
    assert!(refusal("blkdev").contains("not a device"));
    for (option, instead) in [
        ("setuid=ada", "uid=N"),
        ("fmask=022", "umask=OCTAL"),
        ("debug", "-f -vv"),
        ("nosymfollow", "remount,bind,nosymfollow"),
        ("context=system_u:object_r:fusefs_t:s0", "genfscon"),
        ("offset=512", "the file itself"),
        ("readonly", "ro"),
    ] {
        assert!(refusal(option).contains(instead), "{option}");
    }
    parse("acl,_rnetdev,uhelper=udisks,writeback_cache,max_pages=256,x-systemd.idle-timeout=5").unwrap();
    assert!(refusal("allow_root").contains("allow_other,umask=077"));
}

#[test]
fn reads_each_value() {
    let options = parse("uid=7,gid=8,umask=027,allow_other,cache=3M,max_read=65536,noexec,relatime").unwrap();
    assert_eq!((options.uid, options.gid, options.umask), (Some(7), Some(8), Some(0o27)));
    assert_eq!((options.allow_other, options.no_exec), (true, true));
    assert!(parse("rw,ro").unwrap().read_only && !parse("ro,rw").unwrap().read_only);
    assert_eq!((options.cache, options.max_read), (Some(3 << 20), Some(65536)));
    assert_eq!(options.access_time, AccessTime::Relative);
    assert_eq!(parse("uid=1,uid=2").unwrap().uid, Some(2));
}

#[test]
fn refuses_bad_values() {
    for list in [
        "uid=",
        "uid=-1",
        "uid=+1",
        "uid=bob",
        "uid=4294967295",
        "uid=4294967296",
        "uid",
        "umask=8",
        "umask=1000",
        "cache=",
        "cache=M",
        "cache=-1",
        "cache=1X",
        "cache=0",
        "cache=5",
        "cache=1023K",
        "cache=99999999999G",
        "max_read=1",
        "fsname=",
        "subtype=sshfs",
        "allow_root",
        "allow_other=1",
        "ro=1",
    ] {
        refusal(list);
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(list in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = Options::parse(&[OsString::from_vec(list)]);
    }

}
