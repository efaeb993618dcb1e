//! Arrays in other local files: which files a tree may name, and which users may read them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::external_arrays::{data, node, save_other, status, tree};
use common::disk::Disk;
use common::mount::{Mounted, fresh_folder};

#[test]
fn other_files_are_read_below_the_folder_alone() {
    let folder = fresh_folder();
    let inner = folder.path().join("inner");
    fs::create_dir_all(inner.join("sub")).unwrap();
    save_other(&inner, "a b.asdf", b"01234567");
    save_other(&inner, "sub/deep.asdf", b"89abcdef");
    save_other(folder.path(), "outside.asdf", b"forbidde");
    fs::write(inner.join("text.asdf"), "text").unwrap();
    symlink("../outside.asdf", inner.join("link.asdf")).unwrap();
    symlink("sub/deep.asdf", inner.join("within.asdf")).unwrap();
    let absolute = format!("file://{}/inner/sub/deep.asdf", folder.path().display());
    let nodes = [
        ("plain", node("a%20b.asdf")),
        ("deep", node("./sub/../sub/deep.asdf")),
        ("within", node("within.asdf")),
        ("absolute", node(&absolute)),
        ("outside", node("../outside.asdf")),
        ("link", node("link.asdf")),
        ("missing", node("missing.asdf")),
        ("again", node("missing.asdf")),
        ("text", node("text.asdf")),
        ("web", node("https://example.org/x.asdf")),
        ("large", node("a%20b.asdf").replace("[8]", "[9]")),
    ];
    let source = tree(&nodes).build().save(&inner, "main.asdf");
    let mounted = Mounted::file(&source);
    let names = fs::read_dir(mounted.path("arrays")).unwrap().count();
    assert_eq!(names, nodes.len(), "what can't be read is listed as well");
    let told = status(&mounted);
    let reason = "line 16: large can't be read: the array does not fit in its block: it takes 9 bytes";
    assert!(told.replace("''", "'").contains(reason), "before anything is opened: {told}");
    assert_eq!(data(&mounted, "plain").unwrap(), b"01234567");
    for name in ["deep", "within", "absolute"] {
        assert_eq!(data(&mounted, name).unwrap(), b"89abcdef", "{name}");
    }
    for name in ["outside", "link", "missing", "text", "web", "large"] {
        assert_eq!(data(&mounted, name).unwrap_err().raw_os_error(), Some(libc::EIO), "{name}");
    }
    let told = status(&mounted);
    for reason in [
        "outside can't be read: the file \"../outside.asdf\": it is outside the directory of the file",
        "link can't be read",
        "missing can't be read: the file \"missing.asdf\": no such file",
        "again can't be read: the file \"missing.asdf\": no such file",
        "text can't be read: the file \"text.asdf\": is not an ASDF file",
        "web can't be read: the file \"https://example.org/x.asdf\": it lies on a server, which is not \
         followed",
        "line 10: outside",
    ] {
        assert!(told.replace("''", "'").contains(reason), "{reason}\n{told}");
    }
    mounted.unmount();
    let mounted = Mounted::new(["-o".as_ref(), "external=anywhere".as_ref(), source.as_os_str()]);
    for name in ["outside", "link"] {
        assert_eq!(data(&mounted, name).unwrap(), b"forbidde", "{name}");
    }
    mounted.unmount();
}

#[test]
fn info_says_of_other_files_what_the_mount_says() {
    let folder = fresh_folder();
    save_other(folder.path(), "other.asdf", b"01234567");
    let nodes = [("found", node("other.asdf")), ("missing", node("missing.asdf"))];
    let source = tree(&nodes).build().save(folder.path(), "main.asdf");
    fs::create_dir(folder.path().join("elsewhere")).unwrap();
    let link = folder.path().join("elsewhere/link.asdf");
    symlink("../main.asdf", &link).unwrap();
    let reason = "missing can't be read: the file \"missing.asdf\": no such file";
    for path in [&source, &link] {
        let output = Command::new(env!("CARGO_BIN_EXE_asdf-mount")).arg("--info").arg(path).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains(reason) && !told.contains("found can't be read"), "{told}");
        let mounted = Mounted::file(path);
        assert_eq!(data(&mounted, "found").unwrap(), b"01234567");
        assert!(data(&mounted, "missing").is_err());
        assert!(status(&mounted).replace("''", "'").contains(reason));
        mounted.unmount();
    }
}

#[test]
fn a_file_on_another_file_system_is_outside() {
    let disk = Disk::new("tmpfs", 1);
    let place = disk.path();
    save_other(&place, "other.asdf", b"01234567");
    let nodes = [("there", node("disk/other.asdf"))];
    let source = tree(&nodes).build().save(place.parent().unwrap(), "main.asdf");
    let mounted = Mounted::file(&source);
    assert_eq!(data(&mounted, "there").unwrap_err().raw_os_error(), Some(libc::EIO));
    let told = status(&mounted);
    assert!(
        told.contains("disk/other.asdf") && told.contains("it is outside the directory of the file"),
        "{told}"
    );
    mounted.unmount();
    let mounted = Mounted::new(["-o".as_ref(), "external=anywhere".as_ref(), source.as_os_str()]);
    assert_eq!(data(&mounted, "there").unwrap(), b"01234567");
    mounted.unmount();
}

#[test]
fn other_users_read_no_other_file_that_they_could_not_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    save_other(folder.path(), "open.asdf", b"readable");
    save_other(folder.path(), "secret.asdf", b"secret!!");
    let mode = |name: &str, mode| {
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let source = tree(&[("open", node("open.asdf")), ("secret", node("secret.asdf"))]).build();
    let source = source.save(folder.path(), "main.asdf");
    mode("open.asdf", 0o644);
    mode("secret.asdf", 0o600);
    mode("main.asdf", 0o644);
    let options = "allow_other,external=anywhere";
    let mounted = Mounted::for_all_users(["-o".as_ref(), options.as_ref(), source.as_os_str()]);
    let as_nobody = |name: &str| {
        let path = mounted.path(format!("arrays/{name}.npy"));
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"])
            .arg(path)
            .output()
            .unwrap();
        output.stdout
    };
    assert!(as_nobody("open").ends_with(b"readable"));
    assert!(as_nobody("secret").is_empty());
    assert!(status(&mounted).contains("allow_other"));
    mounted.unmount();
}
