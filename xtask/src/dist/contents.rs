//! Contents of the archive: the program, the documents it generates, and the documents for people. Runs the
//! program; builds nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::archive::{self, Entry};
use super::release;
use crate::process;

/// Files that are copied unchanged, with their paths in the archive.
const TAKEN: [(&str, &str); 5] = [
    ("README.md", "share/doc/sinew/README.md"),
    ("CHANGELOG.md", "share/doc/sinew/CHANGELOG.md"),
    ("SECURITY.md", "share/doc/sinew/SECURITY.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
];
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/sinew"),
    ("zsh", "share/zsh/site-functions/_sinew"),
    ("fish", "share/fish/vendor_completions.d/sinew.fish"),
];
/// Folders that are copied with their subfolders: manifests that ship with Sinew, the default configuration, and the
/// pages for people.
const FOLDERS: [(&str, &str); 3] = [
    ("tools", "share/sinew/tools"),
    ("config/governance", "share/sinew/config/governance"),
    ("docs", "share/doc/sinew/docs"),
];
/// Pages for developers of Sinew.
const LEFT_OUT: [&str; 2] = ["decisions", "architecture"];
/// Home and program path in the example service files.
const USER: &str = "/home/you";
const PROGRAM: &str = "/home/you/.local/bin/sinew";

/// Version that the program reports.
pub(crate) fn version(program: &Path) -> Result<String> {
    let version_output = process::capture(Command::new(program).arg("--version"))?;
    Ok(version_output.split_whitespace().last().context("`sinew --version` prints no version")?.to_owned())
}

/// Collects every file. `program` runs here and generates documents; `shipped` and its bill of materials go into the
/// archive.
pub(crate) fn gather(root: &Path, program: &Path, shipped: &Path, bill: &str) -> Result<Vec<Entry>> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()));
    let mut entries = vec![Entry::program("bin/sinew", read(shipped)?)];
    entries.push(Entry::program("install.sh", release::archived_installer(&version(program)?)?));
    entries.push(Entry::document("share/sinew/sinew.cdx.json", bill));
    for (from, to) in TAKEN {
        entries.push(Entry::document(to, read(&root.join(from))?));
    }
    for (shell, to) in COMPLETIONS {
        let script = process::capture(Command::new(program).args(["completions", shell]))?;
        entries.push(Entry::document(to, script));
    }
    entries.extend(pages(program)?);
    for (folder, to) in FOLDERS {
        add_files(&root.join(folder), to, &mut entries)?;
    }
    for (manager, to) in [
        ("launchd", "share/sinew/service/launchd.plist.example"),
        ("systemd", "share/sinew/service/systemd.units.example"),
    ] {
        entries.push(Entry::document(to, service(program, manager)?));
    }
    let sums = checksums(&entries);
    entries.push(Entry::document("SHA256SUMS", sums));
    Ok(entries)
}

/// Adds the files of a folder and its subfolders. Scripts of manifests keep their mode.
fn add_files(folder: &Path, to: &str, entries: &mut Vec<Entry>) -> Result<()> {
    let listed = std::fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    for file in listed {
        let file = file?;
        let (name, path) = (file.file_name().to_string_lossy().into_owned(), file.path());
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        let to = format!("{to}/{name}");
        if file.file_type()?.is_dir() {
            add_files(&path, &to, entries)?;
            continue;
        }
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let is_program = file.metadata()?.permissions().mode() & 0o111 != 0;
        entries.push(if is_program { Entry::program(to, bytes) } else { Entry::document(to, bytes) });
    }
    Ok(())
}

fn pages(program: &Path) -> Result<Vec<Entry>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    process::capture(Command::new(program).arg("manual").arg(folder.path()))?;
    let mut pages = Vec::new();
    for page in std::fs::read_dir(folder.path())? {
        let page = page?;
        let name = format!("share/man/man1/{}", page.file_name().to_string_lossy());
        pages.push(Entry::document(name, std::fs::read(page.path())?));
    }
    Ok(pages)
}

/// Example of the service file of `sinew service install`. For reading only, because that command writes the
/// real file.
fn service(program: &Path, manager: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["service", "install", "--platform", manager, "--print"]);
    command.env_clear().env("HOME", USER).env("PATH", "/usr/bin:/bin").current_dir("/");
    let text = process::capture(&mut command)?;
    let here = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    Ok(text.replace(&*here.to_string_lossy(), PROGRAM))
}

/// Checksums in the format of `sha256sum --check`.
fn checksums(entries: &[Entry]) -> String {
    let mut lines: Vec<String> =
        entries.iter().map(|entry| format!("{}  {}\n", archive::sha256(&entry.bytes), entry.name)).collect();
    lines.sort_by(|a, b| a.split_once("  ").cmp(&b.split_once("  ")));
    lines.concat()
}
