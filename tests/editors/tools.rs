//! Non-interactive programs that change a file, each with a valid text and an invalid one.
//!
//! Each runs in a shell in the mount and replaces `$A` in `tree.yaml` by `$B`; `$F` is a file outside of the
//! mount with the complete new text.

use std::fs;

use common::case::{BAD, Case, OLD};
use common::mount::wait_until;

/// The program's reaction to a refusal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hears {
    /// It exits with an error.
    Yes,
    /// It ignores the result of close; the user finds `tree.yaml.error`.
    No,
}
pub(crate) use Hears::{No, Yes};

/// Another valid text.
const OTHER: &str = "second light";

/// The command, the files that it leaves beside `tree.yaml` in any directory, and its reaction to a refusal.
pub(crate) type Tool = (&'static str, &'static [&'static str], Hears);

const SHELL: &[Tool] = &[
    ("cat $F > tree.yaml", &[], Yes),
    ("{ head -n 9 $F; sleep 0.1; tail -n +10 $F; } > tree.yaml", &[], Yes),
    ("(head -n 9 $F; tail -n +10 $F) > tree.yaml", &[], Yes),
    ("while IFS= read -r line; do printf '%s\\n' \"$line\"; done < $F > tree.yaml", &[], No),
    ("t=$(cat $F; echo x); printf %s \"${t%x}\" > tree.yaml", &[], No),
    ("dash -c 'sed \"\" $F > tree.yaml'", &[], Yes),
    ("eval \"cat > tree.yaml <<'E'\n$(cat $F)\nE\"", &[], Yes),
    ("tee tree.yaml < $F > /dev/null", &[], Yes),
    ("truncate -s0 tree.yaml; cat $F >> tree.yaml", &[], Yes),
    (": > tree.yaml; tee -a tree.yaml < $F > /dev/null", &[], Yes),
    ("sed \"s/$A/$B/\" tree.yaml | sponge tree.yaml", &[], Yes),
    ("exec 3> tree.yaml; cat $F >&3; exec 3>&-", &[], No),
];

const COREUTILS: &[Tool] = &[
    ("cp $F tree.yaml", &[], Yes),
    ("cp -a $F tree.yaml", &[], Yes),
    ("cp -f $F tree.yaml", &[], Yes),
    ("cp -b $F tree.yaml", &["tree.yaml~"], Yes),
    ("cp --reflink=auto --sparse=always $F tree.yaml", &[], Yes),
    ("cp --remove-destination $F tree.yaml", &[], Yes),
    ("cp $F x; cp x tree.yaml && rm x", &[], Yes),
    ("cp $F x; mv x tree.yaml", &[], Yes),
    ("cp $F x; mv -b x tree.yaml", &["tree.yaml~"], Yes),
    ("cp $F x; ln -f x tree.yaml && rm x", &[], Yes),
    ("cp $F ../x; mv ../x tree.yaml", &[], Yes),
    ("install -m 644 $F tree.yaml", &[], Yes),
    ("install -b -m 644 $F tree.yaml", &["tree.yaml~"], Yes),
    ("dd if=$F of=tree.yaml", &[], Yes),
    ("dd if=$F of=tree.yaml bs=100 conv=fsync", &[], Yes),
    ("rsync $F tree.yaml", &[], Yes),
    ("rsync -a $F tree.yaml", &[], Yes),
    ("rsync --inplace $F tree.yaml", &[], Yes),
    ("busybox cp $F tree.yaml", &[], Yes),
];

const EDITS: &[Tool] = &[
    ("sed -i \"s/$A/$B/\" tree.yaml", &[], Yes),
    ("sed -i.bak \"s/$A/$B/\" tree.yaml", &["tree.yaml.bak"], Yes),
    ("busybox sed -i \"s/$A/$B/\" tree.yaml", &[], Yes),
    ("perl -pi -e 's/$ENV{A}/$ENV{B}/' tree.yaml", &[], Yes),
    ("perl -pi.bak -e 's/$ENV{A}/$ENV{B}/' tree.yaml", &["tree.yaml.bak"], Yes),
    ("gawk -i inplace '{ sub(ENVIRON[\"A\"], ENVIRON[\"B\"]) } 1' tree.yaml", &[], Yes),
    ("diff -u tree.yaml $F > ../p; patch -s tree.yaml ../p", &[], Yes),
    ("diff -u tree.yaml $F > ../p; patch -s -b tree.yaml ../p", &["tree.yaml.orig"], Yes),
    (
        "diff -u --label a/tree.yaml --label b/tree.yaml tree.yaml $F > ../p; git apply --unsafe-paths ../p",
        &[],
        Yes,
    ),
    ("printf '%s\\n' \",s/$A/$B/\" w q | ed -s tree.yaml", &[], Yes),
    ("vim -Nu NONE -es -c \"set backupskip=\" -c \"%s/$A/$B/\" -c wq tree.yaml", &[], Yes),
    ("vim -Nu NONE -es -c \"set backupskip= backupcopy=yes\" -c \"%s/$A/$B/\" -c wq tree.yaml", &[], Yes),
    (
        "emacs -Q --batch --eval '(setq backup-enable-predicate (quote identity))' tree.yaml \
         --eval '(progn (while (search-forward (getenv \"A\") nil t) \
         (replace-match (getenv \"B\"))) (save-buffer))'",
        &["tree.yaml~"],
        Yes,
    ),
    (
        "emacs -Q --batch --eval '(setq backup-enable-predicate (quote identity))' tree.yaml \
         --eval '(progn (setq file-precious-flag t) (while (search-forward (getenv \"A\") nil t) \
         (replace-match (getenv \"B\"))) (save-buffer))'",
        &["tree.yaml~"],
        Yes,
    ),
];

const LANGUAGES: &[Tool] = &[
    (
        "python3 -c \"import os,pathlib; pathlib.Path('tree.yaml').write_text(open(os.environ['F']).read())\"",
        &[],
        Yes,
    ),
    (
        "python3 -c \"import os; f=open('tree.yaml','r+'); t=f.read().replace(os.environ['A'],os.environ['B']); \
         f.seek(0); f.write(t); f.truncate(); f.close()\"",
        &[],
        Yes,
    ),
    (
        "python3 -c \"import os,tempfile; d,n=tempfile.mkstemp(dir='.'); os.write(d,open(os.environ['F'],'rb').read()); \
         os.fsync(d); os.close(d); os.replace(n,'tree.yaml'); d=os.open('.',os.O_RDONLY); os.fsync(d)\"",
        &[],
        Yes,
    ),
    (
        "python3 -c \"import os,fileinput\nfor l in fileinput.input('tree.yaml',inplace=True,backup='.old'): \
         print(l.replace(os.environ['A'],os.environ['B']),end='')\"",
        &["tree.yaml.old"],
        Yes,
    ),
    (
        "python3 -c \"import os,mmap; n=open(os.environ['F'],'rb').read(); f=open('tree.yaml','r+b'); \
         f.truncate(len(n)); m=mmap.mmap(f.fileno(),len(n)); m[:]=n; m.flush(); m.close(); f.close()\"",
        &[],
        Yes,
    ),
    ("python3 -c \"import os; open('tree.yaml','w').write(open(os.environ['F']).read())\"", &[], No),
    (
        "node -e \"const fs=require('fs'); fs.writeFileSync('tree.yaml', fs.readFileSync(process.env.F))\"",
        &[],
        Yes,
    ),
    (
        // As VS Code does: a failure of fdatasync is ignored, a failure of close is not.
        "node -e \"const fs=require('fs'); fs.open('tree.yaml','w',(e,d)=>fs.write(d,fs.readFileSync(process.env.F),0,()=>\
         fs.fdatasync(d,()=>fs.close(d,(e)=>process.exit(e?1:0)))))\"",
        &[],
        Yes,
    ),
    (
        // As helix does: rename the old file away, check the result of fsync, ignore the result of close.
        "python3 -c \"import os\ntry:\n os.rename('tree.yaml','tree.yamlAbCdEf.bck'); d=os.open('tree.yaml',os.O_WRONLY|os.O_CREAT|os.O_TRUNC); \
         os.write(d,open(os.environ['F'],'rb').read()); os.fsync(d)\nexcept OSError: os.rename('tree.yamlAbCdEf.bck','tree.yaml'); raise\n\
         os.unlink('tree.yamlAbCdEf.bck')\"",
        &[],
        Yes,
    ),
];

/// Runs each tool twice. A valid text is one save, seen by the tool and by others. An invalid text is
/// reported, kept, and changes nothing.
#[track_caller]
pub(crate) fn all(tools: &[Tool]) {
    let case = Case::new();
    let (mut now, mut next) = (OLD, OTHER);
    let mut saves = 0;
    for (script, leaves, hears) in tools {
        let run = |from: &str, to: &str| {
            let file = case.new_file(to);
            let variables = [("A", from), ("B", to), ("F", file.to_str().unwrap())];
            case.sh_with(&format!("set -o pipefail; {script}"), &variables)
        };
        // The refused text comes first; the tree must then show the previous text.
        let before = fs::metadata(case.tree()).unwrap().modified().unwrap();
        let output = run(now, BAD);
        assert_eq!(output.status.success(), *hears == No, "{script}: {output:?}\n{}", case.log());
        let is_back = || fs::read_to_string(case.tree()).is_ok_and(|text| text == case.named(now));
        assert!(wait_until(is_back), "{script}: {:?}", fs::read_to_string(case.tree()));
        assert_eq!(fs::metadata(case.tree()).unwrap().modified().unwrap(), before, "{script}");
        assert_eq!((case.saved(), case.saves()), (case.named(now), saves), "{script}: {}", case.log());
        case.is_refused(&case.named(BAD));
        let output = run(now, next);
        assert!(output.status.success(), "{script}: {output:?}\n{}", case.log());
        saves += 1;
        assert_eq!((case.saved(), case.saves()), (case.named(next), saves), "{script}: {}", case.log());
        assert_eq!(fs::read_to_string(case.tree()).unwrap(), case.named(next), "{script}");
        let mut names: Vec<_> = ["tree.yaml"].iter().chain(*leaves).map(|name| (*name).to_owned()).collect();
        names.sort();
        // Files left by a tool after a refusal are not the mount's.
        let mut found = case.names();
        found.retain(|name| names.contains(name) || !is_left_by_a_refusal(name));
        assert_eq!(found, names, "{script}");
        for name in case.names().iter().filter(|name| *name != "tree.yaml") {
            fs::remove_file(case.path(name)).unwrap();
        }
        std::mem::swap(&mut now, &mut next);
    }
    case.blocks_are_whole();
}

/// True for temporary files that a tool does not remove if the rename fails.
fn is_left_by_a_refusal(name: &str) -> bool {
    name == "x" || name == "tree.yaml~" || name.starts_with("tmp") || name.ends_with(".orig")
}

#[test]
fn shells() {
    all(SHELL);
}

#[test]
fn coreutils_and_rsync() {
    all(COREUTILS);
}

#[test]
fn editors_without_a_screen() {
    all(EDITS);
}

#[test]
fn languages() {
    all(LANGUAGES);
}
