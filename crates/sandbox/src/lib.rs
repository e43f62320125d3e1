//! Runs a program so that it reaches only what its permit grants.
//!
//! `ConfinedCommand::prepare` turns a permit and a command into everything a launcher needs; `Sandbox::run`
//! sends it to a launcher and returns a `RunReport`. The launcher is this program itself, started again under
//! another name and recognised by [`enter`] before anything else happens. It builds the sandbox around
//! itself, starts the program inside it, and outlives it to report how it ended. The daemon itself never
//! forks.
//!
//! A layer that cannot be built is an error: no program runs with fewer layers than its policy requires.

mod check;
mod cleanup;
mod error;
mod executor;
#[cfg(any(test, fuzzing))]
mod fuzz_launcher;
mod launch;
mod layers;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(target_os = "macos", test))]
mod macos;
mod output;
mod prepare;
mod report;
mod sandbox;
mod scan;

// The backend of this platform runs a launcher and builds the sandbox with the means of its operating system.
#[cfg(target_os = "linux")]
use linux as backend;
#[cfg(target_os = "macos")]
use macos as backend;

pub use check::SandboxFinding;
pub use cleanup::quarantine::Quarantined;
pub use error::SandboxError;
pub use executor::prepare;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use fuzz_launcher::fuzz_launcher_messages;
pub use launch::interactive::{InteractiveProgram, StdioPipes};
pub use launch::launcher::{ProcessRole, enter};
pub use launch::pool::own_program;
pub use launch::worker::{SandboxWorker, WorkerTask};
pub use output::capture::Captured;
pub use output::{OutputChunk, OutputListener, OutputStream};
pub use prepare::ConfinedCommand;
pub use prepare::command::{FolderAccess, SandboxCommand, WorkingDirectory};
pub use prepare::fingerprint::SandboxFingerprint;
pub use prepare::preview::CommandPreview;
pub use prepare::program::{Executable, find_program};
pub use report::{ResourceUsage, RunEnd, RunReport};
pub use sandbox::Sandbox;
