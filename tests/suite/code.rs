//! The tools that run a project's own programs, on real repositories and real projects.

mod git;
mod hostile_git;
mod linter;
mod runner;
mod toolchains;
mod venv;
