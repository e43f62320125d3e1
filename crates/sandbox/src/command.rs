//! What is to be run: a program and its words, where, and for how long. No shell anywhere.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

/// One program with its arguments.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program, by its name on the fixed search path or by its whole path.
    pub program: OsString,
    /// Its arguments, handed on as they are.
    pub arguments: Vec<OsString>,
    /// Where it runs; absent means the first folder it was granted.
    pub folder: Option<PathBuf>,
    /// When it is ended.
    pub deadline: Instant,
    /// How much of each of its two outputs is kept.
    pub output_bytes: usize,
}
