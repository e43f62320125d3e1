//! Optimisation profile for `cargo xtask dist --profile-guided`: builds an instrumented program, runs the training
//! workload with it, and merges what it recorded. The profile is a build product and is never committed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench;
use crate::dist;
use crate::process;
use crate::project;
use crate::tree::Root;

const FOLDER: &str = "target/profile";

/// Records a profile for this system and returns the compiler flags that use it.
pub(crate) fn record(root: &Root, target: &str) -> Result<Vec<String>> {
    let merger = merger(root, target)?;
    let folder = root.path().join(FOLDER);
    let raw = folder.join("raw");
    let program = build_instrumented(root, target, &folder, &raw)?;
    // Build scripts are instrumented as well and have recorded data of their own.
    let _ = std::fs::remove_dir_all(&raw);
    println!("… running the training workload");
    bench::train(&program, &folder.join("home"))?;
    let profile = merge(&merger, &raw, &folder)?;
    Ok(vec![format!("-Cprofile-use={}", profile.display()), "-Cllvm-args=-no-pgo-warn-mismatch".to_owned()])
}

/// Builds the program with instrumentation. Without link-time optimisation, which takes long and does not change
/// the profile.
fn build_instrumented(root: &Root, target: &str, folder: &Path, raw: &Path) -> Result<PathBuf> {
    let mut cargo = project::shipped_build(root, target);
    cargo.env("CARGO_TARGET_DIR", folder.join("build")).env("CARGO_PROFILE_SHIPPED_LTO", "off");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", format!("-Cprofile-generate={}", raw.display()));
    process::run(&mut cargo)?;
    Ok(folder.join("build").join(target).join("shipped/sinew"))
}

/// Returns the path of `llvm-profdata` of the compiler in use: another version may not read its format.
fn merger(root: &Root, target: &str) -> Result<PathBuf> {
    let sysroot = process::capture(&mut root.command("rustc", &["--print", "sysroot"]))?;
    let merger = Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("bin/llvm-profdata");
    ensure!(
        merger.is_file(),
        "`{}` does not exist: install it with `rustup component add llvm-tools`",
        merger.display()
    );
    Ok(merger)
}

/// Merges the raw profiles into one file. It is named by its digest, because cargo compares only the flags of most
/// crates and would reuse objects that were compiled with another profile of the same name.
fn merge(merger: &Path, raw: &Path, folder: &Path) -> Result<PathBuf> {
    let merged = folder.join("merged.profdata");
    process::run(Command::new(merger).args(["merge", "--output"]).arg(&merged).arg(raw))?;
    let bytes = std::fs::read(&merged).with_context(|| format!("cannot read `{}`", merged.display()))?;
    let profile = folder.join(format!("{}.profdata", dist::sha256(&bytes)));
    std::fs::rename(&merged, &profile).with_context(|| format!("cannot write `{}`", profile.display()))?;
    Ok(profile)
}
