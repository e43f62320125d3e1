//! Log files as one growing text. Rotation renames the files, so they are identified by their inode.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::TelemetryError;
use crate::log::log_path;

/// Maximum length of a line in bytes. No record is longer; a longer line is skipped without being buffered.
const LINE_LIMIT: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct LogFileChain {
    directory: PathBuf,
    /// Files still to be read, the oldest first. The first is being read.
    unread: VecDeque<LogFileSource>,
}

#[derive(Debug)]
struct LogFileSource {
    path: PathBuf,
    reader: BufReader<File>,
    identity: (u64, u64),
    /// Beginning of a line whose end is not written yet.
    partial: Vec<u8>,
    /// True if the current line exceeds the limit; its rest is skipped.
    overlong: bool,
}

/// Result of reading from one file.
enum ReadStep {
    Line(Option<String>),
    End,
}

impl LogFileChain {
    pub(super) fn open(directory: &Path) -> Result<Self, TelemetryError> {
        let mut files = LogFileChain { directory: directory.to_owned(), unread: VecDeque::new() };
        files.open_newer_files()?;
        Ok(files)
    }

    /// Returns the next whole line; `Some(None)` for one that is not text or too long, `None` at the end.
    pub(super) fn next_line(&mut self) -> Result<Option<Option<String>>, TelemetryError> {
        loop {
            if let Some(source) = self.unread.front_mut()
                && let ReadStep::Line(line) = source.read_line()?
            {
                return Ok(Some(line));
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }

    /// Moves on from the end of the first file to a newer one. Returns false if there is none.
    fn advance(&mut self) -> Result<bool, TelemetryError> {
        if self.unread.len() < 2 {
            self.open_newer_files()?;
        }
        if self.unread.len() < 2 {
            return Ok(false);
        }
        // A newer file exists, so this one gets no more lines; but it may have got some since the last read.
        if let Some(source) = self.unread.front_mut()
            && source.has_more()?
        {
            return Ok(true);
        }
        self.unread.pop_front();
        Ok(true)
    }

    /// Opens the files newer than the one being read, from the newest back. A file that is renamed meanwhile
    /// is then found twice rather than missed.
    fn open_newer_files(&mut self) -> Result<(), TelemetryError> {
        let reading = self.unread.front().map(|source| source.identity);
        let known: Vec<_> = self.unread.iter().map(|source| source.identity).collect();
        let mut found: Vec<LogFileSource> = Vec::new();
        for newer in 0.. {
            let path = log_path(&self.directory, newer);
            match LogFileSource::open(&path) {
                Ok(source) if Some(source.identity) == reading => break,
                Ok(source) => {
                    if found.iter().all(|other| other.identity != source.identity) {
                        found.push(source);
                    }
                }
                // During a rotation the newest name does not exist for a moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound && newer == 0 => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(cause) => return Err(TelemetryError::LogRead { path, cause }),
            }
        }
        self.unread.extend(found.into_iter().rev().filter(|source| !known.contains(&source.identity)));
        Ok(())
    }
}

impl LogFileSource {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let identity = (found.dev(), found.ino());
        let reader = BufReader::with_capacity(64 * 1024, file);
        Ok(LogFileSource { path: path.to_owned(), reader, identity, partial: Vec::new(), overlong: false })
    }

    fn read_line(&mut self) -> Result<ReadStep, TelemetryError> {
        let failed = |path: &Path, cause| TelemetryError::LogRead { path: path.to_owned(), cause };
        loop {
            let space = (LINE_LIMIT + 1).saturating_sub(self.partial.len());
            let read = (&mut self.reader)
                .take(space as u64)
                .read_until(b'\n', &mut self.partial)
                .map_err(|cause| failed(&self.path, cause))?;
            if read == 0 {
                return Ok(ReadStep::End);
            }
            let ended = self.partial.last() == Some(&b'\n');
            if ended || self.partial.len() > LINE_LIMIT {
                let mut line = std::mem::take(&mut self.partial);
                let passed_over = std::mem::replace(&mut self.overlong, !ended);
                if ended && !passed_over {
                    line.pop();
                    return Ok(ReadStep::Line(String::from_utf8(line).ok()));
                }
                if ended {
                    return Ok(ReadStep::Line(None));
                }
            }
        }
    }

    fn has_more(&mut self) -> Result<bool, TelemetryError> {
        let has_more = self.reader.fill_buf().map(|bytes| !bytes.is_empty());
        has_more.map_err(|cause| TelemetryError::LogRead { path: self.path.clone(), cause })
    }
}
