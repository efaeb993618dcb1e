//! Files that an interrupted save left half old and half new.
//!
//! Such a file may not even begin as its format does, so the formats are asked before the file is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::editor::{EditContext, SaveTarget};
use crate::error::{Error, Kind, Result};

pub(super) mod found;

pub use found::{Condition, Recovered, Side};

/// Finishes or undoes an interrupted save of a file, in whatever format it is.
///
/// # Errors
///
/// [`Kind::Busy`] if another program has the file, [`Kind::ReadOnly`] if it can't be written.
pub fn recover(target: &SaveTarget, mountpoint: Option<&Path>) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for support in super::edit_supports() {
        recovered.add(support.recover(target, mountpoint)?);
    }
    Ok(recovered)
}

/// Whether a file is one version; changes nothing.
///
/// # Errors
///
/// Whatever keeps that from being found out.
pub fn condition(target: &SaveTarget, mountpoint: Option<&Path>) -> Result<Condition> {
    for support in super::edit_supports() {
        if let halfway @ Condition::Halfway(_) = support.condition(target, mountpoint)? {
            return Ok(halfway);
        }
    }
    Ok(Condition::Whole)
}

/// Whether there are traces of an interrupted save of a file.
///
/// # Errors
///
/// Whatever keeps that from being found out.
pub fn is_interrupted(target: &SaveTarget, mountpoint: Option<&Path>) -> Result<bool> {
    for support in super::edit_supports() {
        if support.is_interrupted(target, mountpoint)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a mount does about a file that an interrupted save may have left halfway, before it reads the file.
#[derive(Clone, Debug)]
pub enum RecoveryPolicy {
    /// A mount for writing recovers the file.
    Recover(Arc<EditContext>),
    /// A mount for reading, on this mountpoint if it is known, changes nothing.
    Report(Option<PathBuf>),
}

impl RecoveryPolicy {
    /// Makes sure that the file is one version.
    ///
    /// # Errors
    ///
    /// [`Kind::Unfinished`] if the file is half old and half new, and stays so.
    pub fn apply(&self, target: &SaveTarget) -> Result<()> {
        let mountpoint = match self {
            Self::Recover(context) => context.mountpoint.as_deref(),
            Self::Report(mountpoint) => mountpoint.as_deref(),
        };
        let label = target.label().display();
        if matches!(self, Self::Recover(_)) && is_interrupted(target, mountpoint)? {
            match recover(target, mountpoint) {
                Ok(recovered) => {
                    let outcome = recovered.outcome_notice().map(str::to_owned);
                    for line in outcome.into_iter().chain(recovered.notices()) {
                        tracing::warn!("{label}: {line}");
                    }
                    return Ok(());
                }
                // Another program has the file: it may be saving just now.
                Err(error) if error.kind() == Kind::Busy => {}
                Err(error) if error.kind() == Kind::Unfinished => return Err(error.of(target.label())),
                Err(error) => tracing::warn!("{label}: {}", error.message()),
            }
        }
        check_whole(target, mountpoint)
    }
}

/// Refuses a file that is half old and half new, or may be.
fn check_whole(target: &SaveTarget, mountpoint: Option<&Path>) -> Result<()> {
    match condition(target, mountpoint)? {
        Condition::Halfway(why) => Err(Error::new(Kind::Unfinished, why).of(target.label())),
        Condition::Whole => Ok(()),
    }
}
