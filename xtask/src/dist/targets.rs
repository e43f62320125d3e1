//! Systems that the release has archives for, and whether each can be built here.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::process;
use crate::tree::Root;

/// Oldest glibc that the Linux programs run with: Debian 11, Ubuntu 20.04 and RHEL 9 have it or a newer one.
pub(super) const OLDEST_LIBC: &str = "2.31";

/// System that the release has an archive for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Name that rustc uses.
    pub(super) name: &'static str,
    system: System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    Linux,
    MacOs,
}

/// All targets of a release. The archives, the packages, `install.sh`, the formula and the checksums follow this list.
pub(super) const TARGETS: [Target; 4] = [
    Target { name: "x86_64-unknown-linux-gnu", system: System::Linux },
    Target { name: "aarch64-unknown-linux-gnu", system: System::Linux },
    Target { name: "aarch64-apple-darwin", system: System::MacOs },
    Target { name: "x86_64-apple-darwin", system: System::MacOs },
];

/// Names of all targets, for `--target`.
pub(super) const NAMES: [&str; 4] = [TARGETS[0].name, TARGETS[1].name, TARGETS[2].name, TARGETS[3].name];

impl Target {
    pub(super) fn named(name: &str) -> Result<Target> {
        match TARGETS.into_iter().find(|target| target.name == name) {
            Some(target) => Ok(target),
            None => bail!("`{name}` is no target of a release: {}", NAMES.join(", ")),
        }
    }

    pub(super) fn is_linux(self) -> bool {
        self.system == System::Linux
    }

    /// Returns the reason why the target cannot be built here.
    pub(super) fn obstacle(self, root: &Root) -> Result<Option<String>> {
        if !standard_library(root, self.name)?.is_dir() {
            return Ok(Some(format!(
                "its standard library is not installed: run `rustup target add {}`",
                self.name
            )));
        }
        let has_sdk = cfg!(target_os = "macos") || std::env::var_os("SDKROOT").is_some();
        Ok(match self.system {
            System::MacOs if !has_sdk => Some(
                "Apple's frameworks are not here: set SDKROOT to an SDK, or run this on a Mac".to_owned(),
            ),
            System::Linux if !cfg!(target_os = "linux") => {
                Some("the documents come from a program that runs here: run this on Linux".to_owned())
            }
            _ => None,
        })
    }
}

/// Folder with the standard library of a target, which exists if it is installed.
fn standard_library(root: &Root, target: &str) -> Result<PathBuf> {
    let arguments = ["--print", "target-libdir", "--target", target];
    Ok(PathBuf::from(process::capture(&mut root.command("rustc", &arguments))?.trim()))
}
