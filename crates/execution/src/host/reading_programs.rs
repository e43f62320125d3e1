//! Programs that a shell line may start if it only reads, with the options that read only what the words of
//! the command name.
//!
//! One row describes a program on every system: GNU, BSD and, for `grep`, also ugrep, which some hosts run
//! under that name. An option is in its row only if it is safe in all of them. Options that read names from a
//! file (`--files0-from`, `-c` of checksum programs) are not in the table. Neither are options that follow
//! symbolic links below a folder (`grep -R`, `ls -L`, `du -D`), do not end (`tail -f`), or start programs
//! (`--filter` of ugrep).

/// Program with its known options. Long options are known by their full names only.
#[derive(Debug)]
pub(super) struct ReadingProgram {
    name: &'static str,
    /// Short options without a value.
    flags: &'static str,
    /// Short options with a value, in the same word or the next one.
    flags_with_value: &'static str,
    /// Long options without a value.
    long: &'static [&'static str],
    /// Long options with a value behind `=`.
    long_with_value: &'static [&'static str],
    /// Number of operands below which the program shows the working directory. `None` for a program that shows nothing
    /// below a folder.
    operands: Option<usize>,
}

#[rustfmt::skip] // one row per program
const READING_PROGRAMS: [ReadingProgram; 24] = [
    row("basename", "az", "s", &["multiple", "zero"], &["suffix"]),
    row("cat", "AbeEnstTuv", "", &["number", "number-nonblank", "show-all", "show-ends", "show-nonprinting", "show-tabs", "squeeze-blank"], &[]),
    row("cksum", "z", "al", &["tag", "untagged", "zero"], &["algorithm", "length"]),
    row("cmp", "bls", "in", &["print-bytes", "quiet", "silent", "verbose"], &["bytes", "ignore-initial"]),
    row("comm", "123z", "", &["check-order", "nocheck-order", "total", "zero-terminated"], &["output-delimiter"]),
    row("cut", "nsz", "bcdf", &["complement", "only-delimited", "zero-terminated"], &["bytes", "characters", "delimiter", "fields", "output-delimiter"]),
    row("df", "ahHiklPT", "Bt", &["all", "human-readable", "inodes", "local", "portability", "print-type", "si", "total"], &["block-size", "output", "type"]),
    row("dirname", "z", "", &["zero"], &[]),
    lister("du", 1, "0abchklmPSsx", "Bdt", &["all", "apparent-size", "bytes", "human-readable", "inodes", "no-dereference", "null", "one-file-system", "separate-dirs", "si", "summarize", "total"], &["block-size", "exclude", "max-depth", "threshold"]),
    row("echo", "eEn", "", &[], &[]),
    // The first operand is the pattern.
    lister("grep", 2, "abEFGHhIiLlcnoPqrsvwx", "ABCem", &["count", "extended-regexp", "files-with-matches", "files-without-match", "fixed-strings", "ignore-case", "invert-match", "line-number", "line-regexp", "no-filename", "no-messages", "only-matching", "quiet", "recursive", "with-filename", "word-regexp"], &["after-context", "before-context", "color", "context", "exclude", "exclude-dir", "include", "max-count", "regexp"]),
    row("head", "0123456789qvz", "cn", &["quiet", "silent", "verbose", "zero-terminated"], &["bytes", "lines"]),
    lister("ls", 1, "1AaBbCcdFfGghiklmNnopQqRrSstUuvXxZ", "ITw", &["all", "almost-all", "classify", "color", "directory", "escape", "file-type", "full-time", "group-directories-first", "human-readable", "inode", "kibibytes", "literal", "no-group", "numeric-uid-gid", "quote-name", "recursive", "reverse", "si", "size", "zero"], &["block-size", "classify", "color", "format", "hide", "ignore", "quoting-style", "sort", "time", "time-style", "width"]),
    row("md5sum", "btz", "", &["binary", "tag", "text", "zero"], &[]),
    row("nl", "p", "bdfhilnsvw", &["no-renumber"], &["body-numbering", "line-increment", "number-format", "number-separator", "number-width", "starting-line-number"]),
    row("od", "abcdfilosvx", "AjNt", &["output-duplicates"], &["address-radix", "endian", "format", "read-bytes", "skip-bytes"]),
    row("pwd", "LP", "", &["logical", "physical"], &[]),
    row("readlink", "efmnqsvz", "", &["canonicalize", "canonicalize-existing", "canonicalize-missing", "no-newline", "quiet", "silent", "zero"], &[]),
    row("realpath", "eLmPqsz", "", &["canonicalize-existing", "canonicalize-missing", "logical", "no-symlinks", "physical", "quiet", "strip", "zero"], &["relative-base", "relative-to"]),
    row("sha1sum", "btz", "", &["binary", "tag", "text", "zero"], &[]),
    row("sha256sum", "btz", "", &["binary", "tag", "text", "zero"], &[]),
    row("stat", "fLt", "c", &["dereference", "file-system", "terse"], &["format", "printf"]),
    row("tail", "0123456789qvz", "cn", &["quiet", "silent", "verbose", "zero-terminated"], &["bytes", "lines"]),
    row("wc", "cLlmw", "", &["bytes", "chars", "lines", "max-line-length", "words"], &[]),
];

const fn row(
    name: &'static str,
    flags: &'static str,
    flags_with_value: &'static str,
    long: &'static [&'static str],
    long_with_value: &'static [&'static str],
) -> ReadingProgram {
    ReadingProgram { name, flags, flags_with_value, long, long_with_value, operands: None }
}

/// Row of a program that shows what is below a folder.
const fn lister(
    name: &'static str,
    operands: usize,
    flags: &'static str,
    flags_with_value: &'static str,
    long: &'static [&'static str],
    long_with_value: &'static [&'static str],
) -> ReadingProgram {
    ReadingProgram { operands: Some(operands), ..row(name, flags, flags_with_value, long, long_with_value) }
}

impl ReadingProgram {
    pub(super) fn find(name: &str) -> Option<&'static ReadingProgram> {
        READING_PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Returns true for an operand and for an option of the row.
    pub(super) fn knows(&self, word: &str) -> bool {
        // A lone `-` is standard input, `--` ends the options.
        let Some(option) = word.strip_prefix('-').filter(|option| !matches!(*option, "" | "-")) else {
            return true;
        };
        match option.strip_prefix('-').map(|long| long.split_once('=').ok_or(long)) {
            Some(Ok((long, _))) => self.long_with_value.contains(&long),
            Some(Err(long)) => self.long.contains(&long),
            None => {
                let rest = option.trim_start_matches(|flag| self.flags.contains(flag));
                rest.is_empty() || rest.starts_with(|flag| self.flags_with_value.contains(flag))
            }
        }
    }

    /// Returns true if the program shows what is below a folder that it is given.
    pub(super) fn lists(&self) -> bool {
        self.operands.is_some()
    }

    /// Returns true if the program can show what is below the working directory without naming it.
    /// `has_piped_input` is true for a command behind a pipe.
    pub(super) fn lists_working_directory(&self, arguments: &[String], has_piped_input: bool) -> bool {
        let has_too_few = self.operands.is_some_and(|operands| self.certain_operands(arguments) < operands);
        // Only with a pipe as its input, and without recursion, every `grep` reads its input and no folder: ugrep
        // searches the working directory if its input is a terminal.
        let reads_input =
            self.name == "grep" && has_piped_input && !arguments.iter().any(|word| descends(word));
        has_too_few && !reads_input
    }

    /// Counts the words that cannot be the value of the option before them.
    fn certain_operands(&self, arguments: &[String]) -> usize {
        let takes_next = |word: &str| {
            word.starts_with('-')
                && !word.starts_with("--")
                && word.contains(|c| self.flags_with_value.contains(c))
        };
        let mut is_value = false;
        let mut count = 0;
        for word in arguments {
            count += usize::from(!is_value && !word.starts_with('-'));
            is_value = takes_next(word);
        }
        count
    }
}

/// Returns true if an option of `grep` can mean recursion.
fn descends(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => long.starts_with('r'),
        None => word.starts_with('-') && word.contains('r'),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn knows(line: &str) -> bool {
        let mut words = line.split(' ');
        let program = words.next().and_then(ReadingProgram::find).unwrap();
        words.all(|word| program.knows(word))
    }

    #[test]
    fn rows_are_sorted_and_name_programs_that_cannot_act() {
        assert!(READING_PROGRAMS.is_sorted_by(|one, other| one.name < other.name));
        for program in &READING_PROGRAMS {
            assert!(governance::rules::is_read_only_program(program.name), "{}", program.name);
            let is_option = |c: char| c.is_ascii_alphanumeric();
            assert!(program.flags.chars().chain(program.flags_with_value.chars()).all(is_option));
            assert!(!program.flags.contains(|c| program.flags_with_value.contains(c)), "{}", program.name);
        }
    }

    #[test]
    fn usual_options_are_known() {
        for line in [
            "cat -n -- a",
            "cut -d, -f 1-3 a",
            "du -sh src",
            "du --max-depth=1 -h src",
            "grep -rn x src",
            "grep -rnA3 x src",
            "grep -m 5 --include=a -e x src",
            "head -5 a",
            "head -n -5 a",
            "ls -la --color=never",
            "md5sum a",
            "stat -c %s a",
            "tail -n +5 a",
            "wc -l a -",
        ] {
            assert!(knows(line), "{line}");
        }
    }

    #[test]
    fn options_that_read_more_are_unknown() {
        for line in [
            "cksum -c list",
            "cksum --check list",
            "md5sum -c list",
            "sha1sum -bc list",
            "sha256sum --check list",
            "sha256sum --c list",
            "wc --files0-from=list",
            "wc --fi=list",
            "du --files0-from list",
            "du -L src",
            "du -sD src",
            "du -X list",
            "du --deref src",
            "du --dereference-args src",
            "ls -RL src",
            "ls -H src",
            "grep -R x src",
            "grep -nR x src",
            "grep -f list x",
            "grep -9 x a",
            "grep -z x a",
            "grep --file=list x",
            "grep --dereference-recursive x src",
            "grep --directories=recurse x src",
            "grep --filter=a:b x a",
            "grep --rec x src",
            "tail -f a",
            "tail --follow=name a",
            "stat --cached=never a",
            "cat --unknown a",
            "cat -x a",
        ] {
            assert!(!knows(line), "{line}");
        }
        for program in ["sort", "jq", "/bin/ls", "./ls", "git", ""] {
            assert!(ReadingProgram::find(program).is_none(), "{program}");
        }
    }
}
