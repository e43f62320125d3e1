//! Tests of the archive with a small stand-in for the program: its contents, reproducibility and
//! installation.

use std::os::unix::fs::PermissionsExt;

use super::archive::Entry;
use super::*;

/// Script that answers the commands that `contents` runs.
const STAND_IN: &str = r##"#!/bin/sh
case "$1" in
  --version) echo "sinew 9.8.7" ;;
  completions) echo "completions for $2" ;;
  manual) mkdir -p "$2"; echo page > "$2/sinew.1"; echo page > "$2/sinew-call.1" ;;
  service) echo "# $4: $0 serve" ;;
  *) exit 9 ;;
esac
"##;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Writes the stand-in for the program into `folder`.
fn stand_in(folder: &Path) -> PathBuf {
    let program = folder.join("sinew");
    std::fs::write(&program, STAND_IN).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Builds the archive and unpacks it.
fn unpacked(folder: &Path) -> PathBuf {
    let program = stand_in(folder);
    let entries = contents::gather(&root(), &program, &program).unwrap();
    write(folder, "sinew-9.8.7-here", &entries).unwrap();
    process::capture(
        Command::new("tar").arg("-xzf").arg(folder.join("sinew-9.8.7-here.tar.gz")).current_dir(folder),
    )
    .unwrap();
    folder.join("sinew-9.8.7-here")
}

#[test]
fn the_archive_contains_every_file_with_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let unpacked = unpacked(folder.path());
    for name in [
        "bin/sinew",
        "install.sh",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "SHA256SUMS",
        "share/bash-completion/completions/sinew",
        "share/zsh/site-functions/_sinew",
        "share/fish/vendor_completions.d/sinew.fish",
        "share/man/man1/sinew.1",
        "share/man/man1/sinew-call.1",
        "share/doc/sinew/README.md",
        "share/sinew/service/launchd.plist.example",
        "share/sinew/service/systemd.units.example",
    ] {
        assert!(unpacked.join(name).is_file(), "{name}");
    }
    let mode = |name: &str| unpacked.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("bin/sinew"), mode("install.sh"), mode("SHA256SUMS")), (0o755, 0o755, 0o644));
    let example =
        std::fs::read_to_string(unpacked.join("share/sinew/service/launchd.plist.example")).unwrap();
    assert_eq!(example, "# launchd: /home/you/.local/bin/sinew serve\n", "no path of this machine");
    let sum = std::fs::read_to_string(folder.path().join("sinew-9.8.7-here.sha256")).unwrap();
    let bytes = std::fs::read(folder.path().join("sinew-9.8.7-here.tar.gz")).unwrap();
    assert_eq!(sum, format!("{}  sinew-9.8.7-here.tar.gz\n", archive::sha256(&bytes)));
}

#[test]
fn equal_files_in_any_order_give_equal_bytes() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let packed = folders.each_ref().map(|folder| {
        let program = stand_in(folder.path());
        contents::gather(&root(), &program, &program).unwrap()
    });
    let [first, mut second] = packed;
    second.reverse();
    assert_eq!(archive::pack("a", &first).unwrap(), archive::pack("a", &second).unwrap());
    second.push(Entry::document("another", "x"));
    assert_ne!(archive::pack("a", &first).unwrap(), archive::pack("a", &second).unwrap());
}

#[test]
fn a_name_too_long_for_the_header_is_refused() {
    let long = Entry::document("x".repeat(100), "");
    assert!(archive::pack("a", &[long]).unwrap_err().to_string().contains("too long"));
}

fn install(unpacked: &Path, prefix: &Path) -> std::process::Output {
    let mut command = Command::new("sh");
    command.arg(unpacked.join("install.sh")).arg("--prefix").arg(prefix).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", prefix).output().unwrap()
}

#[test]
fn the_archive_installs_twice_below_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let (unpacked, prefix) = (unpacked(folder.path()), folder.path().join("a prefix"));
    for _ in 0..2 {
        let output = install(&unpacked, &prefix);
        assert!(output.status.success(), "{output:?}");
        for name in ["bin/sinew", "share/man/man1/sinew.1", "share/zsh/site-functions/_sinew"] {
            assert!(prefix.join(name).is_file(), "{name}: {output:?}");
        }
        let text = process::capture(Command::new(prefix.join("bin/sinew")).arg("--version")).unwrap();
        assert_eq!(text, "sinew 9.8.7\n");
    }
    assert!(!prefix.join("install.sh").exists() && !prefix.join("SHA256SUMS").exists());
}

#[test]
fn a_modified_archive_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let (unpacked, prefix) = (unpacked(folder.path()), folder.path().join("prefix"));
    std::fs::write(unpacked.join("bin/sinew"), "#!/bin/sh\necho other\n").unwrap();
    let output = install(&unpacked, &prefix);
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("bin/sinew"), "{output:?}");
    assert!(!prefix.join("bin/sinew").exists());
}
