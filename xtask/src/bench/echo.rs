//! Program at the other end of a socket pair: it only answers each line, which is the lower bound of a round
//! trip, or it makes the system calls of a read first.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use super::conversation::Conversation;

/// Task name that starts this program as the other end.
pub(crate) const WORD: &str = "answer-lines";

/// Behaviour of this program as the other end.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct OtherEnd {
    /// Size of an answer in bytes
    reply: usize,
    /// File to read as a governed read would before each answer, and folder for the records
    #[arg(num_args = 2, value_names = ["FILE", "FOLDER"])]
    reads: Vec<PathBuf>,
}

impl OtherEnd {
    /// Answers with `reply` bytes, and does nothing else.
    pub(crate) fn echo(reply: usize) -> Self {
        OtherEnd { reply, reads: Vec::new() }
    }

    /// Like `echo`, after the system calls of a governed read of `file`.
    #[cfg(target_os = "linux")]
    pub(crate) fn reading(reply: usize, file: PathBuf, folder: PathBuf) -> Self {
        OtherEnd { reply, reads: vec![file, folder] }
    }

    /// Starts this program again as the other end.
    pub(crate) fn start(&self) -> Result<Conversation> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORD).arg(self.reply.to_string()).args(&self.reads);
        Conversation::on_pair(&mut command)
    }

    /// Runs as the other end: answers each line until the input ends.
    pub(crate) fn serve_replies(&self) -> Result<()> {
        match self.reads.as_slice() {
            #[cfg(target_os = "linux")]
            [file, folder] => super::kernel::serve_replies(self.reply, file, folder),
            _ => fill(std::io::stdin().lock(), std::io::stdout().lock(), self.reply),
        }
    }
}

/// Sends each line back, padded with `x` to `reply` bytes.
fn fill(mut from: impl BufRead, mut to: impl Write, reply: usize) -> Result<()> {
    let mut line = Vec::with_capacity(reply + 1);
    while from.read_until(b'\n', &mut line)? > 0 {
        line.pop();
        line.resize(reply.max(line.len()), b'x');
        line.push(b'\n');
        to.write_all(&line)?;
        to.flush()?;
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_comes_back_padded_to_the_reply_length() {
        let mut written = Vec::new();
        fill("one\nfour\ntoo long\n".as_bytes(), &mut written, 6).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "onexxx\nfourxx\ntoo long\n");
    }
}
