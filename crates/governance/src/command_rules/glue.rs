//! Names with a character before them that may be a part of a name, and is none here: `-sudo` in a recipe of make's, `+sudo`
//! in Perl, whatever Perl and Ruby are given as a quote (`qx.sudo.`, `%x-sudo-`), and what a shell has for a variable that is not
//! set (`${x-sudo}`).
//!
//! A `.` before a name is mostly the end of a file's (`*.sh`), and counts only as such a quote.

use std::collections::BTreeSet;

use super::readings::is_sign;

/// Prefixes of quotes in Perl, then in Ruby.
const QUOTES: &[&str] = &["q", "qq", "qr", "qw", "qx", "m", "%", "%q", "%Q", "%w", "%W", "%x"];

/// Those of Perl's that hold two texts, with a mark between them.
const QUOTES_OF_TWO: &[&str] = &["s", "y", "tr"];

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

/// Returns true if a word is split at this character: at every character that cannot be part of a name, and
/// at a `+`.
pub(super) fn is_glue(c: char) -> bool {
    is_sign(c) || c == '+'
}

/// The words without the marks of such quotes, each with a space in their place. Nothing if there are none.
pub(super) fn without_marks(words: &[String]) -> Option<Vec<String>> {
    let bare: Vec<String> = words.iter().map(|word| unmarked(word)).collect();
    (bare != words).then_some(bare)
}

fn unmarked(word: &str) -> String {
    let mut marks = defaults(word);
    // Marks that do not come again: each is looked for in vain once, however long the word is.
    let mut gone = BTreeSet::new();
    for (at, _) in word.match_indices(['q', '%', 'm', 's', 'y', 't']) {
        let Some(quote) = opened(word, at).filter(|quote| !gone.contains(&(quote.mark, quote.texts))) else {
            continue;
        };
        let behind = word.get(quote.open + 1..).unwrap_or_default();
        let ends: Vec<usize> = behind.match_indices(quote.mark).take(quote.texts).map(|(at, _)| at).collect();
        if ends.len() == quote.texts {
            marks.extend(ends.into_iter().map(|end| quote.open + 1 + end).chain([quote.open]));
        } else {
            gone.insert((quote.mark, quote.texts));
        }
    }
    let shown = |(at, c): (usize, char)| if marks.contains(&at) { ' ' } else { c };
    word.char_indices().map(shown).collect()
}

/// Offsets of each `-` within `${…}`, which a shell follows with the default value of a variable. The other
/// signs there split a word anyway.
fn defaults(word: &str) -> BTreeSet<usize> {
    let (mut depth, mut before, mut found) = (0_usize, ' ', BTreeSet::new());
    for (at, c) in word.char_indices() {
        match c {
            '{' if before == '$' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '-' if depth > 0 => drop(found.insert(at)),
            _ => {}
        }
        before = c;
    }
    found
}

/// A quote that is opened somewhere.
struct Quote {
    open: usize,
    mark: char,
    /// Number of texts in the quote, each followed by a delimiter.
    texts: usize,
}

/// The quote that begins here. Any other sign than these parts a word anyway.
fn opened(word: &str, at: usize) -> Option<Quote> {
    let (before, here) = word.split_at_checked(at)?;
    let names = QUOTES.iter().map(|name| (*name, 1)).chain(QUOTES_OF_TWO.iter().map(|name| (*name, 2)));
    let (name, texts) =
        names.filter(|(name, _)| here.starts_with(name)).max_by_key(|(name, _)| name.len())?;
    let behind = here.strip_prefix(name)?;
    let mark = behind.trim_start();
    let is_spaced = mark.len() < behind.len();
    let open = at + here.len() - mark.len();
    let mark = mark.chars().next().filter(char::is_ascii)?;
    let is_perls = !name.starts_with('%');
    let may_open = |mark: char| match mark {
        '-' | '+' | '.' => true,
        // `s_x_sudo_` is a script for sed, which starts nothing by it.
        '_' => name.starts_with(['q', '%']),
        _ => false,
    };
    let is_quote = if is_spaced { is_perls } else { may_open(mark) };
    let is_inside = is_perls && before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    (is_quote && !is_inside).then_some(Quote { open, mark, texts })
}
