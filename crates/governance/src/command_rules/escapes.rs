//! Words as a program reads them that gives `\n`, `\x0a`, `\012` or `\L` a meaning: awk, printf, sed, Perl, a shell's `$'…'`.

/// The longest number behind a `\` in the base of eight, with and without a zero before it: programs differ.
const LONGEST_OCTAL: [usize; 2] = [3, 4];

/// Behind a `\`, what sed and Perl take for a change of case, its end, or nothing that is seen.
const CHANGES_OF_CASE: &[char] = &['L', 'U', 'l', 'u', 'E', 'F', 'Q'];

/// The words with each escape as the character that it stands for, once for each way to read it. Nothing if there is none.
pub(super) fn meant(words: &[String]) -> Vec<Vec<String>> {
    if !words.iter().any(|word| word.contains('\\')) {
        return Vec::new();
    }
    let read =
        |word: &dyn Fn(&str) -> String| -> Vec<String> { words.iter().map(|text| word(text)).collect() };
    let mut ways: Vec<_> =
        LONGEST_OCTAL.iter().map(|longest| read(&|word| unescaped(word, *longest, escape))).collect();
    if change_case(words) {
        let [longest, _] = LONGEST_OCTAL;
        let plain = read(&|word| unescaped(word, longest, without_case));
        ways.extend([plain.iter().map(|word| word.to_lowercase()).collect(), plain]);
    }
    ways.dedup();
    ways
}

/// Returns true if some of the letters may be meant in the other case.
pub(super) fn change_case(words: &[String]) -> bool {
    words.iter().any(|word| behind_marks(word).any(|piece| piece.starts_with(CHANGES_OF_CASE)))
}

/// Returns true if a character is given by name (`\N{LATIN SMALL LETTER S}`). There are too many names to
/// resolve them here, so such words may contain any text. Quotes may occur anywhere in it, because a shell
/// may remove them first.
pub(super) fn call_by_name(words: &[String]) -> bool {
    let is_named = |piece: &str| piece.starts_with("N{") && by_code(piece).is_none();
    words.iter().any(|word| behind_marks(&word.replace(['\'', '"'], "")).any(is_named))
}

/// Text after each `\`.
fn behind_marks(word: &str) -> impl Iterator<Item = &str> {
    word.split('\\').skip(1)
}

/// Several `\` count as one: each program on the way takes its own.
fn unescaped(
    word: &str,
    longest_octal: usize,
    escape: impl Fn(&str, usize) -> (Option<char>, &str),
) -> String {
    let mut text = String::with_capacity(word.len());
    text.extend(word.split('\\').next());
    for piece in behind_marks(word).filter(|piece| !piece.is_empty()) {
        let (character, rest) = escape(piece, longest_octal);
        text.extend(character);
        text.push_str(rest);
    }
    text
}

/// Like `escape`, but treats changes of case as no characters.
fn without_case(piece: &str, longest_octal: usize) -> (Option<char>, &str) {
    match piece.strip_prefix(CHANGES_OF_CASE) {
        Some(rest) => (None, rest),
        None => escape(piece, longest_octal),
    }
}

/// The character that stands behind a `\`, and what follows it.
fn escape(piece: &str, longest_octal: usize) -> (Option<char>, &str) {
    let mut chars = piece.chars();
    let Some(first) = chars.next() else { return (None, "") };
    let rest = chars.as_str();
    let found = match first {
        'n' | 'r' | 't' | 'v' | 'f' | 'a' | 'b' | 'e' | 'E' => Some((Some('\n'), rest)),
        // A key together with the control key.
        'c' if !rest.is_empty() => Some((Some('\n'), rest.get(1..).unwrap_or_default())),
        'x' | 'X' => number(rest, 16, 2),
        'u' => number(rest, 16, 4),
        'U' => number(rest, 16, 8),
        'o' => number(rest, 8, 3),
        'd' => number(rest, 10, 3),
        'N' => by_code(piece),
        '0' => number(piece, 8, longest_octal),
        '1'..='7' => number(piece, 8, 3),
        _ => None,
    };
    found.unwrap_or((Some(first), rest))
}

/// A character as Perl has it by its code: `N{U+73}`.
fn by_code(piece: &str) -> Option<(Option<char>, &str)> {
    let (digits, rest) = piece.strip_prefix("N{U+")?.split_once('}')?;
    Some((Some(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?), rest))
}

/// A character by its number, also between braces, and what follows it.
fn number(text: &str, base: u32, longest: usize) -> Option<(Option<char>, &str)> {
    let (digits, rest) = match text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        Some(between) => between,
        None => {
            let digits = text.chars().take(longest).take_while(|c| c.is_digit(base)).count();
            text.split_at_checked(digits)?
        }
    };
    let character = char::from_u32(u32::from_str_radix(digits, base).ok()?)?;
    Some((Some(character), rest))
}
