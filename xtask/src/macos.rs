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
    let compiler = if cfg!(target_os = "macos") {
        Compiler::System
    } else {
        Compiler::Zig(zig::Wrappers::make(root, TARGET)?)
    };
    for arguments in [
        &["check", "--workspace", "--target", TARGET][..],
        &["clippy", "--workspace", "--all-targets", "--target", TARGET, "--", "-D", "warnings"][..],
    ] {
        let mut cargo = root.cargo(arguments);
        compiler.set(&mut cargo, TARGET);
        process::run(&mut cargo)?;
    }
    Ok(())
}

/// Prepares a build for Apple silicon to be linked, which zig does on other systems than a Mac.
pub(crate) fn prepare_link(root: &Root, cargo: &mut Command, target: &str) -> Result<()> {
    if cfg!(target_os = "macos") {
        return Ok(());
    }
    let wrappers = zig::Wrappers::make(root, target)?;
    let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    cargo.env(linker, &wrappers.cc);
    Compiler::Zig(wrappers).set(cargo, target);
    Ok(())
}

/// Command that builds the product for a Linux target with a version of glibc, such as
/// `aarch64-unknown-linux-gnu.2.31`.
pub(crate) fn zigbuild(root: &Root, target: &str) -> Result<Command> {
    let programs = zig::install_zigbuild(root)?;
    let mut cargo = Command::new(programs.join("cargo-zigbuild"));
    cargo.args(["zigbuild", "--profile", "shipped", "--locked", "-p", "sinew", "--target", target]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path)))?;
    cargo.current_dir(root.path()).env("PATH", path);
    Ok(cargo)
}

/// Compiler of the C code of dependencies.
enum Compiler {
    /// The compiler of the system, on a Mac.
    System,
    Zig(zig::Wrappers),
}

impl Compiler {
    fn set(&self, cargo: &mut Command, target: &str) {
        match self {
            Compiler::System => {}
            Compiler::Zig(wrappers) => {
                let target = target.replace('-', "_");
                cargo.env(format!("CC_{target}"), &wrappers.cc).env(format!("AR_{target}"), &wrappers.ar);
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
