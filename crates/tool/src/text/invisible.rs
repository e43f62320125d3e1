//! Characters that a screen interprets, hides or shows as space: one list for all text that is shown to
//! people.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Returns true for controls, format characters, spaces other than U+0020, unassigned and private code
/// points, combining marks, and letters without a glyph of their own.
///
/// All marks count, not only nonspacing ones: programs disagree about the width of a mark, and a mark that
/// one program draws with zero width pushes the following text off the screen of another.
pub fn is_invisible(c: char) -> bool {
    !c.is_ascii_graphic() && c != ' ' && (has_invisible_category(c) || has_no_glyph(c))
}

fn has_invisible_category(c: char) -> bool {
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

/// Returns true for letters and symbols that are blank or drawn into the preceding character: the vowels and
/// final consonants of Hangul syllables, fillers, the empty Braille cell, the musical note without a head.
fn has_no_glyph(c: char) -> bool {
    matches!(u32::from(c), 0x115f..=0x11ff | 0x2800 | 0x3164 | 0xd7b0..=0xd7ff | 0xffa0 | 0x1d159)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_and_invisible_characters_are_distinguished() {
        let unseen = "\0\u{1b}\r\n\t\u{7f}\u{9b}\u{a0}\u{ad}\u{301}\u{200b}\u{202e}\u{2028}\u{2800}\u{3000}\u{fe0f}\u{feff}\
                      \u{e0041}\u{10ffff}\u{9be}\u{302e}\u{1d165}\u{378}\u{2fe0}\u{5b0}\u{e31}\u{1161}\u{3164}\u{d7b0}\u{e000}";
        for c in unseen.chars() {
            assert!(is_invisible(c), "{c:?}");
        }
        for c in " aZ~é日🙂→…한яא".chars() {
            assert!(!is_invisible(c), "{c:?}");
        }
    }
}
