//! Finite set of component names that represents all component names for a set of patterns.
//!
//! A name is decided by the patterns that it matches. For each combination of patterns that some name matches, the set
//! has a name that matches the same sought patterns and no more avoided ones. So a search with these names finds what
//! a search with all names would find.

use std::collections::{BTreeSet, HashSet, VecDeque};

use governance::rules::{NameRelevance, SearchedPattern};

use super::Incomplete;
use super::component_pattern::ComponentPattern;

/// Most states of the search for combinations of patterns.
const MAX_STATES: usize = 50_000;
/// Longest name that is tried for patterns of `?` alone.
const MAX_UNSPECIFIC_LENGTH: usize = 16;
/// Characters for names that no pattern knows, in order of preference.
const FRESH: &str = "xyzwvqkjupbonmlihgfedcatsr0123456789XYZWVQKJ_\u{3bb}\u{436}\u{4e2d}";

/// Patterns of one component, each with its relevance.
#[derive(Default)]
struct ComponentPatterns {
    wildcards: Vec<(ComponentPattern, NameRelevance)>,
    literals: BTreeSet<(String, bool)>,
    /// Literals of patterns that are sought.
    sought: BTreeSet<String>,
}

/// Returns the names.
pub(super) fn representatives(patterns: &[SearchedPattern]) -> Result<Vec<String>, Incomplete> {
    let patterns = ComponentPatterns::new(patterns)?;
    let mut names: Vec<String> = patterns.fresh_names()?;
    for name in &patterns.sought {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    for name in patterns.wildcard_names()? {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

impl ComponentPatterns {
    fn new(patterns: &[SearchedPattern]) -> Result<Self, Incomplete> {
        let mut found = ComponentPatterns::default();
        let components: BTreeSet<(&str, bool, bool)> = patterns
            .iter()
            .flat_map(|pattern| {
                let is_sought = pattern.relevance == NameRelevance::Sought;
                pattern.text.split('/').map(move |part| (part, pattern.is_folded, is_sought))
            })
            .filter(|(part, ..)| !matches!(*part, "" | "*" | "**"))
            .collect();
        for (component, is_folded, is_sought) in components {
            let alternatives = ComponentPattern::parse(component, is_folded).ok_or_else(|| {
                Incomplete(format!("the pattern `{component}` has too many alternatives to enumerate"))
            })?;
            for pattern in alternatives {
                match pattern.literal() {
                    Some(literal) if matches!(literal.as_str(), "" | "." | "..") => {}
                    Some(literal) => {
                        if is_sought {
                            found.sought.insert(literal.clone());
                        }
                        found.literals.insert((literal, is_folded));
                    }
                    None if pattern.matches_everything() => {}
                    None => {
                        let relevance =
                            if is_sought { NameRelevance::Sought } else { NameRelevance::Avoided };
                        found.wildcards.push((pattern, relevance));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns names that match only patterns of `*` and `?`, one of each length that these can tell apart.
    fn fresh_names(&self) -> Result<Vec<String>, Incomplete> {
        let lengths = self.wildcards.iter().filter_map(|(pattern, _)| pattern.unspecific_length());
        let longest = lengths.max().unwrap_or(0) + 1;
        if longest > MAX_UNSPECIFIC_LENGTH {
            return Err(Incomplete("a pattern has too many `?` to enumerate".to_owned()));
        }
        let is_known = |name: &str| {
            let in_wildcard = |(pattern, _): &(ComponentPattern, NameRelevance)| {
                pattern.unspecific_length().is_none() && pattern.matches(name)
            };
            self.literals.iter().any(|(literal, _)| literal.eq_ignore_ascii_case(name))
                || self.wildcards.iter().any(in_wildcard)
        };
        let of_length = |length: usize| {
            let mut names = FRESH.chars().map(|character| String::from_iter(vec![character; length]));
            names.find(|name| !is_known(name))
        };
        let names: Option<Vec<String>> = (1..=longest).map(of_length).collect();
        names.ok_or_else(|| Incomplete("the patterns name every letter".to_owned()))
    }

    /// Returns a name for each combination of patterns that includes a sought pattern with wildcards. Of the avoided
    /// patterns only those take part that a name would match otherwise: without a match there is nothing to avoid.
    fn wildcard_names(&self) -> Result<Vec<String>, Incomplete> {
        let (sought, avoided): (Vec<_>, Vec<_>) =
            self.wildcards.iter().partition(|(_, relevance)| *relevance == NameRelevance::Sought);
        let sought: Vec<ComponentPattern> = sought.into_iter().map(|(pattern, _)| pattern.clone()).collect();
        if sought.is_empty() {
            return Ok(Vec::new());
        }
        let (mut patterns, mut others) = (sought.clone(), Vec::new());
        others.extend(avoided.into_iter().map(|(pattern, _)| pattern.clone()));
        for (literal, is_folded) in &self.literals {
            let escaped: String = literal.chars().flat_map(|one| ['\\', one]).collect();
            let literals = ComponentPattern::parse(&escaped, *is_folded).into_iter().flatten();
            if self.sought.contains(literal) { patterns.extend(literals) } else { others.extend(literals) }
        }
        loop {
            let names = enumerate(&patterns, sought.len())?;
            let is_matched = |pattern: &ComponentPattern| names.iter().any(|name| pattern.matches(name));
            let (matched, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_matched);
            if matched.is_empty() {
                return Ok(names);
            }
            patterns.extend(matched);
            others = rest;
        }
    }
}

/// Set of positions in patterns, sorted.
type PatternState = Vec<(usize, usize)>;

/// Returns a shortest name for each combination of patterns with one of the first `wanted` ones.
fn enumerate(patterns: &[ComponentPattern], wanted: usize) -> Result<Vec<String>, Incomplete> {
    let alphabet = alphabet(patterns);
    let mut start = PatternState::new();
    for (number, pattern) in patterns.iter().enumerate() {
        pattern.close(0, &mut |position| start.push((number, position)));
    }
    let mut queue = VecDeque::from([(start, String::new())]);
    let (mut seen, mut combinations, mut names) = (HashSet::new(), HashSet::new(), Vec::new());
    while let Some((state, name)) = queue.pop_front() {
        let is_reserved = matches!(name.as_str(), "" | "." | "..");
        let matched: Vec<usize> = state
            .iter()
            .filter(|(number, position)| patterns.get(*number).is_some_and(|one| one.len() == *position))
            .map(|(number, _)| *number)
            .collect();
        let is_wanted = matched.iter().any(|number| *number < wanted);
        if !is_reserved && is_wanted && combinations.insert(matched) {
            names.push(name.clone());
        }
        for character in &alphabet {
            let next = next_state(patterns, &state, *character);
            let name = format!("{name}{character}");
            let is_reserved = matches!(name.as_str(), "." | "..");
            let may_be_wanted = next.iter().any(|(number, _)| *number < wanted);
            if may_be_wanted && seen.insert((next.clone(), is_reserved)) {
                if seen.len() > MAX_STATES {
                    return Err(Incomplete("too many patterns with wildcards to enumerate".to_owned()));
                }
                queue.push_back((next, name));
            }
        }
    }
    Ok(names)
}

fn next_state(patterns: &[ComponentPattern], state: &PatternState, character: char) -> PatternState {
    let mut next = PatternState::new();
    for (number, position) in state {
        let Some(pattern) = patterns.get(*number) else { continue };
        if let Some(position) = pattern.next(*position, character) {
            pattern.close(position, &mut |position| next.push((*number, position)));
        }
    }
    next.sort_unstable();
    next.dedup();
    next
}

/// Returns one character of each kind that the patterns can tell apart. The dot is the last one, so that a name is not
/// `.` or `..` where another one would do.
fn alphabet(patterns: &[ComponentPattern]) -> Vec<char> {
    let printable = (' '..='~').filter(|character| !matches!(character, '/' | '.'));
    let named = patterns.iter().flat_map(ComponentPattern::literal_characters);
    let named = named.filter(|character| !character.is_ascii());
    let mut seen = HashSet::new();
    let candidates = FRESH.chars().chain(printable).chain(named).chain(['.']);
    let is_new = |character: &char| {
        let mut signature = vec![*character == '.'];
        patterns.iter().for_each(|pattern| pattern.signature(*character, &mut signature));
        seen.insert(signature)
    };
    candidates.filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sought: &[&str], avoided: &[&str]) -> Vec<String> {
        let of = |list: &[&str], relevance| {
            let one =
                move |text: &&str| SearchedPattern { text: format!("/{text}"), is_folded: false, relevance };
            list.iter().map(one).collect::<Vec<_>>()
        };
        let patterns = [of(sought, NameRelevance::Sought), of(avoided, NameRelevance::Avoided)].concat();
        let mut names = representatives(&patterns).unwrap();
        names.sort();
        names
    }

    #[test]
    fn names_stand_for_each_combination_of_patterns() {
        assert_eq!(names(&["a"], &["b"]), ["a", "x"]);
        assert_eq!(names(&[], &["x"]), ["y"]);
        assert_eq!(names(&[], &["?"]), ["x", "xx"]);
        // The only name of the sought pattern that is not avoided.
        assert_eq!(names(&["[ab]"], &["a"]), ["b", "x"]);
        assert_eq!(names(&["*.pem"], &["a*"]), [".pem", "x"]);
        assert_eq!(names(&["*.pem"], &[".pem", "x*"]), [".pem", "x.pem", "y", "y.pem"]);
        assert_eq!(names(&["[.]?"], &[]), [".x", "x"]);
    }
}
