//! `cargo xtask dist`: builds the files of a release: an archive, a bill of materials and, for Linux, a Debian package
//! for each system, and the installer, formula, container recipe and checksums that name them. Equal input gives
//! equal bytes: entries are sorted and have no times and owners, and the compiler keeps local paths out of
//! the program. A profile-guided build is the exception, because two recordings differ.
//!
//! On other systems than a Mac, zig links the program for macOS. Zig has no Apple frameworks, so that needs an SDK
//! (`SDKROOT`). A system that cannot be built for here is left out and reported.

mod archive;
mod contents;
mod debian;
mod package_test;
mod release;
mod sbom;
mod targets;

pub(crate) use archive::sha256;
pub(crate) use package_test::{PackageTestOptions, command as test_package};

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::macos;
use crate::process;
use crate::profile;
use crate::project;
use crate::tree::Root;
use release::{Release, ReleasedArchive};
use targets::Target;

const FOLDER: &str = "target/dist";
/// Maximum size of the program: what a person waits for at an installation, and a limit that growth has to argue with.
const MAX_PROGRAM_BYTES: u64 = 35_000_000;

/// Options of the release.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct DistOptions {
    /// Build for this system only; may be repeated. Default: every system that can be built for here
    #[arg(long, value_name = "TARGET", value_parser = targets::NAMES)]
    target: Vec<String>,
    /// Record an optimisation profile first and compile with it
    #[arg(long, conflicts_with = "target")]
    profile_guided: bool,
    /// Folder that the archives are published at: writes an installer that downloads them, and a Homebrew formula
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Use the archives of this release that other machines built, instead of building
    #[arg(long, requires = "base_url", conflicts_with_all = ["target", "profile_guided"])]
    assemble: bool,
}

/// Builds the archives and packages, and the files that name them.
pub(crate) fn command(root: &Root, options: &DistOptions) -> Result<()> {
    let folder = root.path().join(FOLDER);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let version = project::version(root)?;
    if !options.assemble {
        build_all(root, options, &folder, &version)?;
    }
    write_release_files(&folder, &version, options.base_url.as_deref())
}

fn build_all(root: &Root, options: &DistOptions, folder: &Path, version: &str) -> Result<()> {
    let host = project::host_target(root)?;
    let profile = if options.profile_guided { profile::record(root, &host)? } else { Vec::new() };
    // A build that runs here generates the documents, because a shipped one may be for another system. All have the
    // same source.
    let program = build(root, &host, profile)?;
    let chosen: Vec<Target> = match &options.target[..] {
        [] => targets::TARGETS.into(),
        names => names.iter().map(|name| Target::named(name)).collect::<Result<_>>()?,
    };
    for target in chosen {
        if let Some(obstacle) = target.obstacle(root)? {
            match options.target.is_empty() {
                true => println!("LEFT OUT: {}: {obstacle}", target.name),
                false => bail!("cannot build for {}: {obstacle}", target.name),
            }
            continue;
        }
        let shipped = match target.name == host {
            true => program.clone(),
            false if target.is_linux() => build_with_zig(root, target)?,
            false => build_for_macos(root, target)?,
        };
        check_size(target.name, &shipped)?;
        let name = format!("sinew-{version}-{}", target.name);
        let bill = sbom::generate(root, target.name, version)?;
        let entries = contents::gather(root.path(), &program, &shipped, &bill)?;
        write_archive(folder, &name, &entries)?;
        write(folder, &format!("{name}.cdx.json"), bill.as_bytes())?;
        if let Some(architecture) = debian::architecture(target.name) {
            let bytes = std::fs::read(&shipped).context("cannot read the program")?;
            let libc = debian::needed_libc(&bytes)?;
            println!("{}: {} KiB, needs glibc {libc}", target.name, bytes.len() / 1024);
            let package = debian::package(version, architecture, &libc, &entries)?;
            write(folder, &format!("sinew_{version}_{architecture}.deb"), &package)?;
        }
    }
    Ok(())
}

/// Fails if a program is larger than a release permits.
fn check_size(target: &str, program: &Path) -> Result<()> {
    let bytes = std::fs::metadata(program).context("cannot read the program")?.len();
    if bytes > MAX_PROGRAM_BYTES {
        bail!(
            "the program for {target} has {bytes} bytes, and at most {MAX_PROGRAM_BYTES} are permitted: find out what grew, \
             for example with cargo-bloat"
        );
    }
    Ok(())
}

/// Writes the files that name the archives of this version in the folder.
fn write_release_files(folder: &Path, version: &str, base_url: Option<&str>) -> Result<()> {
    let (mut archives, mut files) = (Vec::new(), Vec::new());
    let mut add = |name: String| -> Result<Option<String>> {
        let path = folder.join(&name);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let sha256 = sha256(&bytes);
        files.push((name, sha256.clone()));
        Ok(Some(sha256))
    };
    for target in targets::TARGETS {
        let name = format!("sinew-{version}-{}.tar.gz", target.name);
        match add(name.clone())? {
            Some(sha256) => archives.push(ReleasedArchive { target: target.name, name, sha256 }),
            None => println!("LEFT OUT of the release: {}: there is no {name}", target.name),
        }
        add(format!("sinew-{version}-{}.cdx.json", target.name))?;
        if let Some(architecture) = debian::architecture(target.name) {
            add(format!("sinew_{version}_{architecture}.deb"))?;
        }
    }
    if archives.is_empty() {
        bail!("`{}` has no archive of version {version}", folder.display());
    }
    let release = Release { version, base_url: base_url.unwrap_or_default(), archives: &archives };
    if let Some(recipe) = release::container(&release)? {
        write(folder, "Containerfile", recipe.as_bytes())?;
    }
    match base_url {
        Some(_) => {
            write(folder, "install.sh", release::installer(&release)?.as_bytes())?;
            write(folder, "sinew.rb", release::formula(&release)?.as_bytes())?;
        }
        None => println!("LEFT OUT: install.sh and sinew.rb, which need --base-url"),
    }
    write(folder, "SHA256SUMS", release::checksums(&files).as_bytes())
}

/// Writes an archive and its checksum.
fn write_archive(folder: &Path, name: &str, entries: &[archive::Entry]) -> Result<()> {
    let bytes = archive::pack(name, entries)?;
    let file = format!("{name}.tar.gz");
    write(folder, &file, &bytes)?;
    write(folder, &format!("{name}.sha256"), format!("{}  {file}\n", sha256(&bytes)).as_bytes())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).with_context(|| format!("cannot write `{}`", path.display()))?;
    println!("{}: {} KiB", path.display(), bytes.len().div_ceil(1024));
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

/// Builds for another processor or for an older glibc; zig compiles the C code of dependencies and links.
fn build_with_zig(root: &Root, target: Target) -> Result<PathBuf> {
    let mut cargo = macos::zigbuild(root, &format!("{}.{}", target.name, targets::OLDEST_LIBC))?;
    run_build(root, &mut cargo, target.name, Vec::new())
}

fn build_for_macos(root: &Root, target: Target) -> Result<PathBuf> {
    let mut cargo = project::shipped_build(root, target.name);
    macos::prepare_link(root, &mut cargo, target.name)?;
    run_build(root, &mut cargo, target.name, frameworks())
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
