//! Other programs to compare with, installed below `target/bench-peers`. If one cannot be installed, the
//! results report that, and its rows are missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::results::Results;
use crate::process;
use crate::tree::Root;

const NPM: [&str; 3] = [
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@anthropic-ai/sandbox-runtime@0.0.83",
    "@openai/codex@0.166.0",
];
const ISOLATED_VM: &str = "isolated-vm@7.0.1";
const PYPI: [&str; 2] = ["fastmcp==4.1.2", "mcp==2.3.0"];
/// Bubblewrap, and the other programs that `srt` runs.
const DEBIAN: [&str; 4] = ["bubblewrap", "socat", "libwrap0", "ripgrep"];
/// Folder with the sources of the servers and scripts that are measured.
const SOURCES: &str = "xtask/bench-peers";

/// Programs that are available.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    /// The folder with `node_modules`.
    pub(crate) node: Option<PathBuf>,
    /// The folder with `node_modules/isolated-vm`.
    pub(crate) isolated_vm: Option<PathBuf>,
    pub(crate) python: Option<PathBuf>,
    /// The folder with the unpacked Debian packages.
    pub(crate) debian: Option<PathBuf>,
    pub(crate) rmcp: Option<PathBuf>,
    /// The folder with the files that the others run.
    pub(crate) sources: PathBuf,
}

/// Installs nothing and notes that other programs were not measured.
pub(crate) fn none(results: &mut Results) -> Installed {
    results.absent.push("other programs: `--peers` installs and measures them".to_owned());
    Installed::default()
}

/// Installs the programs that are not installed yet.
pub(crate) fn install(root: &Root, results: &mut Results) -> Result<Installed> {
    let folder = root.path().join("target/bench-peers");
    std::fs::create_dir_all(&folder)?;
    let mut had = |what: &str, tried: Result<PathBuf>| match tried {
        Ok(found) => Some(found),
        Err(error) => {
            results.absent.push(format!("{what}: {error:#}"));
            None
        }
    };
    Ok(Installed {
        node: had(&NPM.join(" "), npm(&folder.join("node"), &NPM, "srt")),
        isolated_vm: had(ISOLATED_VM, isolated_vm(&folder.join("isolated-vm"))),
        python: had(&PYPI.join(" "), pypi(&folder.join("python"))),
        debian: had(&DEBIAN.join(" "), debian(&folder.join("debian"))),
        rmcp: had("rmcp", rmcp(root, &folder.join("rmcp"))),
        sources: root.path().join(SOURCES),
    })
}

fn npm(folder: &Path, packages: &[&str], program: &str) -> Result<PathBuf> {
    if !folder.join("node_modules/.bin").join(program).exists() {
        std::fs::create_dir_all(folder)?;
        let mut install = Command::new("npm");
        install.args(["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--prefix"]);
        process::run(install.arg(folder).args(packages))?;
    }
    Ok(folder.to_owned())
}

/// Installs `isolated-vm`. Without a prebuilt binary npm builds it from C++, which needs a compiler and
/// node's headers and takes minutes. The file `tried` prevents a second attempt after a failed one.
fn isolated_vm(folder: &Path) -> Result<PathBuf> {
    let tried = folder.join("tried");
    let works = || {
        let mut node = Command::new("node");
        process::works(
            node.current_dir(folder).args(["-e", "new (require('isolated-vm').Isolate)().dispose()"]),
        )
    };
    if !tried.exists() {
        std::fs::create_dir_all(folder)?;
        std::fs::write(&tried, "")?;
        let mut install = Command::new("timeout");
        install.args([
            "180",
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--no-save",
            "--prefix",
        ]);
        process::run(install.arg(folder).arg(ISOLATED_VM))?;
    }
    // Only the name of the folder, because this text goes into a published page.
    let name = folder.file_name().unwrap_or_default().display();
    ensure!(works(), "it could not be built here; remove `{name}` in `target/bench-peers` to try again");
    Ok(folder.to_owned())
}

fn pypi(folder: &Path) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    let works = || process::works(Command::new(&python).args(["-c", "import fastmcp, mcp.server"]));
    if !works() {
        process::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        process::run(install.args(PYPI))?;
    }
    Ok(python)
}

/// Unpacks the packages instead of installing them, which needs no privileges and changes nothing outside.
fn debian(folder: &Path) -> Result<PathBuf> {
    if !folder.join("usr/bin/bwrap").exists() {
        std::fs::create_dir_all(folder)?;
        process::run(Command::new("apt-get").args(["download", "--quiet"]).args(DEBIAN).current_dir(folder))?;
        for entry in std::fs::read_dir(folder)? {
            let package = entry?.path();
            if package.extension().is_some_and(|end| end == "deb") {
                process::run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder))?;
            }
        }
    }
    Ok(folder.to_owned())
}

fn rmcp(root: &Root, target: &Path) -> Result<PathBuf> {
    let manifest = root.path().join(SOURCES).join("rmcp-server/Cargo.toml");
    let mut build = root.cargo(&["build", "--release", "--locked", "--quiet"]);
    process::run(build.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(target))?;
    let program = target.join("release/rmcp-server");
    program.exists().then_some(program).context("cargo built it elsewhere")
}

impl Installed {
    /// Command for a program of the npm packages, with the unpacked Debian programs on its path.
    pub(crate) fn node_program(&self, name: &str) -> Option<Command> {
        let mut command = Command::new(self.node.as_ref()?.join("node_modules/.bin").join(name));
        if let Some(debian) = &self.debian {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", debian.join("usr/bin").display()));
            command
                .env("LD_LIBRARY_PATH", debian.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH)));
        }
        Some(command)
    }

    /// Path of a program of the Debian packages, or its name if the system has it.
    pub(crate) fn debian_program(&self, name: &str) -> Option<PathBuf> {
        let unpacked = self.debian.as_ref().map(|folder| folder.join("usr/bin").join(name));
        let installed = || process::works(Command::new(name).arg("--version")).then(|| PathBuf::from(name));
        unpacked.filter(|program| program.exists()).or_else(installed)
    }

    /// Command for one of our servers in Python.
    pub(crate) fn python_program(&self, file: &str) -> Option<Command> {
        let mut command = Command::new(self.python.as_ref()?);
        command.arg(self.sources.join(file));
        Some(command)
    }
}
