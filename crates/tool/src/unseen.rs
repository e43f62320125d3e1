//! Which characters a screen acts on, hides, or takes for space: one list for everything that is shown to a person.

/// Controls, format characters, whatever is ignored by default, spaces that are not the space, marks that are drawn over
/// their neighbours, and code points that belong to nobody.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || (c != ' ' && c.is_whitespace())
        || matches!(u32::from(c),
            0xad | 0x300..=0x36f | 0x483..=0x489 | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2
            | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff
            | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x20d0..=0x20ff | 0x2800 | 0x3164
            | 0xd800..=0xf8ff | 0xfdd0..=0xfdef | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f | 0xfeff | 0xffa0
            | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0x110bd | 0x110cd | 0x13430..=0x1345f | 0x1bca0..=0x1bca3
            | 0x1d159 | 0x1d173..=0x1d17a | 0xe0000..=0x10_ffff)
        || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_seen_is_told_from_what_cannot() {
        for c in "\0\u{1b}\r\n\t\u{7f}\u{9b}\u{a0}\u{ad}\u{301}\u{200b}\u{202e}\u{2028}\u{2800}\u{3000}\u{fe0f}\u{feff}\u{e0041}\u{10ffff}"
            .chars()
        {
            assert!(is_unseen(c), "{c:?}");
        }
        for c in " aZ~é日🙂→…".chars() {
            assert!(!is_unseen(c), "{c:?}");
        }
    }
}
