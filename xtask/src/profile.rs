//! `cargo xtask profile`: records an optimisation profile while the product runs typical work. The shipped binary is
//! compiled with it.
//!
//! The profile is in the repository, so that the same source gives the same binary. Functions that changed since are
//! compiled without it, so an old profile does no harm.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench;
use crate::dist;
use crate::process;
use crate::project;
use crate::tree::Root;

/// Folder of the profiles, one per target: the names of functions differ between targets.
const FOLDER: &str = "xtask/profile";
/// Working folder of the recording.
const WORKSHOP: &str = "target/profile";

/// Returns the compiler flags that use the profile of a target, if there is one.
///
/// The copy is named by its digest: cargo compares only the flags of most crates, and would keep objects that were compiled
/// with another profile.
pub(crate) fn flags(root: &Root, target: &str) -> Result<Vec<String>> {
    let Some(copy) = named_by_content(&file(root, target), &root.path().join(WORKSHOP))? else {
        println!("there is no profile for {target}: it is compiled without");
        return Ok(Vec::new());
    };
    // A function that changed since is worth no word: there will always be some.
    Ok(vec![format!("-Cprofile-use={}", copy.display()), "-Cllvm-args=-no-pgo-warn-mismatch".to_owned()])
}

/// The copy of a profile that is used, if there is a profile.
fn named_by_content(profile: &Path, workshop: &Path) -> Result<Option<PathBuf>> {
    let Ok(bytes) = std::fs::read(profile) else { return Ok(None) };
    let copy = workshop.join(format!("{}.profdata", dist::sha256(&bytes)));
    // Not written again where it is: a new time of the file would have all of it compiled anew.
    if !copy.is_file() {
        std::fs::create_dir_all(workshop)?;
        std::fs::write(&copy, bytes).with_context(|| format!("cannot write `{}`", copy.display()))?;
    }
    Ok(Some(copy))
}

pub(crate) fn command(root: &Root) -> Result<()> {
    let target = project::host_target(root)?;
    let merger = merger(root, &target)?;
    let workshop = root.path().join(WORKSHOP);
    let (notes, home) = (workshop.join("notes"), workshop.join("home"));
    let program = build(root, &target, &workshop, &notes)?;
    // Whatever ran while it was built has left notes too.
    let _ = std::fs::remove_dir_all(&notes);
    println!("… it does what people do with it");
    bench::train(&program, &home)?;
    merge(root, &merger, &notes, &file(root, &target))
}

fn file(root: &Root, target: &str) -> PathBuf {
    root.path().join(FOLDER).join(format!("{target}.profdata"))
}

/// Builds the product so that it notes what it runs through. Not as one whole: that takes long, and the notes are the same.
fn build(root: &Root, target: &str, workshop: &Path, notes: &Path) -> Result<PathBuf> {
    let mut cargo = project::shipped_build(root, target);
    cargo.env("CARGO_TARGET_DIR", workshop.join("build")).env("CARGO_PROFILE_SHIPPED_LTO", "off");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", format!("-Cprofile-generate={}", notes.display()));
    process::run(&mut cargo)?;
    Ok(workshop.join("build").join(target).join("shipped/sinew"))
}

/// The program that puts notes together, of the very compiler that reads them.
fn merger(root: &Root, target: &str) -> Result<PathBuf> {
    let sysroot = process::capture(&mut root.command("rustc", &["--print", "sysroot"]))?;
    let merger = Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("bin/llvm-profdata");
    ensure!(
        merger.is_file(),
        "`{}` is not there: `rustup component add llvm-tools` brings it",
        merger.display()
    );
    Ok(merger)
}

fn merge(root: &Root, merger: &Path, notes: &Path, file: &Path) -> Result<()> {
    std::fs::create_dir_all(root.path().join(FOLDER))?;
    let mut command = Command::new(merger);
    // Functions that never ran are left out. The compiler then knows nothing of them, where it could know that they are rare; but
    // the file is a tenth as large.
    command.args(["merge", "--sparse", "--output"]).arg(file).arg(notes);
    process::run(&mut command)?;
    let bytes = std::fs::metadata(file).with_context(|| format!("no `{}`", file.display()))?.len();
    println!("{}: {} KiB", file.display(), bytes / 1024);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_used_under_another_name_when_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let (profile, workshop) = (folder.path().join("a.profdata"), folder.path().join("workshop"));
        let used = || named_by_content(&profile, &workshop).unwrap();
        assert_eq!(used(), None, "a system without one is compiled without");
        std::fs::write(&profile, "one").unwrap();
        let one = used().unwrap();
        let made = std::fs::metadata(&one).unwrap().modified().unwrap();
        assert_eq!((used().unwrap(), std::fs::read(&one).unwrap()), (one.clone(), b"one".to_vec()));
        assert_eq!(std::fs::metadata(&one).unwrap().modified().unwrap(), made, "it is left alone");
        std::fs::write(&profile, "two").unwrap();
        assert_ne!(used().unwrap(), one);
    }
}
