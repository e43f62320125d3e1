//! Words as a program reads them that gives `\n`, `\x0a` or `\012` a meaning: awk, printf, a shell's `$'…'`.

/// The longest number behind a `\` in the base of eight, with and without a zero before it: programs differ.
const LONGEST_OCTAL: [usize; 2] = [3, 4];

/// The words with each escape as the character that it stands for, once for each way to read it. Nothing if there is none.
pub(super) fn meant(words: &[String]) -> Vec<Vec<String>> {
    if !words.iter().any(|word| word.contains('\\')) {
        return Vec::new();
    }
    let ways = LONGEST_OCTAL
        .map(|longest| -> Vec<String> { words.iter().map(|word| unescaped(word, longest)).collect() });
    let [first, second] = ways;
    if first == second { vec![first] } else { vec![first, second] }
}

/// Several `\` count as one: each program on the way takes its own.
fn unescaped(word: &str, longest_octal: usize) -> String {
    let mut text = String::with_capacity(word.len());
    let mut pieces = word.split('\\');
    text.extend(pieces.next());
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        let (character, rest) = escape(piece, longest_octal);
        text.extend(character);
        text.push_str(rest);
    }
    text
}

/// The character that stands behind a `\`, and what follows it.
fn escape(piece: &str, longest_octal: usize) -> (Option<char>, &str) {
    let mut chars = piece.chars();
    let Some(first) = chars.next() else { return (None, "") };
    let rest = chars.as_str();
    match first {
        'n' | 'r' | 't' | 'v' | 'f' | 'a' | 'b' | 'e' | 'E' => (Some('\n'), rest),
        // A key together with the control key.
        'c' if !rest.is_empty() => (Some('\n'), rest.get(1..).unwrap_or_default()),
        'x' | 'X' => number(rest, 16, 2).unwrap_or((Some(first), rest)),
        'u' => number(rest, 16, 4).unwrap_or((Some(first), rest)),
        'U' => number(rest, 16, 8).unwrap_or((Some(first), rest)),
        '0'..='7' => {
            let longest = if first == '0' { longest_octal } else { 3 };
            number(piece, 8, longest).unwrap_or((Some(first), rest))
        }
        _ => (Some(first), rest),
    }
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
