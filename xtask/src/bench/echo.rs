//! The floor: a program that does nothing but answer each line, at the other end of a pair of sockets.

use std::io::{BufRead, Write};
use std::process::Command;

use anyhow::Result;

use super::conversation::Conversation;

/// What this program is called with to be the other end.
pub(crate) const WORD: &str = "answer-lines";

/// Starts this program again, to answer lines with as many bytes as a call would be answered with.
pub(crate) fn start(reply: usize) -> Result<Conversation> {
    let mut command = Command::new(std::env::current_exe()?);
    Conversation::on_pair(command.arg(WORD).arg(reply.to_string()))
}

/// The other end: each line comes back, filled up with `x`, until nobody asks any more.
pub(crate) fn answer(reply: usize) -> Result<()> {
    fill(std::io::stdin().lock(), std::io::stdout().lock(), reply)
}

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
    fn each_line_comes_back_as_long_as_it_was_told() {
        let mut written = Vec::new();
        fill("one\nfour\ntoo long\n".as_bytes(), &mut written, 6).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "onexxx\nfourxx\ntoo long\n");
    }
}
