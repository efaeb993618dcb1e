//! Recovery of files that an interrupted save left half-saved: partly old and partly new.
//!
//! The first bytes of a half-saved file may not show its format, so this is asked before the file is opened.

use seekable::error::{Error, Kind, Result};

use super::traces;
use crate::edit::context::SaveTarget;

pub use super::recovered::SaveSide;
pub use super::recovered::{Condition, Recovered, Traces};
pub use super::{condition, recover, recover_by_hand};

/// True if there are traces of an interrupted save of a file.
///
/// # Errors
///
/// The file can't be examined.
pub fn is_interrupted(target: &SaveTarget) -> Result<bool> {
    Ok(traces(target)? == Traces::Left)
}

/// The reaction of a mount to a file that may be half-saved, before it reads the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryPolicy {
    /// A writable mount recovers the file.
    Recover,
    /// A read-only mount changes nothing.
    Report,
}

impl RecoveryPolicy {
    /// Makes sure that the file is not half-saved.
    ///
    /// # Errors
    ///
    /// [`Kind::Unfinished`] if the file is half-saved and can't be recovered.
    pub fn apply(self, target: &SaveTarget) -> Result<()> {
        match self {
            Self::Recover => {}
            Self::Report => return check_whole(target),
        }
        let label = target.label().display();
        let found = traces(target)?;
        if found == Traces::None {
            return Ok(());
        }
        if found == Traces::Left {
            match recover(target) {
                Ok(recovered) => {
                    let outcome = recovered.outcome_notice().map(str::to_owned);
                    for line in outcome.into_iter().chain(recovered.notices()) {
                        tracing::warn!("{label}: {line}");
                    }
                    return Ok(());
                }
                // Another program has the file locked, perhaps for a save.
                Err(error) if error.kind() == Kind::Busy => {}
                Err(error) if error.kind() == Kind::Unfinished => return Err(error.of(target.label())),
                Err(error) => tracing::warn!("{label}: {}", error.message()),
            }
        }
        check_whole(target)
    }
}

/// Refuses a file that is half-saved, or may be.
fn check_whole(target: &SaveTarget) -> Result<()> {
    match condition(target)? {
        Condition::Halfway(why) => Err(Error::new(Kind::Unfinished, why).of(target.label())),
        Condition::Whole => Ok(()),
    }
}
