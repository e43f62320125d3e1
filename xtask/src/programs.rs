//! Programs that tests run in the sandbox as a user without programs of its own: cargo with rustc and clippy;
//! ruff, mypy, pytest and an MCP server. They may be installed for another user only, so they are linked,
//! copied or installed below `target/programs`. If that fails, this module prints it, and those tests are
//! left out.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::tree::Root;

/// Variable by which tests find the folder that contains `rust` and `python`.
pub(crate) const VARIABLE: &str = "SINEW_PROGRAMS";
const PACKAGES: [&str; 4] = ["ruff==0.17.4", "mypy==2.4.1", "pytest==9.2.0", "mcp-server-time==2026.10.19"];
/// Interpreter of the system, which every user can run. It may be missing.
const PYTHON: &str = "/usr/bin/python3";

/// Prepares the folder with the programs and returns its path. It lacks the programs that could not be
/// prepared.
pub(crate) fn prepare(root: &Root) -> String {
    let folder = root.path().join("target/programs");
    let (rust, python) = (folder.join("rust"), folder.join("python"));
    if let Err(error) = with_rust(&rust) {
        println!("no toolchain that every user can run: {error:#}");
    }
    if !["mypy", "mcp-server-time"].iter().all(|name| python.join("bin").join(name).exists())
        && let Err(error) = with_python(&python)
    {
        println!("{} are not available: {error:#}", PACKAGES.join(" and "));
    }
    folder.to_string_lossy().into_owned()
}

/// Links the part of this toolchain that builds for this machine.
fn with_rust(folder: &Path) -> Result<()> {
    let text = process::capture(Command::new("rustc").args(["--version", "--verbose"]))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("no host")?;
    let root = process::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    let root = Path::new(root.trim());
    let programs =
        ["cargo", "rustc", "rustdoc", "cargo-clippy", "clippy-driver"].map(|name| format!("bin/{name}"));
    for part in programs.into_iter().chain([format!("lib/rustlib/{host}")]) {
        link(&root.join(&part), &folder.join(&part))?;
    }
    for library in std::fs::read_dir(root.join("lib"))? {
        let library = library?;
        if library.file_type()?.is_file() {
            link(&library.path(), &folder.join("lib").join(library.file_name()))?;
        }
    }
    Ok(())
}

/// Makes hard links to a file or the files of a directory, or copies them where the kernel refuses links: to
/// files of another owner, or across file systems.
fn link(from: &Path, to: &Path) -> Result<()> {
    link_by(from, to, |option, to| {
        process::capture(Command::new("cp").arg(option).arg(from).arg(to)).map(drop)
    })
}

fn link_by(from: &Path, to: &Path, cp: impl Fn(&str, &Path) -> Result<()>) -> Result<()> {
    if to.exists() && !is_nested_copy(from, to) {
        return Ok(());
    }
    remove(to)?;
    let name = to.file_name().context("a path without a name")?.to_string_lossy();
    // Complete or absent: a failed or interrupted `cp` must not pass for a finished one.
    let partial = to.with_file_name(format!("{name}.partial"));
    remove(&partial)?;
    std::fs::create_dir_all(to.parent().unwrap_or(to))?;
    if cp("-al", &partial).is_err() {
        // `cp -al` has made the directories by then, and `cp -a` would copy into them, one level too deep.
        remove(&partial)?;
        cp("-a", &partial)?;
    }
    Ok(std::fs::rename(&partial, to)?)
}

/// Returns true if an earlier version of this task copied the directory one level too deep.
fn is_nested_copy(from: &Path, to: &Path) -> bool {
    from.is_dir() && from.file_name().is_some_and(|name| to.join(name).exists())
}

fn remove(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(facts) if facts.is_dir() => Ok(std::fs::remove_dir_all(path)?),
        Ok(_) => Ok(std::fs::remove_file(path)?),
    }
}

/// Creates a virtual environment of the system's interpreter. The `python3` on the PATH fills it, because it
/// has pip.
fn with_python(folder: &Path) -> Result<()> {
    let python = if Path::new(PYTHON).exists() { PYTHON } else { "python3" };
    process::run(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(folder))?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "--python"]).arg(folder.join("bin/python"));
    process::run(install.args(["install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use anyhow::bail;

    use super::*;

    /// Runs the real `cp`, but refuses hard links the way the kernel does: after the directories were made.
    fn refusing_links(from: &Path) -> impl Fn(&str, &Path) -> Result<()> + '_ {
        move |option, to| {
            if option == "-al" {
                fs::create_dir_all(to.join("lib"))?;
                bail!("Operation not permitted");
            }
            process::capture(Command::new("cp").arg(option).arg(from).arg(to)).map(drop)
        }
    }

    #[test]
    fn files_that_cannot_be_linked_are_copied_to_the_same_place() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("host"), folder.path().join("programs/host"));
        fs::create_dir_all(from.join("lib")).unwrap();
        fs::write(from.join("lib/std"), "std").unwrap();
        link_by(&from, &to, refusing_links(&from)).unwrap();
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            entries.collect::<Vec<_>>()
        };
        assert_eq!((names(&to), names(&to.join("lib"))), (vec!["lib".into()], vec!["std".into()]));
        assert_eq!(names(to.parent().unwrap()), ["host"], "nothing partial is left");

        fs::create_dir_all(to.join("host/lib")).unwrap();
        fs::remove_file(to.join("lib/std")).unwrap();
        link(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("lib/std")).unwrap(), "std", "a nested copy is replaced");
        assert!(!to.join("host").exists());
    }

    #[test]
    fn a_failed_copy_leaves_no_target() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("absent"), folder.path().join("to"));
        assert!(link(&from, &to).is_err());
        assert!(!to.exists());
    }
}
