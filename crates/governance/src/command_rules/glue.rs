//! Names with a character before them that may be a part of a name, and is none here: `-sudo` in a recipe of make's, `+sudo`
//! in Perl, and whatever Perl and Ruby are given as a quote (`qx.sudo.`, `%x-sudo-`).
//!
//! A `.` before a name is mostly the end of a file's (`*.sh`), and counts only as such a quote.

use std::collections::BTreeSet;

use super::readings::is_sign;

/// What a quote of Perl's begins with, then one of Ruby's.
const QUOTES: &[&str] = &["q", "qq", "qw", "qx", "%", "%q", "%Q", "%w", "%W", "%x"];

/// Quotes, behind which a `-` belongs to what they hold.
const HOLD: &[char] = &['\'', '"', '\\'];

/// The words within the words, each without the `-` and `+` that begin it behind a sign.
pub(super) fn without(words: &[String], ends: impl Fn(char) -> bool + Copy) -> Vec<String> {
    words.iter().flat_map(|word| parts(word, ends)).collect()
}

fn parts(word: &str, ends: impl Fn(char) -> bool + Copy) -> Vec<String> {
    let mut found = Vec::new();
    // The beginning of a word is that of an option; behind spaces alone one may stand as well.
    let mut is_behind_sign = false;
    for part in word.split_inclusive(ends) {
        let name = part.trim_end_matches(ends);
        let bare = if is_behind_sign { name.trim_start_matches(['-', '+']) } else { name };
        found.extend(Some(bare.to_owned()).filter(|bare| !bare.is_empty()));
        let is_sign = part.ends_with(|c: char| ends(c) && !c.is_whitespace() && !HOLD.contains(&c));
        is_behind_sign = is_sign || (is_behind_sign && bare.is_empty());
    }
    found
}

/// Whether a word is parted here: wherever no part of a name stands, and at a `+`.
pub(super) fn is_glue(c: char) -> bool {
    is_sign(c) || c == '+'
}

/// The words without the marks of such quotes, each with a space in their place. Nothing if there are none.
pub(super) fn without_marks(words: &[String]) -> Option<Vec<String>> {
    let bare: Vec<String> = words.iter().map(|word| unmarked(word)).collect();
    (bare != words).then_some(bare)
}

fn unmarked(word: &str) -> String {
    let mut marks = BTreeSet::new();
    // Marks that do not come again: each is looked for in vain once, however long the word is.
    let mut gone = BTreeSet::new();
    for (at, _) in word.match_indices(['q', '%']) {
        let Some((open, mark)) = opened(word, at).filter(|(_, mark)| !gone.contains(mark)) else { continue };
        match word.get(open + 1..).and_then(|text| text.find(mark)) {
            Some(length) => marks.extend([open, open + 1 + length]),
            None => drop(gone.insert(mark)),
        }
    }
    let shown = |(at, c): (usize, char)| if marks.contains(&at) { ' ' } else { c };
    word.char_indices().map(shown).collect()
}

/// Where the quote that begins here is opened, and by what. Any other sign than these parts a word anyway.
fn opened(word: &str, at: usize) -> Option<(usize, char)> {
    let (before, here) = word.split_at_checked(at)?;
    let name = QUOTES.iter().filter(|name| here.starts_with(**name)).max_by_key(|name| name.len())?;
    let behind = here.strip_prefix(name)?;
    let mark = behind.trim_start();
    let is_spaced = mark.len() < behind.len();
    let open = at + here.len() - mark.len();
    let mark = mark.chars().next().filter(char::is_ascii)?;
    let is_quote = if is_spaced { name.starts_with('q') } else { ['-', '+', '.', '_'].contains(&mark) };
    let is_inside = name.starts_with('q') && before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    (is_quote && !is_inside).then_some((open, mark))
}
