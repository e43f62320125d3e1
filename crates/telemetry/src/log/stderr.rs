//! Line output to standard error.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::human::{self, ColourMode};
use super::record::LogEntry;
use super::writer::LineSink;

/// Standard error of this process, for a person.
pub(crate) struct StderrSink(pub(crate) ColourMode);

impl StderrSink {
    /// Returns standard error, unless it is `/dev/null`: then lines need not be formatted.
    pub(crate) fn unless_discarded(colour: ColourMode) -> Option<Self> {
        let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
        let is_lost = stderr.is_ok_and(|stderr| is_null_device(&stderr));
        (!is_lost).then_some(StderrSink(colour))
    }
}

/// Returns true if the file is the null device. If the system gives no metadata, output is assumed to be
/// read.
fn is_null_device(file: &File) -> bool {
    let facts = file.metadata().ok().zip(fs::metadata("/dev/null").ok());
    facts.is_some_and(|(file, null)| file.file_type().is_char_device() && file.rdev() == null.rdev())
}

impl LineSink for StderrSink {
    fn format_line(&self, record: &LogEntry) -> Vec<u8> {
        human::format_line(&record.to_map(), self.0).into_bytes()
    }

    fn max_write_bytes(&self) -> usize {
        16 * 1024
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        io::stderr().write_all(lines)
    }

    fn loss_notice(&self, lost: u64) -> Vec<u8> {
        format!("{lost} log lines were dropped: standard error did not accept them in time\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_null_device_discards_output() {
        let null = fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert!(is_null_device(&null));
        let (pipe, _other_end) = io::pipe().map(|(read, write)| (write, read)).unwrap();
        let kept = [
            File::open("/dev/zero").unwrap(),
            File::open("/").unwrap(),
            File::from(std::os::fd::OwnedFd::from(pipe)),
        ];
        for (n, place) in kept.iter().enumerate() {
            assert!(!is_null_device(place), "{n}");
        }
    }
}
