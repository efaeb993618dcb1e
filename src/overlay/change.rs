//! Changes of a file's size, permissions and times.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use asdf_access::local::stat::Time;
use seekable::error::{Result, errno};
use seekable::sync::locked;

use crate::overlay::file::{Backing, OverlayFile, Payer, Whole, now, time_of};
use crate::overlay::write_handle::WriteHandle;
use crate::overlay::{Overlay, OverlayState, SavedTimes};

/// A new time of a file.
#[derive(Clone, Copy, Debug)]
pub enum TimeSpec {
    /// The current time.
    Now,
    /// A given time.
    At(std::time::SystemTime),
}

impl TimeSpec {
    fn time(self) -> Time {
        match self {
            Self::Now => now(),
            Self::At(time) => time_of(time),
        }
    }
}

/// A requested change of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// The user that makes the change.
    pub by: u32,
    /// New permissions.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size in bytes.
    pub size: Option<u64>,
    /// New time of the last access.
    pub atime: Option<TimeSpec>,
    /// New time of the last modification.
    pub mtime: Option<TimeSpec>,
}

impl Overlay {
    /// Changes the attributes or the size of a file; `writer` is the handle used for it.
    pub(crate) fn change(
        &self,
        overlay_file: &Arc<OverlayFile>,
        change: Change,
        writer: Option<&WriteHandle>,
    ) -> Result<()> {
        if change.size.is_some() && writer.is_none() && self.is_tree(&locked(&self.state), overlay_file) {
            self.begin()?;
        }
        let mut state = locked(&self.state);
        self.write_access(&mut state)?;
        if let Some(size) = change.size {
            let is_beside = !self.is_tree(&state, overlay_file);
            locked(&overlay_file.body).set_payer(Payer { uid: change.by, is_beside });
            if let Some(writer) = writer {
                writer.begin_text(&mut state, size > 0)?;
            }
            self.resize(&mut state, overlay_file, size)?;
            if let Some(writer) = writer {
                writer.wrote.store(true, Ordering::Relaxed);
            }
        }
        let times = change.mtime.map(|mtime| (mtime.time(), now()));
        let mounted = self.mounted()?;
        let shown = self.times(&state)?;
        let mut body = locked(&overlay_file.body);
        body.mode = change.mode.map(|mode| mode & 0o7777).or(body.mode);
        body.uid = change.uid.or(body.uid);
        body.gid = change.gid.or(body.gid);
        body.atime = change.atime.map(TimeSpec::time).or(body.atime);
        let others = change.mode.is_some() || change.uid.is_some() || change.gid.is_some();
        if times.is_some() || others || change.atime.is_some() {
            let (mtime, ctime) = times.unwrap_or((
                if matches!(body.backing, Backing::Source) { shown.0 } else { body.mtime },
                now(),
            ));
            match body.backing {
                Backing::Source => {
                    let version = mounted.revalidate().stat.source.version;
                    state.shown = Some(SavedTimes { version, mtime, ctime });
                }
                _ => (body.mtime, body.ctime) = (mtime, ctime),
            }
        }
        Ok(())
    }

    /// Truncates or extends the text of a file.
    pub(crate) fn resize(
        &self,
        state: &mut OverlayState,
        overlay_file: &Arc<OverlayFile>,
        size: u64,
    ) -> Result<()> {
        self.copy_up(state, overlay_file, size > 0)?;
        let limit = self.limit();
        let mut body = locked(&overlay_file.body);
        if size > i64::MAX as u64 {
            return Err(errno(libc::EFBIG));
        }
        body.take_room(&self.shared.quota, size, limit)?;
        if let Backing::File(file) = &body.backing
            && let Err(error) = file.set_len(size)
        {
            let kept = Whole(file, size.min(body.size));
            let in_memory = self.in_memory_instead(&kept, &error.into())?;
            in_memory.set_len(size)?;
            body.backing = Backing::File(Arc::new(in_memory));
        }
        body.size = size;
        body.edited(false);
        if size == 0 && body.writers == 0 {
            body.pending = Some(std::time::Instant::now());
        }
        Ok(())
    }
}
