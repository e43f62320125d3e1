//! Standard error as a place for lines.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::human::{self, Colour};
use super::record::Record;
use super::writer::LineSink;

/// The standard error of this process, for a person.
pub(crate) struct Stderr(pub(crate) Colour);

impl Stderr {
    /// It, unless all that is written there is thrown away: then nothing need be spelt out for it.
    pub(crate) fn if_kept(colour: Colour) -> Option<Self> {
        let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
        let facts = stderr.and_then(|stderr| stderr.metadata()).ok().zip(fs::metadata("/dev/null").ok());
        let is_lost =
            facts.is_some_and(|(ours, null)| ours.file_type().is_char_device() && ours.rdev() == null.rdev());
        (!is_lost).then_some(Stderr(colour))
    }
}

impl LineSink for Stderr {
    fn line(&self, record: &Record) -> Vec<u8> {
        human::line(&record.as_map(), self.0).into_bytes()
    }

    fn most_at_once(&self) -> usize {
        16 * 1024
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        io::stderr().write_all(lines)
    }

    fn loss_notice(&self, lost: u64) -> Vec<u8> {
        format!("{lost} log lines were lost: nothing read them in time\n").into_bytes()
    }
}
