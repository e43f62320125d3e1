//! The ways in which a line of words can be read by who forbids: as it stands, and with what its words may hold.
//!
//! Text that a program builds by itself, out of variables, patterns or code, and text that it finds in a file
//! or receives on its input are not covered here.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{FOR_A_SHELL, editor, escapes, git, glue, quiet};
use crate::name::fold;
use crate::surroundings::FileNames;

/// Characters that a shell removes, so that the letters around them become one word.
const QUOTES: &[char] = &['\'', '"', '\\'];

/// Programs of which one command starts what follows it, with nothing in between: `1ereboot`.
const EDITORS: &[&str] = &["gsed", "sed"];

/// No file has a longer name.
const LONGEST_NAME: usize = 255;

/// One command, in every way it may be meant.
#[derive(Debug)]
pub(super) struct Readings {
    /// As it stands first, then with its words taken apart where a shell would.
    lines: Vec<Vec<String>>,
    /// Taken apart wherever a sign stands: too fine for the options of git to be told from their values.
    pieces: Vec<Vec<String>>,
    within: Within,
    names: FileNames,
    /// True if the words may contain any name at all.
    is_unreadable: bool,
}

/// Positions in a line where the name of a program is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    /// In the first place alone: nothing else is started.
    First,
    /// In every word, behind a sign, and behind the letters of options: `tar -xIzstd`.
    Words,
}

impl Readings {
    pub(super) fn of(command: &[String], names: FileNames) -> Self {
        let whole = command.to_vec();
        if quiet::starts_nothing(command, names) {
            let (lines, pieces, within) = (vec![whole], Vec::new(), Within::First);
            return Readings { lines, pieces, within, names, is_unreadable: false };
        }
        let names = if escapes::change_case(command) { FileNames::CaseInsensitive } else { names };
        let (mut lines, mut pieces) = (vec![whole], Vec::new());
        for words in texts(command) {
            let unquoted: Vec<String> = words.iter().map(|word| word.replace(QUOTES, "")).collect();
            lines.extend([parted(&words, is_for_a_shell), glue::without(&words, is_for_a_shell)]);
            pieces.extend([parted(&words, is_sign), glue::without(&words, glue::is_glue)]);
            if unquoted != words {
                lines.push(parted(&unquoted, is_for_a_shell));
            }
        }
        let speak = |known: &[&str]| {
            let mut words = lines.iter().flatten();
            words.any(|word| known.contains(&&*last_name(word, names)))
        };
        if speak(EDITORS) {
            pieces.push(with_scripts(&parted(command, |c| is_sign(c) || c == '/')));
        }
        for readings in [&mut lines, &mut pieces] {
            readings.dedup();
            let spelt: Vec<_> = readings.iter().filter_map(|line| git::spelt_out(line, names)).collect();
            readings.extend(spelt);
        }
        let is_unreadable = escapes::call_by_name(command);
        Readings { lines, pieces, within: Within::Words, names, is_unreadable }
    }

    /// Words after a matching program, in each reading. The words after a later match follow the first one as
    /// well.
    pub(super) fn behind(&self, is_meant: &dyn Fn(&str) -> bool) -> impl Iterator<Item = &[String]> {
        self.lines.iter().chain(&self.pieces).filter_map(move |line| {
            let reach = if self.within == Within::First { 1 } else { line.len() };
            let mut words = line.iter().take(reach);
            let at = words.position(|word| self.is_named(word, is_meant))?;
            line.get(at + 1..)
        })
    }

    /// Returns true if git is given a command anywhere that is not one of its own. Where nothing is started,
    /// the first word has none.
    pub(super) fn give_git_an_alias(&self) -> bool {
        let is_git = |word: &str| self.is_named(word, |name| name == "git");
        let mut lines = self.lines.iter();
        self.within != Within::First && lines.any(|line| git::is_given_an_alias(line, is_git))
    }

    /// Returns true if the words may contain any name at all, so that every rule matches.
    pub(super) fn are_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Comparison of program names in this line.
    pub(super) fn file_names(&self) -> FileNames {
        self.names
    }

    /// Returns true if one of the programs that a word may name matches.
    fn is_named(&self, word: &str, is_meant: impl Fn(&str) -> bool) -> bool {
        let last = word.rsplit('/').next().unwrap_or_default();
        let letters = last.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        let (behind_sign, most) = match self.within {
            Within::First => (None, 0),
            Within::Words => (last.rsplit(is_sign).next(), usize::MAX),
        };
        let is_short = |name: &&str| name.len() <= LONGEST_NAME;
        let behind_letters =
            letters.char_indices().skip(1).take(most).filter_map(|(at, _)| letters.get(at..));
        let mut all = [last].into_iter().chain(behind_sign).chain(behind_letters.filter(is_short));
        all.any(|name| is_meant(&last_name(name, self.names)))
    }
}

/// The words as they stand, as a program reads them that knows escapes or quotes of its own, and what an editor would start.
fn texts(command: &[String]) -> Vec<Vec<String>> {
    let mut texts = vec![command.to_vec()];
    texts.extend(escapes::meant(command));
    let unmarked: Vec<_> = texts.iter().filter_map(|words| glue::without_marks(words)).collect();
    texts.extend(unmarked);
    let by_editors: BTreeSet<String> = texts.iter().flat_map(|words| editor::started(words)).collect();
    for line in by_editors.into_iter().map(|line| vec![line]) {
        texts.extend(escapes::meant(&line));
        texts.push(line);
    }
    texts
}

/// The last part of a program's name, as the file system compares names.
pub(super) fn last_name(program: &str, names: FileNames) -> Cow<'_, str> {
    let last = program.rsplit('/').next().unwrap_or_default();
    match names {
        FileNames::CaseSensitive => Cow::Borrowed(last),
        FileNames::CaseInsensitive => Cow::Owned(fold(last)),
    }
}

pub(super) fn is_for_a_shell(c: char) -> bool {
    c.is_whitespace() || FOR_A_SHELL.contains(&c)
}

/// Whatever is no part of a program's name or path: a setting has its value behind a `=`, an address its program behind `::`.
pub(super) fn is_sign(c: char) -> bool {
    !c.is_alphanumeric() && !['/', '-', '_', '.', '+'].contains(&c)
}

/// The words within the words of a command.
fn parted(command: &[String], parts: impl Fn(char) -> bool + Copy) -> Vec<String> {
    let within = command.iter().flat_map(|word| word.split(parts));
    within.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The pieces of a script for an editor, each with what a command in front of it would start.
fn with_scripts(pieces: &[String]) -> Vec<String> {
    let started = |piece: &String| {
        let behind = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').strip_prefix('e')?;
        Some(behind.to_owned())
    };
    pieces.iter().flat_map(|piece| [Some(piece.clone()), started(piece)]).flatten().collect()
}
