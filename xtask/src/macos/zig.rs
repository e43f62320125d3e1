//! Finds zig, or installs it below `target/zig`, and writes the two small scripts that make it accept the
//! flags which the `cc` crate passes for Apple targets.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::tree::Root;

const VERSION: &str = "0.17.0";
const ZIGBUILD_VERSION: &str = "0.24.0";
const FOLDER: &str = "target/zig";

/// Paths of the scripts to use as compiler and archiver.
pub(crate) struct Wrappers {
    pub(crate) cc: PathBuf,
    pub(crate) ar: PathBuf,
}

impl Wrappers {
    /// Writes the scripts for a macOS target.
    pub(crate) fn make(root: &Root, target: &str) -> Result<Self> {
        let folder = root.path().join(FOLDER);
        let own = folder.join(target);
        std::fs::create_dir_all(&own).with_context(|| format!("cannot make `{}`", own.display()))?;
        let zig = find(&folder)?;
        let wrappers = Wrappers { cc: own.join("cc"), ar: own.join("ar") };
        write_script(&wrappers.cc, &cc_script(&zig, &folder, target))?;
        write_script(&wrappers.ar, &ar_script(&zig, &folder))?;
        Ok(wrappers)
    }
}

/// Finds the command that starts zig: on the PATH, else in the Python package, else in our own copy of that.
fn find(folder: &Path) -> Result<Vec<String>> {
    let python = folder.join("venv/bin/python").to_string_lossy().into_owned();
    let module = |python: &str| vec![python.to_owned(), "-m".to_owned(), "ziglang".to_owned()];
    for command in [vec!["zig".to_owned()], module("python3"), module(&python)] {
        if is_usable(&command) {
            return Ok(command);
        }
    }
    install(folder, &python).with_context(|| {
        format!(
            "the macOS check compiles C with zig: put zig {VERSION} on the PATH, or python3 with venv and pip"
        )
    })?;
    Ok(module(&python))
}

/// Installs cargo-zigbuild, which makes zig a linker of Linux programs for a chosen glibc. Returns the folder of its
/// programs.
pub(crate) fn install_zigbuild(root: &Root) -> Result<PathBuf> {
    let folder = root.path().join(FOLDER);
    let programs = folder.join("venv/bin");
    if !programs.join("cargo-zigbuild").is_file() {
        let python = programs.join("python").to_string_lossy().into_owned();
        let needs = "Linux programs are linked by zig: it needs python3 with venv and pip";
        std::fs::create_dir_all(&folder)?;
        install(&folder, &python).context(needs)?;
        let package = format!("cargo-zigbuild=={ZIGBUILD_VERSION}");
        process::run(Command::new(&python).args(["-m", "pip", "install", "--quiet", &package]))
            .context(needs)?;
    }
    Ok(programs)
}

fn is_usable(command: &[String]) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    process::works(Command::new(program).args(arguments).arg("version"))
}

fn install(folder: &Path, python: &str) -> Result<()> {
    process::run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
    let package = format!("ziglang=={VERSION}");
    process::run(Command::new(python).args(["-m", "pip", "install", "--quiet", &package]))
}

/// Script that drops clang's flags for target and SDK: zig takes the target in its own spelling and knows no
/// SDK.
fn cc_script(zig: &[String], folder: &Path, target: &str) -> String {
    let start = start_of(zig, folder);
    let processor = target.split('-').next().unwrap_or_default();
    format!(
        r#"#!/bin/sh
# Written by `cargo xtask ci --only macos`.
skip=
for word in "$@"; do
  shift
  if [ -n "$skip" ]; then
    skip=
    continue
  fi
  case "$word" in
    -target | -arch | -isysroot) skip=next ;;
    --target=* | --sysroot=* | -mmacosx-version-min=* | -mmacos-version-min=*) ;;
    *) set -- "$@" "$word" ;;
  esac
done
{start} cc -target {processor}-macos.12.0-none "$@"
"#
    )
}

fn ar_script(zig: &[String], folder: &Path) -> String {
    format!("#!/bin/sh\n# Written by `cargo xtask ci --only macos`.\n{} ar \"$@\"\n", start_of(zig, folder))
}

/// Shell command that starts zig with its caches below `target`.
fn start_of(zig: &[String], folder: &Path) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let cache = quote(&folder.join("cache").to_string_lossy());
    let command: Vec<String> = zig.iter().map(|word| quote(word)).collect();
    format!("ZIG_GLOBAL_CACHE_DIR={cache} ZIG_LOCAL_CACHE_DIR={cache} exec {}", command.join(" "))
}

fn write_script(path: &Path, text: &str) -> Result<()> {
    // An unchanged file keeps its time, so that cargo does not compile SQLite again.
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make `{}` executable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the script with `echo` in the place of zig and returns the words it was given.
    fn passed_on(words: &[&str]) -> String {
        let script = cc_script(&["echo".to_owned()], Path::new("/nowhere"), "aarch64-apple-darwin");
        let mut shell = Command::new("sh");
        process::capture(shell.args(["-c", &script, "cc"]).args(words)).unwrap().trim_end().to_owned()
    }

    fn check(words: &[&str], expect: &str) {
        assert_eq!(passed_on(words), format!("cc -target aarch64-macos.12.0-none{expect}"));
    }

    #[test]
    fn only_flags_that_zig_supports_are_passed_on() {
        check(&[], "");
        check(&["-O2", "-c", "a.c"], " -O2 -c a.c");
        check(&["--target=arm64-apple-macosx", "-mmacosx-version-min=11.0", "-w"], " -w");
        check(&["-arch", "arm64", "-g", "-isysroot", "/sdk", "x y.c"], " -g x y.c");
    }

    #[test]
    fn a_path_with_a_quote_is_escaped() {
        let start = start_of(&["zig".to_owned()], Path::new("/it's"));
        assert!(start.starts_with(r"ZIG_GLOBAL_CACHE_DIR='/it'\''s/cache' "), "{start}");
    }
}
