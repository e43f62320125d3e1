//! Files of a release that name its archives: `install.sh`, the Homebrew formula, the container recipe and the
//! checksums. All come from one list.

use anyhow::{Context, Result, bail};

const INSTALLER: &str = include_str!("../../../config/packaging/install.sh");
const FORMULA: &str = include_str!("../../../config/packaging/sinew.rb");
const CONTAINER: &str = include_str!("../../../config/packaging/Containerfile");
/// Comment in the templates that the list of archives replaces.
const LIST_MARK: &str = "#@ARCHIVES@";
/// Target of the container image.
const CONTAINER_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Archive of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReleasedArchive {
    pub(super) target: &'static str,
    /// File name.
    pub(super) name: String,
    pub(super) sha256: String,
}

/// Archives of one version, with the address that they are published at.
pub(super) struct Release<'a> {
    pub(super) version: &'a str,
    /// URL of the folder with the archives.
    pub(super) base_url: &'a str,
    pub(super) archives: &'a [ReleasedArchive],
}

/// Returns the installer that is in every archive. It knows no other archive.
pub(super) fn archived_installer(version: &str) -> Result<String> {
    installer(&Release { version, base_url: "", archives: &[] })
}

/// Returns the installer, which downloads the archive of its system.
pub(super) fn installer(release: &Release<'_>) -> Result<String> {
    let cases = release.archives.iter().map(|archive| {
        format!("{}) printf '%s\\n' '{} {}' ;;", archive.target, archive.name, archive.sha256)
    });
    fill(INSTALLER, release, &cases.collect::<Vec<_>>())
}

/// Returns the Homebrew formula.
pub(super) fn formula(release: &Release<'_>) -> Result<String> {
    let mut lines = Vec::new();
    for (system, end) in [("macos", "apple-darwin"), ("linux", "unknown-linux-gnu")] {
        let of_system = release.archives.iter().filter(|archive| archive.target.ends_with(end));
        let mut inner = Vec::new();
        for archive in of_system {
            let processor = if archive.target.starts_with("aarch64") { "arm" } else { "intel" };
            inner.push(format!("  on_{processor} do"));
            inner.push(format!("    url \"{}/{}\"", release.base_url, archive.name));
            inner.push(format!("    sha256 \"{}\"", archive.sha256));
            inner.push("  end".to_owned());
        }
        if !inner.is_empty() {
            lines.push(format!("on_{system} do"));
            lines.append(&mut inner);
            lines.push("end".to_owned());
        }
    }
    fill(FORMULA, release, &lines)
}

/// Returns the container recipe, if the release has the archive that it is built from.
pub(super) fn container(release: &Release<'_>) -> Result<Option<String>> {
    let Some(archive) = release.archives.iter().find(|archive| archive.target == CONTAINER_TARGET) else {
        return Ok(None);
    };
    let folder = archive.name.strip_suffix(".tar.gz").context("an archive that is no tar.gz")?;
    let text = CONTAINER
        .replace("@SHA256@", &archive.sha256)
        .replace("@ARCHIVE@", &archive.name)
        .replace("@FOLDER@", folder);
    fill(&text, release, &[]).map(Some)
}

/// Returns the checksums in the format of `sha256sum --check`.
pub(super) fn checksums(files: &[(String, String)]) -> String {
    let mut lines: Vec<String> = files.iter().map(|(name, sha256)| format!("{sha256}  {name}\n")).collect();
    lines.sort();
    lines.concat()
}

/// Replaces the placeholders of a template. The lines of the list get the indent of its mark.
fn fill(template: &str, release: &Release<'_>, list: &[String]) -> Result<String> {
    let words = [release.version, release.base_url];
    let is_safe = |c: char| c.is_ascii_alphanumeric() || ":/._-+~".contains(c);
    if let Some(word) = words.iter().find(|word| !word.chars().all(is_safe)) {
        bail!("`{word}` contains a character that a shell or Ruby may read");
    }
    // A release page is one folder above the archives of its tag.
    let homepage = release.base_url.split("/releases/").next().unwrap_or_default();
    let mut filled = String::new();
    for line in template.lines() {
        match line.find(LIST_MARK) {
            Some(indent) => {
                list.iter().for_each(|item| filled.push_str(&format!("{:indent$}{item}\n", "")));
            }
            None => filled.push_str(&format!("{line}\n")),
        }
    }
    Ok(filled
        .replace("@VERSION@", release.version)
        .replace("@BASE_URL@", release.base_url)
        .replace("@HOMEPAGE@", homepage))
}
