//! `cargo xtask dist`: packs the program for installation into one archive with a checksum. Equal input gives
//! equal bytes: entries are sorted and have no times and owners, and the compiler keeps local paths out of
//! the program. A profile-guided build is the exception, because two recordings differ.
//!
//! On other systems than a Mac, zig links the program for macOS. Zig has no Apple frameworks, so without an
//! SDK (`SDKROOT`) the build fails with the symbols that the linker misses.

mod archive;
mod contents;

pub(crate) use archive::sha256;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::macos;
use crate::process;
use crate::profile;
use crate::project;
use crate::tree::Root;

const FOLDER: &str = "target/dist";

/// Options of the release archive.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct DistOptions {
    /// Build for this system instead of the host, through zig
    #[arg(long, value_name = "TARGET", value_parser = [macos::TARGET])]
    target: Option<String>,
    /// Record an optimisation profile first and compile with it
    #[arg(long, conflicts_with = "target")]
    profile_guided: bool,
}

pub(crate) fn command(root: &Root, options: &DistOptions) -> Result<()> {
    let host = project::host_target(root)?;
    let profile = if options.profile_guided { profile::record(root, &host)? } else { Vec::new() };
    let program = build(root, &host, profile)?;
    let (target, shipped) = match &options.target {
        Some(target) => (target.clone(), build_for_apple_silicon(root)?),
        None => (host, program.clone()),
    };
    // A build that runs here generates the documents, because the shipped one may be for another system. Both
    // have the same source.
    let entries = contents::gather(root.path(), &program, &shipped)?;
    let folder = root.path().join(FOLDER);
    let name = format!("sinew-{}-{target}", contents::version(&program)?);
    write(&folder, &name, &entries)
}

/// Writes the archive and its checksum, and prints the path.
fn write(folder: &Path, name: &str, entries: &[archive::Entry]) -> Result<()> {
    let bytes = archive::pack(name, entries)?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let file = format!("{name}.tar.gz");
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
    };
    put(&file, &bytes)?;
    put(&format!("{name}.sha256"), format!("{}  {file}\n", archive::sha256(&bytes)).as_bytes())?;
    println!("{}: {} files, {} KiB", folder.join(&file).display(), entries.len(), bytes.len() / 1024);
    Ok(())
}

/// Builds the program for installation on this system.
pub(crate) fn program(root: &Root) -> Result<PathBuf> {
    build(root, &project::host_target(root)?, Vec::new())
}

/// Makes a stripped build in a target directory of its own, because its flags differ from those of everyday
/// builds.
fn build(root: &Root, target: &str, flags: Vec<String>) -> Result<PathBuf> {
    run_build(root, &mut project::shipped_build(root, target), target, flags)
}

fn build_for_apple_silicon(root: &Root) -> Result<PathBuf> {
    let mut cargo = project::shipped_build(root, macos::TARGET);
    macos::prepare_link(root, &mut cargo)?;
    run_build(root, &mut cargo, macos::TARGET, frameworks()).context(
        "linking for a Mac elsewhere needs Apple's frameworks: set SDKROOT to an SDK, or run this on a Mac",
    )
}

/// Linker flags for Apple's frameworks, if `SDKROOT` names an SDK.
fn frameworks() -> Vec<String> {
    let Ok(sdk) = std::env::var("SDKROOT") else { return Vec::new() };
    vec![format!("-Clink-arg=-F{sdk}/System/Library/Frameworks"), format!("-Clink-arg=-L{sdk}/usr/lib")]
}

fn run_build(root: &Root, cargo: &mut Command, target: &str, more: Vec<String>) -> Result<PathBuf> {
    let folder = root.path().join(FOLDER).join("build");
    cargo.env("CARGO_TARGET_DIR", &folder).env("CARGO_PROFILE_SHIPPED_STRIP", "symbols");
    let flags = [forgetful(root), more];
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.concat().join("\u{1f}"));
    process::run(cargo)?;
    let program = folder.join(target).join("shipped/sinew");
    if !program.is_file() {
        bail!("cargo did not make `{}`", program.display());
    }
    Ok(program)
}

/// Compiler flags that keep paths of this machine out of the program.
fn forgetful(root: &Root) -> Vec<String> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home =
        cargo_home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let prefixes = [(Some(root.path().to_owned()), "/sinew"), (cargo_home, "/cargo")];
    let known = prefixes.into_iter().filter_map(|(prefix, name)| Some((prefix?, name)));
    known.map(|(prefix, name)| format!("--remap-path-prefix={}={name}", prefix.display())).collect()
}

#[cfg(test)]
mod tests;
