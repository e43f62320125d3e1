//! The nearest known word to a misspelt one, for every "did you mean" of the project.

/// The one known word closest to `wanted`, if it is close enough to be a slip of the keyboard.
///
/// Two words equally close are no answer: a suggestion that may be wrong is worse than none.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = fold(wanted);
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut tied = false;
    for word in known {
        let distance = strsim::osa_distance(&wanted, &fold(word));
        if distance > limit {
            continue;
        }
        match best {
            Some((least, _)) if distance > least => {}
            Some((least, _)) if distance == least => tied = true,
            _ => (best, tied) = (Some((distance, word)), false),
        }
    }
    best.filter(|_| !tied).map(|(_, word)| word)
}

/// Case and the choice of separator are the commonest slips; they cost nothing here.
fn fold(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_refuses_to_guess() {
        let known = ["read_file", "write_file", "list_directory"];
        let check = |wanted, expect| assert_eq!(nearest(wanted, known), expect, "{wanted}");
        check("raed_file", Some("read_file"));
        check("ReadFile", Some("read_file"));
        check("list_dir", None);
        check("delete_everything", None);
        assert_eq!(nearest("ab", ["ac", "ad"]), None, "a tie is no answer");
    }
}
