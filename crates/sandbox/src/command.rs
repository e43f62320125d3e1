//! What is to be run: a program and its words, where, and for how long. No shell anywhere.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

/// What a program may do in the folders its permit grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// What the permit says.
    AsPermitted,
    /// Only look, whatever the permit says: a program that has nothing to change there need not be able to.
    ReadOnly,
}

/// One program with its arguments.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program, by its name on the fixed search path or by its whole path.
    pub program: OsString,
    /// Its arguments, handed on as they are.
    pub arguments: Vec<OsString>,
    /// What it reads on its standard input; absent means `/dev/null`.
    pub input: Option<Vec<u8>>,
    /// Where it runs; absent means the first folder it was granted.
    pub folder: Option<PathBuf>,
    /// When it is ended.
    pub deadline: Instant,
    /// How much of each of its two outputs is kept.
    pub output_bytes: usize,
    /// What it may do in the folders it was granted.
    pub grant: Grant,
    /// Variables that are added to the few each program has, or replace one of them: of the tool, never of its caller.
    pub variables: Vec<(String, OsString)>,
}
