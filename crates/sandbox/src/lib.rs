//! Runs a program so that it reaches only what its permit grants.
//!
//! `ConfinedCommand::prepare` turns a permit and a command into everything a launcher needs; `Sandbox::run`
//! sends it to a launcher and returns a `RunReport`. The launcher is this program itself, started again under
//! another name and recognised by [`enter`] before anything else happens. It builds the sandbox around
//! itself, starts the program inside it, and outlives it to report how it ended. The daemon itself never
//! forks.
//!
//! A layer that cannot be built is an error: no program runs with fewer layers than its policy requires.

mod aftermath;
mod awaited;
mod backend;
mod bounds;
mod capture;
mod check;
mod command;
mod confined;
mod enclosure;
mod environment;
mod error;
mod executor;
mod folder;
mod foresight;
mod grants;
mod guard;
mod identity;
mod inventory;
mod launcher;
mod left;
mod line;
mod linked;
mod look;
mod loosened;
mod outlets;
mod places;
mod pool;
mod probe;
mod program;
mod quarantine;
mod report;
mod run;
mod runs;
mod sandbox;
mod served;
mod shelves;
mod spec;
mod spill;
mod status;
mod turns;
mod view;
mod way;
mod worker;
#[cfg(test)]
mod world;

pub use awaited::{Awaited, while_awaited};
pub use capture::Captured;
pub use check::Finding;
pub use command::{Command, Grant, Workplace};
pub use confined::Confined;
pub use enclosure::Enclosure;
pub use error::SandboxError;
pub use executor::prepare;
pub use foresight::Foresight;
pub use launcher::{Entered, enter};
pub use outlets::{Hear, Piece, Source};
pub use program::{Executable, find_program};
pub use quarantine::Quarantined;
pub use report::{End, Report, Spent};
pub use sandbox::{Availability, Sandbox};
pub use served::{Pipes, Served};
pub use spill::{Page, Spilled, Spills};
pub use worker::{Task, Worker};
