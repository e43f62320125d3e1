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

/// Where a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workplace {
    /// In this folder, which it was granted.
    In(PathBuf),
    /// In the first folder it was granted; in `/` if it was granted none.
    FirstGranted,
    /// In `/`. Interpreters look for code where they run, and there nobody who calls a tool can put any.
    Apart,
}

impl Workplace {
    /// Where its caller says, who may say nothing.
    pub fn asked_for(folder: Option<PathBuf>) -> Self {
        folder.map_or(Workplace::FirstGranted, Workplace::In)
    }
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
    /// Where it runs.
    pub workplace: Workplace,
    /// When it is ended.
    pub deadline: Instant,
    /// How much of each of its two outputs is kept.
    pub output_bytes: usize,
    /// What it may do in the folders it was granted.
    pub grant: Grant,
    /// Variables that are added to the few each program has, or replace one of them: of the tool, never of its caller.
    pub variables: Vec<(String, OsString)>,
}
