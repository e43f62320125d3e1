//! Type-checks and lints the whole workspace for Apple silicon, from any machine. Nothing is linked, so no
//! Apple SDK is needed; the C code of dependencies (SQLite, ring) is compiled by zig, because the host
//! compiler cannot.

mod zig;

use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::tree::Root;

pub(crate) const TARGET: &str = "aarch64-apple-darwin";

/// Runs `cargo check` and `cargo clippy` for macOS.
pub(crate) fn check(root: &Root) -> Result<()> {
    add_target(root)?;
    let compiler =
        if cfg!(target_os = "macos") { Compiler::System } else { Compiler::Zig(zig::Wrappers::make(root)?) };
    for arguments in [
        &["check", "--workspace", "--target", TARGET][..],
        &["clippy", "--workspace", "--all-targets", "--target", TARGET, "--", "-D", "warnings"][..],
    ] {
        let mut cargo = root.cargo(arguments);
        compiler.set(&mut cargo);
        process::run(&mut cargo)?;
    }
    Ok(())
}

/// Prepares a build for Apple silicon to be linked, which zig does on other systems than a Mac.
pub(crate) fn prepare_link(root: &Root, cargo: &mut Command) -> Result<()> {
    add_target(root)?;
    if cfg!(target_os = "macos") {
        return Ok(());
    }
    let wrappers = zig::Wrappers::make(root)?;
    cargo.env("CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER", &wrappers.cc);
    Compiler::Zig(wrappers).set(cargo);
    Ok(())
}

/// Compiler of the C code of dependencies.
enum Compiler {
    /// The compiler of the system, on a Mac.
    System,
    Zig(zig::Wrappers),
}

impl Compiler {
    fn set(&self, cargo: &mut Command) {
        match self {
            Compiler::System => {}
            Compiler::Zig(wrappers) => {
                cargo
                    .env("CC_aarch64_apple_darwin", &wrappers.cc)
                    .env("AR_aarch64_apple_darwin", &wrappers.ar);
            }
        }
    }
}

fn add_target(root: &Root) -> Result<()> {
    let list = &mut root.command("rustup", &["target", "list", "--installed"]);
    let installed = process::capture(list).context("the macOS check needs rustup to have that target")?;
    if installed.lines().any(|line| line.trim() == TARGET) {
        return Ok(());
    }
    process::run(&mut root.command("rustup", &["target", "add", TARGET]))
}
