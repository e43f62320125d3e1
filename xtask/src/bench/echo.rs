//! Program at the other end of a socket pair: it only answers each line, which is the lower bound of a round
//! trip, or it makes the system calls of a read first.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::conversation::Conversation;

/// Task name that starts this program as the other end.
pub(crate) const WORD: &str = "answer-lines";

/// Behaviour of this program as the other end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OtherEnd {
    /// Size of an answer in bytes.
    reply: usize,
    /// File to read as a governed read would before each answer, and folder for the records.
    reads: Option<(PathBuf, PathBuf)>,
}

impl OtherEnd {
    /// Answers with `reply` bytes, and does nothing else.
    pub(crate) fn echo(reply: usize) -> Self {
        OtherEnd { reply, reads: None }
    }

    /// Like `echo`, after the system calls of a governed read of `file`.
    #[cfg(target_os = "linux")]
    pub(crate) fn reading(reply: usize, file: PathBuf, folder: PathBuf) -> Self {
        OtherEnd { reply, reads: Some((file, folder)) }
    }

    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let number = |reply: &String| reply.parse().map_err(|_| format!("`{reply}` is no number of bytes"));
        match words {
            [reply] => Ok(OtherEnd::echo(number(reply)?)),
            [reply, file, folder] => {
                Ok(OtherEnd { reply: number(reply)?, reads: Some((file.into(), folder.into())) })
            }
            _ => Err(format!("`{WORD}` takes a number of bytes, and a file and a folder where it reads")),
        }
    }

    /// Starts this program again as the other end.
    pub(crate) fn start(&self) -> Result<Conversation> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORD).arg(self.reply.to_string());
        command.args(self.reads.iter().flat_map(|(file, folder)| [file, folder]));
        Conversation::on_pair(&mut command)
    }

    /// Runs as the other end: answers each line until the input ends.
    pub(crate) fn answer(&self) -> Result<()> {
        match &self.reads {
            None => fill(std::io::stdin().lock(), std::io::stdout().lock(), self.reply),
            #[cfg(target_os = "linux")]
            Some((file, folder)) => super::kernel::answer(self.reply, file, folder),
            #[cfg(not(target_os = "linux"))]
            Some(_) => anyhow::bail!("the calls of a read are known of Linux only"),
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
