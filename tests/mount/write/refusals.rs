//! Refused texts: the program gets an error, the user finds the reason, and nothing is lost.

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use common::case::{BAD, Case, NEW, OLD, close, errno};
use common::mount::wait_until;

#[test]
fn a_refusal_is_given_until_the_text_changes() {
    let case = Case::new();
    let before = fs::metadata(case.tree()).unwrap().modified().unwrap();
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(case.named(BAD).as_bytes()).unwrap();
    for _ in 0..3 {
        assert_eq!(errno(file.sync_all()), libc::EINVAL);
    }
    case.is_refused(&case.named(BAD));
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), case.named(BAD), "still what is being written");
    let duplicate = file.try_clone().unwrap();
    assert_eq!(errno(close(duplicate)), libc::EINVAL);
    assert_eq!(errno(close(file)), libc::EINVAL);
    assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == case.text));
    assert_eq!(fs::metadata(case.tree()).unwrap().modified().unwrap(), before);
    assert_eq!(case.saves(), 0);
    assert_eq!(case.kept().len(), 1, "one text, one copy");
    // The text is corrected with the same calls.
    fs::write(case.tree(), case.named(NEW)).unwrap();
    case.is_saved(&case.named(NEW), 1);
    assert_eq!(case.kept().len(), 1, "kept for the user to remove");
}

#[test]
fn corrected_in_the_same_handle_it_is_saved() {
    let case = Case::new();
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(case.named(BAD).as_bytes()).unwrap();
    assert_eq!(errno(file.sync_all()), libc::EINVAL);
    file.set_len(0).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, case.named(NEW).as_bytes(), 0).unwrap();
    file.sync_all().unwrap();
    case.is_saved(&case.named(NEW), 1);
}

/// The saved file is longer than the text that was written; the writer knows its own size and would notice
/// another.
#[test]
fn what_was_put_back_is_not_seen_after_a_refusal() {
    let case = Case::new();
    let open_ended = case.named("open").replace("\n...\n", "\n");
    fs::write(case.tree(), &open_ended).unwrap();
    let known =
        || (fs::read_to_string(case.tree()).unwrap(), fs::metadata(case.tree()).unwrap().modified().unwrap());
    let before = known();
    assert_eq!(before.0, open_ended);
    for script in [
        "cat $BAD > tree.yaml",
        "dd if=$BAD of=tree.yaml conv=notrunc",
        "mv $BAD tree.yaml",
        "mv tree.yaml x; cat $BAD > tree.yaml; rm x",
        "rm tree.yaml; cat $BAD > tree.yaml",
    ] {
        assert!(
            case.sh(&format!("{script} || kill -9 $$")).status.code() != Some(0) || script.contains("rm")
        );
        assert!(wait_until(|| known() == before), "{script}: {:?}", known());
    }
    assert_eq!((case.saved(), case.saves()), (open_ended.clone() + "...\n", 1));
    assert_eq!(fs::metadata(case.tree()).unwrap().len(), open_ended.len() as u64);
    // The open-ended text is not shown again once another text is saved, with or without `...`.
    fs::write(case.tree(), case.named(NEW)).unwrap();
    assert!(!case.sh("cat $BAD > tree.yaml").status.success());
    assert!(wait_until(|| known().0 == case.named(NEW)));
    fs::write(case.tree(), &open_ended).unwrap();
    fs::write(case.tree(), case.saved()).unwrap();
    assert!(!case.sh("cat $BAD > tree.yaml").status.success());
    assert!(wait_until(|| known().0 == open_ended.clone() + "...\n"));
}

#[test]
fn a_renaming_that_is_refused_renames_nothing() {
    let case = Case::new();
    let temporary = case.path("sedA1b2");
    fs::write(&temporary, case.named(BAD)).unwrap();
    assert_eq!(errno(fs::rename(&temporary, case.tree())), libc::EINVAL);
    assert_eq!(fs::read_to_string(&temporary).unwrap(), case.named(BAD));
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), case.text);
    fs::remove_file(&temporary).unwrap();
    case.is_refused(&case.named(BAD));
    // sed -i.bak and patch -b: at this time there is no tree.yaml.
    fs::rename(case.tree(), case.path("tree.yaml.bak")).unwrap();
    fs::write(&temporary, case.named(BAD)).unwrap();
    assert_eq!(errno(fs::rename(&temporary, case.tree())), libc::EINVAL);
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), case.text, "there again at once");
    assert_eq!(fs::read_to_string(case.path("tree.yaml.bak")).unwrap(), case.text);
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
}

/// A text that is written in place is seen until it is refused; one that is renamed is checked before anybody sees it.
#[test]
fn a_text_whose_renaming_is_refused_is_never_seen() {
    let case = Case::new();
    let temporary = case.path("sedA1b2");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !is_done.load(Ordering::Relaxed) && reads < 1_000_000 {
                assert_eq!(fs::read_to_string(case.tree()).unwrap(), case.text, "read {reads}");
                reads += 1;
            }
        });
        for _ in 0..50 {
            fs::write(&temporary, case.named(BAD)).unwrap();
            assert_eq!(errno(fs::rename(&temporary, case.tree())), libc::EINVAL);
        }
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// vim, neovim and jed restore the old text after a failed save.
#[test]
fn rolling_back_saves_nothing_and_keeps_the_time() {
    let case = Case::new();
    let (tree, backup) = (case.tree(), case.path("tree.yaml~"));
    let before = fs::metadata(&tree).unwrap().modified().unwrap();
    for early in [true, false] {
        fs::rename(&tree, &backup).unwrap();
        let mut file = File::create_new(&tree).unwrap();
        file.write_all(case.named(BAD).as_bytes()).unwrap();
        assert_eq!(errno(file.sync_all()), libc::EINVAL);
        if early {
            fs::remove_file(&tree).unwrap();
            let _ = close(file);
        } else {
            assert_eq!(errno(close(file)), libc::EINVAL);
            fs::remove_file(&tree).unwrap();
        }
        fs::rename(&backup, &tree).unwrap();
        assert_eq!(fs::read_to_string(&tree).unwrap(), case.text);
        assert_eq!(fs::metadata(&tree).unwrap().modified().unwrap(), before);
    }
    // The old text is copied back, as with backupcopy=yes.
    let mut file = File::create(&tree).unwrap();
    file.write_all(case.named(BAD).as_bytes()).unwrap();
    assert_eq!(errno(close(file)), libc::EINVAL);
    fs::write(&tree, &case.text).unwrap();
    assert_eq!(fs::metadata(&tree).unwrap().modified().unwrap(), before);
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
}

#[test]
fn what_tells_of_a_refusal_can_be_removed_and_used() {
    let case = Case::new();
    assert!(case.sh("echo broken: [ > tree.yaml; cat $BAD > tree.yaml").status.code() == Some(1));
    assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == case.text));
    case.is_refused(&case.named(BAD));
    assert_eq!(case.names(), ["tree.yaml", "tree.yaml.error", "tree.yaml.rejected"]);
    fs::remove_file(case.path("tree.yaml.error")).unwrap();
    assert_eq!(case.names(), ["tree.yaml", "tree.yaml.rejected"]);
    // The user corrects tree.yaml.rejected and renames it onto tree.yaml.
    let output =
        case.sh(&format!("sed -i 's/{BAD}/{NEW}/' tree.yaml.rejected && mv tree.yaml.rejected tree.yaml"));
    assert!(output.status.success(), "{output:?}");
    case.is_saved(&case.named(NEW), 1);
}

#[test]
fn programs_that_look_hear_of_it() {
    let case = Case::new();
    for script in [
        "cp $BAD tree.yaml",
        "cat $BAD > tree.yaml",
        "dash -c 'cat $BAD > tree.yaml || exit 1'",
        "tee tree.yaml < $BAD >/dev/null",
        "dd if=$BAD of=tree.yaml 2>/dev/null",
        "mv $BAD tree.yaml",
        "install -m 644 $BAD tree.yaml",
        "sed -i 's/first light/a: b: c/' tree.yaml",
        "sed -i.bak 's/first light/a: b: c/' tree.yaml",
        "python3 -c \"import os; t=open(os.environ['BAD']).read(); f=open('tree.yaml','w'); f.write(t); f.close()\"",
    ] {
        let output = case.sh(script);
        assert_ne!(output.status.code(), Some(0), "{script}: {output:?}");
        assert!(
            wait_until(|| fs::read_to_string(case.tree()).is_ok_and(|text| text == case.text)),
            "{script}"
        );
        case.is_refused(&case.named(BAD));
        assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0), "{script}");
    }
    assert!(case.log().contains("tree.yaml was not saved"));
    assert!(case.text.contains(OLD));
}

#[test]
fn the_last_refused_texts_are_kept() {
    let case = Case::new();
    for n in 0..20 {
        let _ = close({
            let mut file = File::create(case.tree()).unwrap();
            file.write_all(case.named(&format!("a: {n}: c")).as_bytes()).unwrap();
            file
        });
    }
    let kept = case.kept();
    assert_eq!(kept.len(), 16);
    assert!((4..20).all(|n| kept.iter().any(|text| text == case.named(&format!("a: {n}: c")).as_bytes())));
}
