//! Runs other programs: prints the command before it starts, and again with an error, so that it can be
//! repeated by hand.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Time for a written line to come through the pipe.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(250);

/// Formats the command as one would type it, with the variables that were set for it.
pub(crate) fn shown(command: &Command) -> String {
    let mut parts = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            parts.push(format!("{}={}", name.to_string_lossy(), quoted(value)));
        }
    }
    let program = std::path::Path::new(command.get_program());
    // Rustup passes the full path of its cargo, but one types the name.
    let is_cargo = program.file_stem() == Some(OsStr::new("cargo"));
    parts.push(if is_cargo { "cargo".to_owned() } else { quoted(program.as_os_str()) });
    parts.extend(command.get_args().map(quoted));
    parts.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Prints the command and runs it with the input and output of this process.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs the command silently and returns its standard output.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", shown(command), output.status, text.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` wrote bytes that are not UTF-8", shown(command)))
}

/// Returns true if the program starts and exits with success. Its output is discarded.
pub(crate) fn works(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Exit result of a watched command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Badly,
}

impl Ended {
    /// Combines the results of two commands: `Well` if both are.
    pub(crate) fn and(self, other: Ended) -> Ended {
        if self == Ended::Well { other } else { self }
    }
}

/// Prints the command, runs it, shows its output, and also passes each line without colours to `see`.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<Ended> {
    println!("$ {}", shown(command));
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer).stdin(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", shown(command)))?;
    // The command holds write ends of the pipe open, and the reader would wait until they are closed.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let lines = pass_on(reader);
    loop {
        match lines.recv_timeout(OUTPUT_TIMEOUT) {
            Ok(line) => see(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            // A stray grandchild may keep the pipe open forever; the task must not wait for it.
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    while let Ok(line) = lines.recv_timeout(OUTPUT_TIMEOUT) {
        see(&line);
    }
    Ok(if child.wait()?.success() { Ended::Well } else { Ended::Badly })
}

fn pass_on(reader: std::io::PipeReader) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let mut out = std::io::stdout().lock();
            // Lines are still counted if the terminal is closed.
            let _ = out.write_all(&line).and_then(|()| out.flush());
            if sender.send(without_colours(&String::from_utf8_lossy(&line))).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// Removes the `ESC [ … letter` sequences from a line.
pub(crate) fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, escape)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = escape.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        let mut after = rest.chars();
        after.next();
        rest = after.as_str();
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["doc", "a b", "it's"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), r"RUSTDOCFLAGS='-D warnings' cargo doc 'a b' 'it'\''s'");
    }

    #[test]
    fn colours_are_removed() {
        let coloured = "\u{1b}[32;1m     Summary\u{1b}[0m [ 0.1s] \u{1b}[1m3\u{1b}[0m tests run";
        assert_eq!(without_colours(coloured), "     Summary [ 0.1s] 3 tests run");
    }

    #[test]
    fn a_watched_command_shows_both_streams_and_its_end() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let ended = watch(&mut command, |line| seen.push(line.trim().to_owned())).unwrap();
        assert_eq!((ended, seen), (Ended::Badly, vec!["one".to_owned(), "two".to_owned()]));
    }

    #[test]
    fn a_grandchild_with_the_pipe_does_not_block_the_task() {
        let started = std::time::Instant::now();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 6 & echo done"]);
        assert_eq!(watch(&mut command, |_| {}).unwrap(), Ended::Well);
        assert!(started.elapsed() < Duration::from_secs(5), "waited for the grandchild");
    }

    #[test]
    fn the_error_names_the_failed_command() {
        let failed = run(Command::new("sh").args(["-c", "exit 4"])).unwrap_err().to_string();
        assert_eq!(failed, "`sh -c 'exit 4'` ended with exit status: 4");
        let silent =
            capture(Command::new("sh").args(["-c", "echo why >&2; exit 1"])).unwrap_err().to_string();
        assert!(silent.ends_with("exit status: 1: why"), "{silent}");
    }
}
