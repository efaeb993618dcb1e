//! Requests about open files, except writes.

use std::sync::Arc;
use std::time::Instant;

use fuser::{
    Errno, FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, ReplyData, ReplyEmpty, ReplyOpen, Request,
};
use seekable::error::Result;
use seekable::workers::caller::{on_behalf_of, with_deadline};

use super::read::{self, Purpose, ReadRequest};
use super::{Server, caller, ino, reply};
use crate::overlay::write_handle::OpenFor;
use crate::vfs::{Caching, OpenFile, OverlayWriter, ReadHandle};

/// Replies to an open for reading.
fn opened(reader: &ReadHandle, thread: u32, handle: FileHandle, reply: ReplyOpen) {
    let caching = match reader.caching(thread) {
        Caching::Direct => FopenFlags::FOPEN_DIRECT_IO,
        Caching::Stored => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_KEEP_CACHE,
        Caching::Anew => FopenFlags::empty(),
        Caching::Keep => FopenFlags::FOPEN_KEEP_CACHE,
    };
    // Closing a read-only handle has no effect, so the kernel need not send a flush.
    reply.opened(handle, caching | FopenFlags::FOPEN_NOFLUSH);
}

impl Server {
    /// Returns the open file of a handle, if it is writable.
    pub(super) fn writer(&self, handle: FileHandle) -> Option<Arc<OpenFile>> {
        self.files.get(handle).filter(|opened| matches!(**opened, OpenFile::Writer(_)))
    }

    /// Runs a job on a writable file, on a worker if the job is slow. For any other handle,
    /// replies success at once.
    pub(super) fn with_writer(
        &self,
        handle: FileHandle,
        reply: ReplyEmpty,
        is_slow: impl FnOnce(&OverlayWriter) -> bool,
        job: impl FnOnce(&OverlayWriter) -> Result<()> + Send + 'static,
    ) {
        let Some(file) = self.writer(handle) else { return reply.ok() };
        let OpenFile::Writer(writer) = &*file else { return reply.ok() };
        if !is_slow(writer) {
            return reply::done(job(writer), reply);
        }
        self.saving.run(writer.file_system(), move || {
            if let OpenFile::Writer(writer) = &*file {
                reply::done(job(writer), reply);
            }
        });
    }

    pub(super) fn open_file(&self, thread: u32, uid: u32, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let open = OpenFor {
            writing: flags.acc_mode() != OpenAccMode::O_RDONLY,
            appending: flags.0 & libc::O_APPEND != 0,
            truncating: flags.0 & libc::O_TRUNC != 0,
            only_new: false,
        };
        match self.vfs.open_for(ino(node), open, || caller::of(thread, uid)) {
            Ok(opened_file) => {
                let (handle, file) = self.files.add(opened_file);
                match &*file {
                    OpenFile::Writer(_) if open.writing => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
                    // Closing a handle that can't write has no effect.
                    OpenFile::Writer(_) => {
                        reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
                    }
                    OpenFile::Reader(reader) if reader.begin().is_slow() => {
                        self.decoding.run(with_deadline(move || {
                            if let OpenFile::Reader(reader) = &*file {
                                opened(reader, thread, handle, reply);
                            }
                        }))
                    }
                    OpenFile::Reader(reader) => opened(reader, thread, handle, reply),
                }
            }
            Err(error) => {
                tracing::debug!("open: {error}");
                reply.error(reply::errno(&error));
            }
        }
    }

    pub(super) fn read_file(&self, handle: FileHandle, read: ReadRequest, reply: ReplyData) {
        let Some(file) = self.files.get(handle) else { return reply.error(Errno::EBADF) };
        if let OpenFile::Reader(reader) = &*file {
            reader.note_read(read.thread, read.offset, read.size, read.purpose == Purpose::Cache);
        }
        match &*file {
            OpenFile::Writer(writer) if writer.stalling().is_some() => {
                self.saving.run(writer.file_system(), move || {
                    if let OpenFile::Writer(writer) = &*file {
                        read::answer_from_writer(writer, read, reply);
                    }
                })
            }
            OpenFile::Writer(writer) => read::answer_from_writer(writer, read, reply),
            OpenFile::Reader(reader) => {
                let reading = reader.begin();
                if reading.is_slow() {
                    let Some(reply) = read::answer_at_hand(&reading, read, reply) else { return };
                    drop(reading);
                    return self.read_slowly(file, read, reply);
                }
                let unanswered = if reading.is_outdated() {
                    drop(reading);
                    Some(reply)
                } else {
                    read::answer(reader, Ok(reading), read, reply)
                };
                let Some(reply) = unanswered else { return };
                // Another program changed the file, so it may have to be parsed first.
                self.searching.run(reader.delay(), move || {
                    if let OpenFile::Reader(reader) = &*file {
                        read::answer_anew(reader, read, reply);
                    }
                });
            }
        }
    }

    /// Answers a read that has to decode, or to wait, on a thread of its own.
    fn read_slowly(&self, file: Arc<OpenFile>, read: ReadRequest, reply: ReplyData) {
        // A read for the page cache serves all programs, so it is not ended when a signal ends one of them.
        let caller = (read.purpose == Purpose::Program).then_some(read.thread);
        let answer = move || {
            if let OpenFile::Reader(reader) = &*file
                && let Some(reply) = read::answer(reader, reader.current(), read, reply)
            {
                read::answer_anew(reader, read, reply);
            }
        };
        let arrived = Instant::now();
        self.decoding.run(move || on_behalf_of(caller, arrived, answer));
    }

    pub(super) fn flush_file(&self, request: &Request, handle: FileHandle, reply: ReplyEmpty) {
        if !self
            .writer(handle)
            .is_some_and(|file| matches!(&*file, OpenFile::Writer(writer) if writer.is_concerned()))
        {
            // This flush saves nothing, so the closing process need not be known.
            return reply.ok();
        }
        let caller = caller::closing(request);
        self.with_writer(handle, reply, |_| true, move |writer| writer.flush(caller));
    }

    pub(super) fn sync_file(&self, handle: FileHandle, reply: ReplyEmpty) {
        self.with_writer(handle, reply, |writer| writer.is_slow(), |writer| writer.sync());
    }

    pub(super) fn release_file(&self, handle: FileHandle, reply: ReplyEmpty) {
        let end = |writer: &OverlayWriter| {
            writer.release();
            Ok(())
        };
        self.with_writer(handle, reply, |writer| writer.is_slow_release(), end);
        self.files.remove(handle);
    }
}
