//! Matching of forbidding rules: the program under any path or version, and the rule's words anywhere after
//! it.

use super::CommandRule;
use super::readings::{Readings, last_name};

/// Longest option that may be a group of single letters. Longer options with one dash are names, as in `find
/// -exec`.
const MOST_LETTERS: usize = 2;

impl CommandRule {
    /// Returns true if one of the readings of a command contains what the rule forbids.
    pub(super) fn forbids(&self, said: &Readings) -> bool {
        let Some((programs, wanted)) = self.words.split_first() else { return true };
        if said.are_unreadable() {
            return true;
        }
        let programs: Vec<String> =
            programs.iter().map(|known| last_name(known, said.file_names()).into_owned()).collect();
        let is_meant = |name: &str| programs.iter().any(|known| is_same_program(name, known));
        // A git alias can stand for any git command, so a rule about one git command also forbids aliases.
        let is_of_git = !wanted.is_empty() && is_meant("git");
        said.behind(&is_meant).any(|rest| are_given(wanted, rest)) || (is_of_git && said.give_git_an_alias())
    }
}

/// Returns true if all wanted words are present: options in any order and form, the other words in their
/// order.
fn are_given(wanted: &[Vec<String>], rest: &[String]) -> bool {
    let mut ordered = rest.iter();
    wanted.iter().all(|choice| {
        choice.iter().any(|word| is_option_given(word, rest)) || ordered.any(|word| choice.contains(word))
    })
}

fn is_option_given(wanted: &str, rest: &[String]) -> bool {
    let Some(letters) = wanted.strip_prefix('-') else { return false };
    if letters.starts_with('-') {
        return rest.iter().any(|word| is_short_for(word, wanted));
    }
    let of_word = |word: &&String| word.starts_with('-') && !word.starts_with("--");
    let given: String = rest.iter().filter(of_word).map(String::as_str).collect();
    let can_be_joined = (1..=MOST_LETTERS).contains(&letters.chars().count());
    rest.iter().any(|word| word == wanted)
        || (can_be_joined && letters.chars().all(|letter| given.contains(letter)))
}

/// Returns true if a word is the wanted long option. Programs accept an abbreviated name and a value after
/// `=`.
fn is_short_for(word: &str, wanted: &str) -> bool {
    let parts = |text: &str| match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    };
    let ((name, value), (wanted, wanted_value)) = (parts(word), parts(wanted));
    name.len() > 2 && wanted.starts_with(&name) && (wanted_value.is_none() || wanted_value == value)
}

/// Returns true if two names may mean one program: they are equal, or one has a version suffix
/// (`python3.11`).
fn is_same_program(name: &str, known: &str) -> bool {
    let version = name.strip_prefix(known).or_else(|| known.strip_prefix(name).filter(|_| !name.is_empty()));
    version.is_some_and(|version| version.is_empty() || is_version(version))
}

/// Returns true for digits and dots, with an optional leading `-` or `.`.
fn is_version(text: &str) -> bool {
    let numbers = text.strip_prefix(['-', '.']).unwrap_or(text);
    numbers.starts_with(|c: char| c.is_ascii_digit())
        && numbers.chars().all(|c| c.is_ascii_digit() || c == '.')
}
