//! `cargo xtask package-test`: installs the Debian package in a clean root of Debian, uses it as an ordinary user,
//! upgrades it under load and removes it again. It needs root and debootstrap, and takes minutes, so it is no part of
//! `cargo xtask ci`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::{FOLDER, build, contents, debian, sbom};
use crate::process;
use crate::project;
use crate::tree::Root;

const SCRIPT: &str = include_str!("package_test.sh");
const SUITE: &str = "bookworm";
/// Packages besides the minimal system: a service manager, and programs that the load and the demonstration use.
const PACKAGES: &str = "systemd,procps,git,python3,ca-certificates";
/// Enters a root file system with process and mount namespaces of its own. Not by chroot, in which the kernel refuses
/// the user namespaces of the sandbox.
const ENTER: &str = r#"
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=0755 tmpfs dev
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=0755 tmpfs run
cp "$2" "$3" "$4" tmp/
pivot_root . .
umount -l .
cd /
exec sh "/tmp/$(basename "$2")" "/tmp/$(basename "$3")" "/tmp/$(basename "$4")"
"#;

/// Options of the package test.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct PackageTestOptions {
    /// Program to package, instead of one that is built for installation
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Program of the newer package. Default: the same one with another byte at its end
    #[arg(long, value_name = "FILE")]
    newer: Option<PathBuf>,
}

pub(crate) fn command(root: &Root, options: &PackageTestOptions) -> Result<()> {
    check_machine()?;
    let host = project::host_target(root)?;
    let architecture = debian::architecture(&host).context("Debian packages are for Linux only")?;
    let program = match &options.program {
        // It runs in other folders too.
        Some(program) => std::path::absolute(program)?,
        None => build(root, &host, Vec::new())?,
    };
    let folder = root.path().join(FOLDER).join("package-test");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let newer = match &options.newer {
        Some(newer) => std::path::absolute(newer)?,
        None => with_another_byte(&program, &folder.join("newer-sinew"))?,
    };
    let version = contents::version(&program)?;
    let bill = sbom::generate(root, &host, &version)?;
    let package = |name: &str, program: &Path, version: &str| -> Result<PathBuf> {
        let entries = contents::gather(root.path(), program, program, &bill)?;
        let libc = debian::needed_libc(&std::fs::read(program)?)?;
        let path = folder.join(name);
        std::fs::write(&path, debian::package(version, architecture, &libc, &entries)?)?;
        Ok(path)
    };
    let older = package("sinew.deb", &program, &version)?;
    let newer = package("sinew-newer.deb", &newer, &format!("{version}+newer"))?;
    let script = folder.join("test.sh");
    std::fs::write(&script, SCRIPT)?;
    let system = fresh_system(&folder)?;
    let mut enter = Command::new("unshare");
    enter.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        "sh",
        "-euc",
        ENTER,
        "sh",
    ]);
    let tested = process::run(enter.args([&system, &script, &older, &newer]));
    // Empty once its processes have ended with the namespace.
    for hierarchy in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
        let group = Path::new(hierarchy).join("sinew-package-test");
        let remove = "find \"$1\" -depth -type d -exec rmdir {} +";
        let _ = Command::new("sh")
            .args(["-c", remove, "sh"])
            .arg(group)
            .stderr(std::process::Stdio::null())
            .status();
    }
    tested
}

fn check_machine() -> Result<()> {
    if !crate::ordinary_user::is_root() {
        bail!("LEFT OUT: the package test needs root on Linux, to make a root file system");
    }
    if !process::works(Command::new("debootstrap").arg("--version")) {
        bail!("LEFT OUT: the package test needs debootstrap (`apt-get install debootstrap`)");
    }
    Ok(())
}

/// Copies a program with one more byte at its end, which the loader does not read.
fn with_another_byte(program: &Path, to: &Path) -> Result<PathBuf> {
    let mut bytes = std::fs::read(program).with_context(|| format!("cannot read `{}`", program.display()))?;
    bytes.push(b'\n');
    std::fs::write(to, bytes)?;
    process::run(Command::new("chmod").arg("755").arg(to))?;
    Ok(to.to_owned())
}

/// Makes a clean system with one ordinary user. The packages are downloaded once.
fn fresh_system(folder: &Path) -> Result<PathBuf> {
    let (base, system) = (folder.join("base"), folder.join("system"));
    if !base.join("etc/passwd").is_file() || base.join("debootstrap").exists() {
        process::run(Command::new("rm").arg("-rf").arg(&base))?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE]);
        process::run(debootstrap.arg(&base))?;
    }
    process::run(Command::new("rm").arg("-rf").arg(&system))?;
    process::run(Command::new("cp").arg("-a").arg(&base).arg(&system))?;
    let mut user = Command::new("useradd");
    user.args(["--uid", "1000", "--create-home", "--shell", "/bin/sh", "--root"]).arg(&system);
    process::run(user.arg("person"))?;
    Ok(system)
}
