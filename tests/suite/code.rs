//! Tools that run a project's own programs, on real repositories and real projects.

pub(crate) mod git;
mod hostile_git;
mod linter;
mod runner;
mod toolchains;
pub(crate) mod venv;
