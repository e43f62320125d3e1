//! Threads that search the files of one call on all processors. Files are handed over in the order of the directory walk,
//! and come back with their matches in this order.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, available_parallelism};

use file_access::FileReader;

use super::line_search::{FileMatches, LineQuery, LineSearcher, MatchSelection};

/// Largest number of threads of one call.
const MAX_THREADS: usize = 8;
/// Largest number of files that are handed over and not yet back. Each is open, and all calls share the descriptor limit.
const MAX_WAITING: usize = 32;

/// File to search.
pub(super) struct OpenedFile {
    /// Path relative to the searched directory.
    pub(super) relative: PathBuf,
    pub(super) reader: FileReader,
    /// Size that the directory entry reports.
    pub(super) size: u64,
    pub(super) lines: MatchSelection,
}

/// File that was searched.
pub(super) struct SearchedFile {
    pub(super) relative: PathBuf,
    pub(super) size: u64,
    pub(super) matches: io::Result<FileMatches>,
}

/// Threads of a running search. They end when this value is dropped.
pub(super) struct SearchWorkers {
    files: SyncSender<(u64, OpenedFile)>,
    searched: Receiver<(u64, SearchedFile)>,
    sent: u64,
    returned: u64,
    /// Searched files with a predecessor that is still being searched.
    early: BTreeMap<u64, SearchedFile>,
}

/// Selection of the searched files to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// As many as are needed to hand over another file.
    Room,
    /// All of them.
    All,
}

impl SearchWorkers {
    /// Starts the threads. They read at most `most_bytes` of each file.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        query: &'scope LineQuery,
        most_bytes: u64,
    ) -> SearchWorkers {
        let (files, waiting) = sync_channel::<(u64, OpenedFile)>(MAX_WAITING);
        let (waiting, (sender, searched)) = (Arc::new(Mutex::new(waiting)), channel());
        for _ in 0..available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS) {
            let (waiting, sender) = (Arc::clone(&waiting), sender.clone());
            scope.spawn(move || {
                let mut searcher = LineSearcher::new(query);
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, OpenedFile { relative, reader, size, lines })) = next else { break };
                    let matches = searcher.search(reader, most_bytes, &relative, &lines);
                    // An error means that the search is over.
                    let _ = sender.send((number, SearchedFile { relative, size, matches }));
                }
            });
        }
        SearchWorkers { files, searched, sent: 0, returned: 0, early: BTreeMap::new() }
    }

    /// Hands a file over. Does not wait after `next(WaitFor::Room)` has returned `None`.
    pub(super) fn send(&mut self, file: OpenedFile) {
        // An error means that all threads have panicked, which the scope reports.
        let _ = self.files.send((self.sent, file));
        self.sent += 1;
    }

    /// Returns true if every file that was handed over is back.
    pub(super) fn is_idle(&self) -> bool {
        self.sent == self.returned
    }

    /// Returns the next file that was searched, or `None` if there is none to wait for.
    pub(super) fn next(&mut self, wait: WaitFor) -> Option<SearchedFile> {
        loop {
            if let Some(file) = self.early.remove(&self.returned) {
                self.returned += 1;
                return Some(file);
            }
            let waiting = self.sent - self.returned;
            let must_wait = wait == WaitFor::All || waiting >= MAX_WAITING as u64;
            let (number, file) = match must_wait && waiting > 0 {
                true => self.searched.recv().ok()?,
                false => self.searched.try_recv().ok()?,
            };
            self.early.insert(number, file);
        }
    }
}
