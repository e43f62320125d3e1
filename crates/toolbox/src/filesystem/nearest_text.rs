//! Finds the lines of a text that are most similar to a piece that is not in it, for the hint of a failed
//! edit.

/// Lines that are compared. Later lines of a longer text are not considered.
const MAX_COMPARED_LINES: usize = 20_000;
/// Characters of a line that are compared.
const MAX_COMPARED_CHARS: usize = 200;
/// Characters shown of the lines.
const MAX_SHOWN_CHARS: usize = 1000;
/// Lowest similarity that counts as similar.
const MIN_SIMILARITY: f64 = 0.5;

pub(super) struct NearestLines {
    pub(super) first_line: usize,
    pub(super) last_line: usize,
    pub(super) text: String,
}

/// Returns the lines most similar to the piece, as many as it has.
pub(super) fn nearest_lines(text: &str, piece: &str) -> Option<NearestLines> {
    let wanted: Vec<&str> = piece.lines().map(line_start).collect();
    let lines: Vec<&str> = text.lines().take(MAX_COMPARED_LINES).collect();
    let anchor = wanted.iter().position(|line| !line.trim().is_empty())?;
    let similarity = |at: usize| {
        let first =
            strsim::normalized_levenshtein(line_start(lines.get(at)?).trim(), wanted.get(anchor)?.trim());
        Some((at, first))
    };
    let alike = (0..lines.len()).filter_map(similarity).filter(|(_, alike)| *alike >= MIN_SIMILARITY);
    // Among lines with a similar start, the position with the most identical following lines wins.
    let same_after = |at: usize| {
        let here = lines.iter().skip(at.saturating_sub(anchor)).zip(&wanted);
        here.filter(|(line, wanted)| line_start(line).trim() == wanted.trim()).count()
    };
    let (at, _) = alike.max_by(|(one, alike), (other, as_alike)| {
        let score = |at: usize, alike: f64| same_after(at) as f64 + alike;
        // On a tie the earlier position wins.
        score(*one, *alike).total_cmp(&score(*other, *as_alike)).then(other.cmp(one))
    })?;
    let first = at.saturating_sub(anchor);
    let shown: Vec<&str> = lines.iter().skip(first).take(wanted.len()).copied().collect();
    let last_line = first + shown.len();
    Some(NearestLines {
        first_line: first + 1,
        last_line,
        text: tool::text::shorten(&shown.join("\n"), MAX_SHOWN_CHARS).into_owned(),
    })
}

fn line_start(line: &str) -> &str {
    line.char_indices().nth(MAX_COMPARED_CHARS).map_or(line, |(at, _)| line.get(..at).unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_similar_lines_are_found() {
        let check = |text: &str, piece: &str, expect: Option<(usize, usize)>| {
            let found = nearest_lines(text, piece).map(|near| (near.first_line, near.last_line));
            assert_eq!(found, expect, "{piece:?}");
        };
        check("alpha\nbeta\ngamma\n", "betta", Some((2, 2)));
        check("if a {\n  x\n}\nif a {\n  y\n}\n", "if a {\n   y\n}", Some((4, 6)));
        check("one\n", "completely different", None);
        check("", "x", None);
        check("x\n", "\n\n", None);
        check("\n  first\nsecond\n", "\nfirst\nsecund", Some((1, 3)));
    }

    #[test]
    fn long_texts_are_compared_within_bounds() {
        let text = "some line of text that is rather long\n".repeat(50_000);
        assert!(nearest_lines(&text, &"x".repeat(10_000)).is_none());
        let long = "y".repeat(100_000);
        assert!(nearest_lines(&long, &long).unwrap().text.len() <= MAX_SHOWN_CHARS + 10);
    }
}
