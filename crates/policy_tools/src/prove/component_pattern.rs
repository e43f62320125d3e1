//! Pattern of one path component as a sequence of tokens, for the search for component names.
//!
//! The policy itself matches with its compiled lists; `component_names` uses this form only to enumerate names.

/// Token of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Literal(char),
    AnyCharacter,
    AnyText,
    /// Ranges of characters, with both ends.
    Class(Vec<(char, char)>),
}

/// Alternative of a component pattern, without braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComponentPattern {
    tokens: Vec<Token>,
    is_folded: bool,
}

/// Most alternatives of one component.
const MAX_ALTERNATIVES: usize = 1024;

impl ComponentPattern {
    /// Parses a component into its alternatives. `None` if there are too many.
    pub(super) fn parse(component: &str, is_folded: bool) -> Option<Vec<ComponentPattern>> {
        let characters: Vec<char> = component.chars().collect();
        let (alternatives, _) = parse_sequences(&characters, 0, false)?;
        Some(alternatives.into_iter().map(|tokens| ComponentPattern { tokens, is_folded }).collect())
    }

    /// Returns the text if the pattern has no wildcards.
    pub(super) fn literal(&self) -> Option<String> {
        let character = |token: &Token| match token {
            Token::Literal(character) => Some(*character),
            Token::AnyCharacter | Token::AnyText | Token::Class(_) => None,
        };
        self.tokens.iter().map(character).collect()
    }

    /// Returns true if the pattern matches every component.
    pub(super) fn matches_everything(&self) -> bool {
        !self.tokens.is_empty() && self.tokens.iter().all(|token| *token == Token::AnyText)
    }

    /// Returns the least number of characters if the pattern has only `*` and `?`.
    pub(super) fn unspecific_length(&self) -> Option<usize> {
        let length = |token: &Token| match token {
            Token::AnyText => Some(0),
            Token::AnyCharacter => Some(1),
            Token::Literal(_) | Token::Class(_) => None,
        };
        self.tokens.iter().map(length).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Adds the positions that are reached from a position without a character.
    pub(super) fn close(&self, mut position: usize, add: &mut impl FnMut(usize)) {
        add(position);
        while self.tokens.get(position) == Some(&Token::AnyText) {
            position += 1;
            add(position);
        }
    }

    /// Returns the position after a character.
    pub(super) fn next(&self, position: usize, character: char) -> Option<usize> {
        match self.tokens.get(position)? {
            Token::AnyText => Some(position),
            token => self.token_matches(token, character).then_some(position + 1),
        }
    }

    fn token_matches(&self, token: &Token, character: char) -> bool {
        let character = if self.is_folded { folded(character) } else { character };
        match token {
            Token::Literal(literal) => *literal == character,
            Token::AnyCharacter | Token::AnyText => true,
            Token::Class(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)),
        }
    }

    /// Returns true if the pattern matches a component.
    pub(super) fn matches(&self, component: &str) -> bool {
        let mut active = Vec::new();
        self.close(0, &mut |position| active.push(position));
        for character in component.chars() {
            let mut next = Vec::new();
            for position in active.iter().filter_map(|position| self.next(*position, character)) {
                self.close(position, &mut |position| next.push(position));
            }
            next.sort_unstable();
            next.dedup();
            active = next;
        }
        active.contains(&self.len())
    }

    /// Returns which tokens that name characters match a character, for comparison with other characters.
    pub(super) fn signature(&self, character: char, signature: &mut Vec<bool>) {
        let named = self.tokens.iter().filter(|token| matches!(token, Token::Literal(_) | Token::Class(_)));
        signature.extend(named.map(|token| self.token_matches(token, character)));
    }

    /// Returns the characters that the pattern names one by one.
    pub(super) fn literal_characters(&self) -> impl Iterator<Item = char> {
        self.tokens.iter().filter_map(|token| match token {
            Token::Literal(character) => Some(*character),
            Token::AnyCharacter | Token::AnyText | Token::Class(_) => None,
        })
    }
}

fn folded(character: char) -> char {
    character.to_lowercase().next().unwrap_or(character)
}

/// Parses alternatives up to the end, or up to the closing brace, and returns the position after them.
fn parse_sequences(characters: &[char], mut at: usize, in_braces: bool) -> Option<(Vec<Vec<Token>>, usize)> {
    let (mut finished, mut current): (Vec<Vec<Token>>, Vec<Vec<Token>>) = (Vec::new(), vec![Vec::new()]);
    while let Some(character) = characters.get(at).copied() {
        at += 1;
        let token = match character {
            '}' if in_braces => {
                finished.append(&mut current);
                return Some((finished, at));
            }
            ',' if in_braces => {
                finished.append(&mut current);
                current = vec![Vec::new()];
                continue;
            }
            '{' => {
                let (choices, after) = parse_sequences(characters, at, true)?;
                at = after;
                let joined = current.iter().flat_map(|start| {
                    choices.iter().map(move |choice| start.iter().chain(choice).cloned().collect())
                });
                current = joined.collect();
                if current.len() + finished.len() > MAX_ALTERNATIVES {
                    return None;
                }
                continue;
            }
            '*' => Token::AnyText,
            '?' => Token::AnyCharacter,
            '[' => {
                let (class, after) = parse_class(characters, at)?;
                at = after;
                class
            }
            '\\' => {
                at += 1;
                Token::Literal(*characters.get(at - 1)?)
            }
            other => Token::Literal(other),
        };
        current.iter_mut().for_each(|tokens| tokens.push(token.clone()));
    }
    finished.append(&mut current);
    (!in_braces).then_some((finished, at))
}

/// Parses a class after its `[`. Patterns have no negated classes, because they would match `/`.
fn parse_class(characters: &[char], start: usize) -> Option<(Token, usize)> {
    let rest = characters.get(start..)?;
    // A `]` in first position is a literal.
    let length = 1 + rest.iter().skip(1).position(|character| *character == ']')?;
    let (mut members, mut ranges) = (rest.get(..length)?, Vec::new());
    while let Some((first, others)) = members.split_first() {
        match others {
            ['-', last, after @ ..] => {
                ranges.push((*first, *last));
                members = after;
            }
            _ => {
                ranges.push((*first, *first));
                members = others;
            }
        }
    }
    Some((Token::Class(ranges), start + length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_match_as_in_a_policy() {
        for (pattern, names, others) in [
            ("*.pem", &[".pem", "a.pem"][..], &["pem", "a.pe"][..]),
            ("a?*", &["ab", "abc"], &["a", "b"]),
            ("{a,b{c,}}d", &["ad", "bcd", "bd"], &["d", "cd"]),
            ("[[]x[]]", &["[x]"], &["x"]),
            ("[a-c.]", &["b", "."], &["d"]),
            (r"[\]\*", &[r"\*"], &["*"]),
        ] {
            let found = ComponentPattern::parse(pattern, false).unwrap();
            let matches = |name: &str| found.iter().any(|one| one.matches(name));
            assert!(names.iter().all(|name| matches(name)), "{pattern}");
            assert!(!others.iter().any(|name| matches(name)), "{pattern}");
        }
    }
}
