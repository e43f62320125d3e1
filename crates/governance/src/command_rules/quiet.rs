//! List of programs that start no program named by their arguments. Any other program may start anything.

use super::git;
use super::readings::last_name;
use crate::surroundings::FileNames;

/// Directories in which a bare name is the system's program. Elsewhere any user may have put a program of
/// that name.
const OF_THE_SYSTEM: &[&str] = &["/bin/", "/usr/bin/"];

/// None of their options has them run a program of the caller's choice. `sort`, `split`, `install`, `fd`, `less` and `tar`
/// have such an option, and are not here.
const QUIET: &str = "[ b2sum base32 base64 basename bunzip2 bzcat bzip2 cal cat chgrp chmod chown cksum cmp column comm cp \
    curl cut date dd df diff dir dirname du echo egrep expand expr factor false fgrep file fmt fold free grep groups gunzip \
    gzip head hexdump hostname id join jq kill killall ln logname ls lsof md5 md5sum mkdir mkfifo mktemp mv nl nproc numfmt \
    od paste pathchk pgrep pidof pkill pr printenv printf ps pwd readlink realpath rev rm rmdir seq sha1sum sha224sum \
    sha256sum sha384sum sha512sum shasum shred shuf sleep stat strings sum sync tac tail tee test touch tr tree true \
    truncate tsort tty uname unexpand uniq unlink unxz unzip uptime vdir vmstat wc whereis which who whoami xxd xz xzcat \
    yes zstd";

/// Quiet unless an option begins so.
const QUIET_BUT: &[(&str, &[&str])] = &[("rg", &["--pre", "--hostname-bin"])];

/// Returns true if the program of this line starts nothing that the line's words name.
pub(super) fn starts_nothing(line: &[String], names: FileNames) -> bool {
    let Some((program, words)) = line.split_first() else { return true };
    let bare = OF_THE_SYSTEM.iter().find_map(|folder| program.strip_prefix(folder)).unwrap_or(program);
    if bare.contains('/') {
        return false;
    }
    let bare = last_name(bare, names);
    let but = QUIET_BUT.iter().find(|(known, _)| *known == bare);
    match but {
        Some((_, loud)) => !words.iter().any(|word| loud.iter().any(|option| word.starts_with(option))),
        None if bare == "git" => git::starts_nothing(words),
        None => is_in(QUIET, &bare),
    }
}

/// Returns true if a list of words contains this one.
pub(super) fn is_in(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}
