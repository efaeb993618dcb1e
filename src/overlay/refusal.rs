//! Refused and unsaved texts: reporting them, and keeping them.
//!
//! The program that wrote a refused text gets an errno. Two generated files beside `tree.yaml` contain the
//! reason and the text. The state directory keeps the text as well, and also texts that programs left
//! unsaved, so that none is lost when the mount ends.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use asdf_file::container::text_version::TextVersion;
use asdf_file::edit::refusal::Refusal;
use asdf_file::time::instant;
use seekable::content::Text;
use seekable::error::{Error, Result, errno, printable};
use seekable::sync::locked;

use crate::overlay::draft::Draft;
use crate::overlay::file::{Backing, OverlayFile, Payer, now};
use crate::overlay::{Overlay, OverlayState, short_text};
use crate::view::status::LastRefusal;

/// The generated files that report a refusal.
pub(crate) const ERROR: &str = "tree.yaml.error";
pub(crate) const REJECTED: &str = "tree.yaml.rejected";
/// The generated files for a merge after a conflict: the text from which the refused one was edited, and the one that
/// another program saved meanwhile.
const BASE: &str = "tree.yaml.base";
const THEIRS: &str = "tree.yaml.theirs";
/// The generated file with the warnings of the last save.
pub(crate) const WARNING: &str = "tree.yaml.warning";
/// The suffix of a refused text in the state directory.
const REFUSED: &str = ".rejected.yaml";
/// Maximum size of a generated text that is held in memory, without quota.
const SMALL: usize = 16 << 10;
/// Time within which an editor that could not save puts the saved text back.
const ROLLED_BACK: Duration = Duration::from_secs(2);

impl Overlay {
    /// Reports a refusal: to the program, in the two files, in the state directory, in the log.
    pub(crate) fn refuse(
        &self,
        state: &mut OverlayState,
        overlay_file: &Arc<OverlayFile>,
        draft: &Draft,
        refusal: Refusal,
    ) -> Error {
        let answer = refusal.errno();
        let summary = refusal.to_string();
        let mut explanation = refusal.report();
        if draft.joined.is_some() {
            explanation += "\nLine numbers do not count the line '...' after which text was appended.\n";
        }
        let is_conflict = matches!(refusal, Refusal::Conflict);
        locked(&overlay_file.body).refused = Some((draft.edits, refusal));
        let text = &*draft.text;
        let version = Some(TextVersion::of_bytes(text));
        let is_new = state.rejected != version;
        state.rejected = version;
        state.refused_at = Some(Instant::now());
        let is_shown = state.names.contains_key(OsStr::new(ERROR));
        if is_new || !is_shown {
            let why = format!("tree.yaml was not saved: {summary}");
            let kept = if is_new {
                self.keep(state, REFUSED, text, &why)
            } else {
                state.last_refusal.as_ref().and_then(|last| last.kept_in.clone())
            };
            if let Some(path) = &kept {
                explanation += &format!("\nThe text is in {REJECTED}, and in {path}.\n");
            }
            let (payer, base_version) = {
                let body = locked(&overlay_file.body);
                (body.payer, body.base_version)
            };
            let merged = if is_conflict { self.texts_to_merge(state, base_version) } else { Vec::new() };
            if merged.len() == 2 {
                explanation += &format!(
                    "{BASE} is the text before both changes, and {THEIRS} the one that another program saved. To merge \
                     them, and to save the result: git merge-file {REJECTED} {BASE} {THEIRS} && cp {REJECTED} \
                     tree.yaml\n"
                );
            }
            let explanation = printable(&explanation);
            for (name, content) in [(ERROR, explanation.as_bytes()), (REJECTED, text)] {
                let is_elsewhere = name == ERROR || kept.is_some();
                if let Err(error) = self.put_text(state, name, content, is_elsewhere, payer) {
                    tracing::warn!("{}: {name} can't be made: {error}", self.label().display());
                }
            }
            for name in [BASE, THEIRS] {
                self.take(state, OsStr::new(name));
            }
            for (name, content) in merged {
                if let Err(error) = self.put_text(state, name, &content, true, payer) {
                    tracing::warn!("{}: {name} can't be made: {error}", self.label().display());
                }
            }
            state.last_refusal = Some(LastRefusal { time: instant(now()), reason: summary, kept_in: kept });
        }
        if let Err(error) = self.restore(state) {
            tracing::warn!("{}: {error}", self.label().display());
        }
        errno(answer)
    }

    /// Returns the names and texts of the files for a merge; nothing if a text is not known, or long.
    fn texts_to_merge(&self, state: &OverlayState, base_version: u64) -> Vec<(&'static str, Arc<[u8]>)> {
        // The change may be newer than the last look at the source.
        let saved = self.mounted().and_then(|mounted| {
            mounted.revalidate_now();
            short_text(&*self.saved_text()?)
        });
        match (state.base_text(base_version), saved) {
            (Some(base), Ok(Some(theirs))) => {
                vec![(BASE, base), (THEIRS, theirs)]
            }
            _ => Vec::new(),
        }
    }

    /// Reports a save: removes the files of an earlier refusal, and writes or removes the file of warnings.
    pub(crate) fn tell_saved(&self, state: &mut OverlayState, overlay_file: &Arc<OverlayFile>, report: &str) {
        self.forget_refusal(state, overlay_file);
        let result = if report.is_empty() {
            self.take_unless(state, WARNING, overlay_file)
        } else {
            let payer = locked(&overlay_file.body).payer;
            self.put_text(state, WARNING, report.as_bytes(), true, payer)
        };
        if let Err(error) = result {
            tracing::warn!("{}: {WARNING} can't be made: {error}", self.label().display());
        }
    }

    /// Reports that the saved text was saved again: removes the files of an earlier refusal. They stay if an
    /// editor merely puts back the text that it could not replace.
    pub(crate) fn tell_same(&self, state: &mut OverlayState, overlay_file: &Arc<OverlayFile>) {
        if state.refused_at.is_none_or(|refused| refused.elapsed() > ROLLED_BACK) {
            self.forget_refusal(state, overlay_file);
        }
    }

    fn forget_refusal(&self, state: &mut OverlayState, overlay_file: &Arc<OverlayFile>) {
        state.rejected = None;
        for name in [ERROR, REJECTED, BASE, THEIRS] {
            let _ = self.take_unless(state, name, overlay_file);
        }
    }

    /// Removes a name, unless it belongs to the file that was saved: `tree.yaml.rejected` may have been
    /// corrected in place and renamed.
    fn take_unless(
        &self,
        state: &mut OverlayState,
        name: &str,
        overlay_file: &Arc<OverlayFile>,
    ) -> Result<()> {
        if !state.names.get(OsStr::new(name)).is_some_and(|shown| Arc::ptr_eq(shown, overlay_file)) {
            self.take(state, OsStr::new(name));
        }
        Ok(())
    }

    /// Shows a generated text under a name. The text gets a scratch file if it is large or available nowhere
    /// else.
    fn put_text(
        &self,
        state: &mut OverlayState,
        name: &str,
        text: &[u8],
        told_elsewhere: bool,
        payer: Payer,
    ) -> Result<()> {
        self.take(state, OsStr::new(name));
        let overlay_file = self.overlay_file(state.base_version)?;
        let mut body = locked(&overlay_file.body);
        body.set_payer(payer);
        body.backing = if text.len() <= SMALL && told_elsewhere {
            Backing::Text(Text::new(text))
        } else {
            body.take_room(&self.shared.quota, text.len() as u64, self.limit())?;
            Backing::File(Arc::new(self.filled(state, Some(OsStr::new(name)), &Text::new(text))?))
        };
        body.size = text.len() as u64;
        body.generated = true;
        drop(body);
        self.put(state, OsStr::new(name), &overlay_file);
        Ok(())
    }

    /// Keeps the text of a draft that will not be saved, and reports its location.
    pub(crate) fn keep_unfinished(&self, state: &mut OverlayState, overlay_file: &Arc<OverlayFile>) {
        let text = match locked(&overlay_file.body).text() {
            Ok(text) if text.is_empty() => return,
            Ok(text) => text,
            Err(error) => {
                return tracing::error!("{}: an unfinished text is lost: {error}", self.label().display());
            }
        };
        let what = "an unfinished text of tree.yaml was not saved";
        self.keep(state, ".unfinished.yaml", &text, what);
    }

    /// Keeps a text in the state directory; logs the location and the reason.
    fn keep(&self, state: &mut OverlayState, end: &str, text: &[u8], why: &str) -> Option<String> {
        let label = self.label();
        let Some(state_dir) = &self.shared.state_dir else {
            tracing::error!("{}: {why}; it can't be kept: there is no state directory", label.display());
            return None;
        };
        let kept = match end {
            REFUSED => state_dir.keep_refused(&label, &self.stem(), text),
            end => state_dir.keep(&self.stem(), end, text),
        };
        match kept {
            Ok(kept) => {
                let path = kept.display().to_string();
                let line = format!("{}: {why}; it is kept in {path}", label.display());
                if state.closed {
                    state_dir.tell(line);
                } else {
                    tracing::warn!("{line}");
                }
                Some(path)
            }
            Err(error) => {
                tracing::error!("{}: {why}; it can't be kept: {error}", label.display());
                None
            }
        }
    }
}
