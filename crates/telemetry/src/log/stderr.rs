//! Standard error as a place for lines.

use std::io::{self, Write};

use super::human::{self, Colour};
use super::record::Record;
use super::writer::LineSink;

/// The standard error of this process, for a person.
pub(crate) struct Stderr(pub(crate) Colour);

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
