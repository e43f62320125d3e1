//! Every character is visible or escaped, and escaped text can be converted back.

use super::*;
use crate::schedule_rng::ScheduleRng;

/// Converts an escaped text back.
pub(crate) fn unescape(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            out.push(c);
            continue;
        }
        let kind = rest.chars().next().expect("an escape is complete");
        rest = &rest[kind.len_utf8()..];
        let braced = |rest: &str| rest.split_once('}').map(|(inside, _)| inside.to_owned()).expect("a brace");
        let char_of = |hex: &str| char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap();
        match kind {
            '\\' => out.push('\\'),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'u' => {
                let inside = braced(&rest[1..]);
                out.push(char_of(&inside));
                rest = &rest[inside.len() + 2..];
            }
            '{' => {
                let inside = braced(rest);
                let (hex, count) = inside.split_once('×').unwrap();
                out.extend(std::iter::repeat_n(char_of(hex), count.parse().unwrap()));
                rest = &rest[inside.len() + 1..];
            }
            other => panic!("unknown escape: \\{other}"),
        }
    }
    out
}

/// Returns true if a line has visible characters only.
pub(crate) fn is_visible(line: &str) -> bool {
    !line.chars().any(is_invisible)
}

fn check(text: &str, expect: &str) {
    assert_eq!(escape_for_display(text), expect);
    assert_eq!(unescape(expect), text);
}

#[test]
fn deceptive_characters_are_escaped() {
    check("plain text, é 日本 🙂", "plain text, é 日本 🙂");
    check("a\u{1b}[2K\rb\u{8}c\u{9b}1m", "a\\u{1b}[2K\\rb\\u{8}c\\u{9b}1m");
    check("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}");
    check("safe\u{202e}txt.exe", "safe\\u{202e}txt.exe");
    check("a\u{200b}b\u{e0041}c\u{fe0f}d\u{ad}", "a\\u{200b}b\\u{e0041}c\\u{fe0f}d\\u{ad}");
    check("a\u{a0}b\u{3000}c\u{2800}", "a\\u{a0}b\\u{3000}c\\u{2800}");
    check("e\u{301}", "e\\u{301}");
    check("C:\\new\\u{1b}", "C:\\\\new\\\\u{1b}");
    check("line\nnext\ttab", "line\\nnext\\ttab");
}

#[test]
fn long_padding_is_shown_as_a_count() {
    check("    indented", "    indented");
    check("a  b", "a  b");
    check(&format!("rm -rf ~{}# harmless", " ".repeat(10_000)), "rm -rf ~\\{20×10000}# harmless");
    check(&format!("x{}y", "\n".repeat(500)), "x\\{a×500}y");
    check("trailing  ", "trailing\\u{20}\\u{20}");
    check("   ", "\\u{20}\\u{20}\\u{20}");
    check(&format!("{}x", " ".repeat(65)), "\\{20×65}x");
}

#[test]
fn every_character_is_visible_or_escaped_reversibly() {
    // The upper planes are mostly unassigned, so samples are sufficient.
    let everything = (0..0x1_4000).chain((0x1_4000..=0x10_ffff).step_by(61)).filter_map(char::from_u32);
    for c in everything {
        for text in [format!("a{c}b"), format!("{c}{c}{c}{c}{c}")] {
            let line = escape_for_display(&text);
            assert!(is_visible(&line), "{:x}", u32::from(c));
            assert_eq!(unescape(&line), text, "{:x}", u32::from(c));
        }
    }
}

#[test]
fn any_mixture_can_be_converted_back() {
    let pieces =
        ["a", "\\", " ", "  ", "\n", "\u{1b}", "×", "{20×3}", "u{41}", "\\u{41}", "\u{202e}", "é", "}"];
    let mut dice = ScheduleRng::from_seed(1);
    for _ in 0..10_000 {
        let mut text = String::new();
        for _ in 0..12 {
            text.push_str(pieces[dice.next_below(pieces.len())]);
        }
        let line = escape_for_display(&text);
        assert!(is_visible(&line));
        assert_eq!(unescape(&line), text);
    }
}
