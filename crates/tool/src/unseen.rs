//! Which characters a screen acts on, hides, or takes for space: one list for everything that is shown to a person.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Controls, format characters, spaces that are not the space, code points that belong to nobody, marks that are drawn
/// over their neighbours, and letters that have no shape of their own.
///
/// Every mark, not only those that are drawn over something: programs disagree about how wide a mark is, and what one
/// takes for nothing pushes what follows it off another's screen.
pub fn is_unseen(c: char) -> bool {
    !c.is_ascii_graphic() && c != ' ' && (is_of_unseen_kind(c) || is_shapeless(c))
}

fn is_of_unseen_kind(c: char) -> bool {
    use GeneralCategory as Kind;
    matches!(
        get_general_category(c),
        Kind::Control
            | Kind::Format
            | Kind::Surrogate
            | Kind::PrivateUse
            | Kind::Unassigned
            | Kind::NonspacingMark
            | Kind::SpacingMark
            | Kind::EnclosingMark
            | Kind::SpaceSeparator
            | Kind::LineSeparator
            | Kind::ParagraphSeparator
    )
}

/// Letters and symbols that leave their place empty or are drawn into the one before them: the vowels and final
/// consonants of Hangul syllables, fillers, the empty Braille cell, the note without a head.
fn is_shapeless(c: char) -> bool {
    matches!(u32::from(c), 0x115f..=0x11ff | 0x2800 | 0x3164 | 0xd7b0..=0xd7ff | 0xffa0 | 0x1d159)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_seen_is_told_from_what_cannot() {
        let unseen = "\0\u{1b}\r\n\t\u{7f}\u{9b}\u{a0}\u{ad}\u{301}\u{200b}\u{202e}\u{2028}\u{2800}\u{3000}\u{fe0f}\u{feff}\
                      \u{e0041}\u{10ffff}\u{9be}\u{302e}\u{1d165}\u{378}\u{2fe0}\u{5b0}\u{e31}\u{1161}\u{3164}\u{d7b0}\u{e000}";
        for c in unseen.chars() {
            assert!(is_unseen(c), "{c:?}");
        }
        for c in " aZ~é日🙂→…한яא".chars() {
            assert!(!is_unseen(c), "{c:?}");
        }
    }
}
