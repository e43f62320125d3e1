//! Read-only programs: they cannot act, whatever their arguments are.

use std::path::Path;

/// Read-only programs: with any arguments, they start no program, write no file, change no setting of the
/// machine and load no code. The following programs mostly read and are not on the list: `awk`, `sed`,
/// `find`, `xargs`, `env` (run their arguments), `git` (`-c`, `--upload-pack`, `--output`, a pager), `sort`
/// and `tree` (`-o`), `uniq` and `xxd` (write to a second file argument), `diff` (`-l` starts `pr`), `file`
/// (`-C` writes), `rg` (`--pre` runs), `less` (a shell), `date` and `hostname` (set it), `tar`, `tee` and
/// `dd` (write). A denylist was tried first, but it was never complete.
pub const READ_ONLY_PROGRAMS: [&str; 24] = [
    "basename",
    "cat",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
    "dirname",
    "du",
    "echo",
    "grep",
    "head",
    "ls",
    "md5sum",
    "nl",
    "od",
    "pwd",
    "readlink",
    "realpath",
    "sha1sum",
    "sha256sum",
    "stat",
    "tail",
    "wc",
];

/// Returns true if a program is read-only, by the last component of its path.
pub fn is_read_only_program(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| READ_ONLY_PROGRAMS.contains(&name))
}
