//! Debian package from the entries of the archive: an `ar` file with two `tar.gz`. Written here, because the archive
//! writer exists already and the format is small; `cargo-deb` would build a second time and sets times.

use anyhow::{Context, Result, bail};

use super::archive::{self, Entry, Kind};

/// Maintainer field. The format wants an address; reports go to the repository.
const MAINTAINER: &str = "Sinew contributors <noreply@example.invalid>";
const DESCRIPTION: &str = "tool runtime for a local AI agent\n \
    Sinew is a daemon that governs the tool calls of an agent: it checks the\n \
    arguments of each call, decides it by a policy, asks for approval where the\n \
    policy says so, runs tools in a sandbox and records every call in a ledger.\n \
    .\n \
    Nothing is started at installation: see sinew(1).";
/// Files of the package that the archive does not have.
const UNITS: [(&str, &str); 2] = [
    (include_str!("../../../config/packaging/sinew.service"), "usr/lib/systemd/user/sinew.service"),
    (include_str!("../../../config/packaging/sinew.socket"), "usr/lib/systemd/user/sinew.socket"),
];
const BEFORE_REMOVAL: &str = include_str!("../../../config/packaging/prerm");

/// Debian name of an architecture, if packages are built for the target.
pub(super) fn architecture(target: &str) -> Option<&'static str> {
    match target {
        "x86_64-unknown-linux-gnu" => Some("amd64"),
        "aarch64-unknown-linux-gnu" => Some("arm64"),
        _ => None,
    }
}

/// Builds the package. `libc` is the oldest version of glibc that the program runs with.
pub(super) fn package(version: &str, architecture: &str, libc: &str, entries: &[Entry]) -> Result<Vec<u8>> {
    let data = data(entries)?;
    let size: usize = data.iter().map(|entry| entry.bytes.len()).sum();
    let control = [
        Entry::document("control", control_fields(version, architecture, libc, size)),
        Entry::program("prerm", BEFORE_REMOVAL),
    ];
    ar(&[
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", archive::pack(".", &control)?),
        ("data.tar.gz", archive::pack(".", &with_folders(data))?),
    ])
}

fn control_fields(version: &str, architecture: &str, libc: &str, size: usize) -> String {
    format!(
        "Package: sinew\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {}\nDepends: libc6 (>= {libc})\nRecommends: git, ca-certificates\nSection: utils\n\
         Priority: optional\nDescription: {DESCRIPTION}\n",
        size.div_ceil(1024)
    )
}

/// Places the entries of the archive below `usr`, with compressed manual pages and licences in one file.
fn data(entries: &[Entry]) -> Result<Vec<Entry>> {
    // The licences are joined in this order, so the package must not depend on that of the folder.
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut data = Vec::new();
    let mut licences =
        String::from("Sinew is licensed under either of the two licences below, at your option.\n");
    for entry in entries {
        match entry.name.as_str() {
            "install.sh" | "SHA256SUMS" => {}
            name if name.starts_with("LICENSE") => {
                licences
                    .push_str(&format!("\n---- {name} ----\n\n{}", String::from_utf8_lossy(&entry.bytes)));
            }
            name if name.starts_with("share/man/") => {
                data.push(Entry::document(format!("usr/{name}.gz"), archive::gzip(&entry.bytes)?));
            }
            name if name.starts_with("share/zsh/site-functions/") => {
                let name = name.replace("site-functions", "vendor-completions");
                data.push(Entry { name: format!("usr/{name}"), ..entry.clone() });
            }
            // The units below replace the examples.
            name if name.starts_with("share/sinew/service/") => {}
            name => data.push(Entry { name: format!("usr/{name}"), ..entry.clone() }),
        }
    }
    data.push(Entry::document("usr/share/doc/sinew/copyright", licences));
    data.extend(UNITS.map(|(text, name)| Entry::document(name, text)));
    if !data.iter().any(|entry| entry.kind == Kind::Program) {
        bail!("there is no program among the files");
    }
    Ok(data)
}

/// Adds the folders of all entries, which dpkg needs to create them and to remove them again.
fn with_folders(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut folders = std::collections::BTreeSet::new();
    for entry in &entries {
        let mut path = entry.name.as_str();
        while let Some((parent, _)) = path.rsplit_once('/') {
            folders.insert(parent.to_owned());
            path = parent;
        }
    }
    entries.extend(folders.into_iter().map(Entry::folder));
    entries
}

/// Packs members into an `ar` file of the common format, without times and owners.
fn ar(members: &[(&str, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut packed = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", bytes.len());
        if header.len() != 60 {
            bail!("`{name}` does not fit into the header of an ar file");
        }
        packed.extend(header.into_bytes());
        packed.extend(bytes);
        if bytes.len() % 2 == 1 {
            packed.push(b'\n');
        }
    }
    Ok(packed)
}

/// Returns the oldest version of glibc that has every symbol that a program takes from it: the newest version that
/// its symbol table names.
pub(super) fn needed_libc(program: &[u8]) -> Result<String> {
    const MARK: &[u8] = b"GLIBC_2.";
    let starts = memchr::memmem::find_iter(program, MARK).map(|at| at + MARK.len());
    let minor = |at: usize| {
        let digits = program.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).take(3);
        String::from_utf8(digits.copied().collect()).ok()?.parse::<u32>().ok()
    };
    let newest = starts.filter_map(minor).max().context("the program names no version of glibc")?;
    Ok(format!("2.{newest}"))
}
