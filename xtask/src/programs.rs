//! Programs that tests run behind walls as a user with nothing of their own: cargo with rustc and clippy; ruff, mypy,
//! pytest and a server of tools. Where they are installed only for somebody else they are linked, copied or installed
//! below `target/programs`; where that does not work those tests are left out, and that is said.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::tree::Root;

/// Where the tests find them: a folder with `rust` and `python` in it.
pub(crate) const VARIABLE: &str = "SINEW_PROGRAMS";
const PACKAGES: [&str; 4] = ["ruff==0.17.4", "mypy==2.4.1", "pytest==9.2.0", "mcp-server-time==2026.10.19"];
/// The interpreter that everybody can run, where there is one.
const PYTHON: &str = "/usr/bin/python3";

/// The folder with the programs. What could not be put there is missing from it.
pub(crate) fn for_everybody(root: &Root) -> String {
    let folder = root.path().join("target/programs");
    let (rust, python) = (folder.join("rust"), folder.join("python"));
    if !rust.join("bin/cargo-clippy").exists()
        && let Err(error) = with_rust(&rust)
    {
        println!("a toolchain for everybody is not to be had: {error:#}");
    }
    if !["mypy", "mcp-server-time"].iter().all(|name| python.join("bin").join(name).exists())
        && let Err(error) = with_python(&python)
    {
        println!("{} are not to be had: {error:#}", PACKAGES.join(" and "));
    }
    folder.to_string_lossy().into_owned()
}

/// As much of this toolchain as builds for this machine.
fn with_rust(folder: &Path) -> Result<()> {
    let said = process::capture(Command::new("rustc").args(["--version", "--verbose"]))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).context("no host")?;
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

/// A second name where it can have one, which takes no room, else a copy.
fn link(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(to.parent().unwrap_or(to))?;
    let copy = |how: &str| process::capture(Command::new("cp").arg(how).arg(from).arg(to));
    copy("-al").or_else(|_| copy("-a")).map(drop)
}

/// A virtual environment of the system's interpreter, filled by whichever has a pip.
fn with_python(folder: &Path) -> Result<()> {
    let python = if Path::new(PYTHON).exists() { PYTHON } else { "python3" };
    process::run(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(folder))?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "--python"]).arg(folder.join("bin/python"));
    process::run(install.args(["install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES))
}
