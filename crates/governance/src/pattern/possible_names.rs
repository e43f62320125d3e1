//! Finds components of patterns that can match no name: no entry of a folder is called `.`, `..` or nothing, and
//! no name is longer than file systems allow. Escapes, classes and braces can spell such a component too.

/// Longest name of a file on the supported systems.
pub(super) const MAX_NAME_BYTES: usize = 255;

/// Texts that the characters read so far match, reduced to what decides whether one of them is a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PossibleNames {
    /// True at 0, 1 and 2 if the empty text, `.` and `..` are among them.
    dots: [bool; 3],
    /// Length in bytes of the shortest other text.
    shortest: Option<usize>,
}

impl PossibleNames {
    /// Reads a component of a pattern that is valid otherwise. Braces may be nested.
    pub(super) fn of(component: &str) -> Self {
        let mut names = PossibleNames { dots: [true, false, false], shortest: None };
        // Names before each open brace, and those of its alternatives so far.
        let mut open: Vec<(Self, Self)> = Vec::new();
        let mut chars = component.chars();
        while let Some(c) = chars.next() {
            match c {
                '{' => open.push((names, PossibleNames::default())),
                ',' if !open.is_empty() => {
                    if let Some((before, alternatives)) = open.last_mut() {
                        *alternatives = alternatives.or(names);
                        names = *before;
                    }
                }
                '}' => names = open.pop().map_or(names, |(_, alternatives)| alternatives.or(names)),
                '[' => names = names.then(class_example(&mut chars)),
                '\\' => names = chars.next().map_or(names, |escaped| names.then(escaped)),
                '*' => names = names.or(names.then('x')),
                '?' => names = names.then('x'),
                c => names = names.then(c),
            }
        }
        names
    }

    /// Returns the number of bytes of the shortest text that is neither empty nor `.` nor `..`, if there is one.
    pub(super) fn shortest(self) -> Option<usize> {
        self.shortest
    }

    /// Adds one character.
    fn then(self, c: char) -> Self {
        let [empty, one_dot, two_dots] = self.dots;
        let longer = |bytes: usize| bytes.saturating_add(c.len_utf8());
        if c == '.' {
            let others = [self.shortest, two_dots.then_some(2)];
            let shortest = others.into_iter().flatten().min().map(longer);
            return PossibleNames { dots: [false, empty, one_dot], shortest };
        }
        let all = [self.shortest, self.dots.iter().position(|possible| *possible)];
        PossibleNames { dots: [false; 3], shortest: all.into_iter().flatten().min().map(longer) }
    }

    /// Adds the texts of an alternative.
    fn or(self, other: Self) -> Self {
        let dots = std::array::from_fn(|count| {
            [self.dots, other.dots].iter().any(|dots| dots.get(count).is_some_and(|possible| *possible))
        });
        let shortest = [self.shortest, other.shortest].into_iter().flatten().min();
        PossibleNames { dots, shortest }
    }
}

/// Reads a character class after its `[`, and returns a character that it matches: a dot only if it matches
/// nothing else.
fn class_example(chars: &mut std::str::Chars<'_>) -> char {
    let mut members = String::new();
    // A `]` in first position is a literal.
    while let Some(c) = chars.next().filter(|c| *c != ']' || members.is_empty()) {
        members.push(c);
    }
    let only_dots = members.starts_with('.') && members.replace("-.", ".").chars().all(|c| c == '.');
    if only_dots { '.' } else { 'x' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_name_of_a_component_is_found() {
        for (component, expect) in [
            ("a", Some(1)),
            ("é", Some(2)),
            ("*", Some(1)),
            ("**", Some(1)),
            ("?", Some(1)),
            (".*", Some(2)),
            ("..?", Some(3)),
            ("...", Some(3)),
            (".{,a}", Some(2)),
            ("{.,{..,b}}", Some(1)),
            ("{,.}{,.}{,.}", Some(3)),
            ("[.a]", Some(1)),
            ("[]]", Some(1)),
            ("[.-]", Some(1)),
            ("[-.]", Some(1)),
            (r"\*", Some(1)),
            (",", Some(1)),
            ("", None),
            (".", None),
            ("..", None),
            (r"\.", None),
            (r".\.", None),
            ("[.]", None),
            ("[..]", None),
            ("[.-.][.]", None),
            ("{}", None),
            ("{,}", None),
            ("{.,..}", None),
            ("{,{.,}}{,.}", None),
        ] {
            assert_eq!(PossibleNames::of(component).shortest(), expect, "{component}");
        }
    }
}
