//! The editors that fewer people have. `scripts/test --all` runs these tests.

use crate::terminal::saves_and_mends;
use crate::tools::{Yes, all};

#[test]
fn neovim_without_a_screen() {
    all(&[(
        "nvim --headless --clean -c 'set backupskip=' -c \"%s/$A/$B/\" -c 'w|q!' -c 'cq' tree.yaml",
        &[],
        Yes,
    )]);
}

#[test]
fn neovim() {
    saves_and_mends("nvim", &[]);
}

#[test]
fn neovim_that_copies_its_backup() {
    saves_and_mends("nvim-copy", &[]);
}

#[test]
fn micro() {
    saves_and_mends("micro", &[]);
}

#[test]
fn joe() {
    saves_and_mends("joe", &[]);
}

#[test]
fn jed() {
    saves_and_mends("jed", &["tree.yaml~"]);
}

#[test]
fn mcedit() {
    saves_and_mends("mcedit", &[]);
}

#[test]
fn ne() {
    saves_and_mends("ne", &[]);
}

#[test]
fn dte() {
    saves_and_mends("dte", &[]);
}

#[test]
fn mg() {
    saves_and_mends("mg", &["tree.yaml~"]);
}

#[test]
fn kakoune() {
    saves_and_mends("kak", &[]);
}

#[test]
fn kakoune_that_renames() {
    saves_and_mends("kak-replace", &[]);
}

#[test]
fn nvi() {
    saves_and_mends("nvi", &[]);
}

#[test]
fn vi_of_busybox() {
    saves_and_mends("busybox-vi", &[]);
}
