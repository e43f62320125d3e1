//! Standard error as a place for lines.

use std::io::{self, Write};

use super::writer::LineSink;

/// The standard error of this process.
pub(crate) struct Stderr;

impl LineSink for Stderr {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        io::stderr().write_all(line)
    }

    fn loss_notice(&self, lost: u64) -> Vec<u8> {
        format!("{lost} log lines were lost: nothing read them in time\n").into_bytes()
    }
}
