//! Trie of path patterns with one level per path component, so that the cost of a lookup grows with the depth
//! of the name and not with the number of patterns.
//!
//! A literal component is found in a table, `*` and `**` are separate edges, a simple component (`*.md`) is
//! compared byte by byte, and only the others (`[ab]?`) are matched by a regular expression.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use globset::{Glob, GlobBuilder};
use regex::bytes::{RegexSet, RegexSetBuilder};

use super::part::PlainPart;
use crate::pattern::{BadPattern, is_wild};

/// Number of regular expressions that are compiled into one set.
const TOGETHER: usize = 64;
/// Initial capacity for the active nodes of a lookup, enough for most names.
const USUAL_PLACES: usize = 16;
/// Maximum number of components with wildcards per node, because each of them adds to the cost of every
/// lookup.
const MOST_WILD: usize = 10_000;

/// Expression for `?` as `globset` writes it, which matches one byte; and the replacement, which matches one
/// character.
const BYTE: &str = "[^/]";
const CHARACTER: &str = "(?u:[^/])";

/// Compiled trie of patterns.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

/// Builder of a trie. It has no lookup, because its regular expressions are not compiled yet.
pub(crate) struct TreeBuilder {
    nodes: Vec<Sapling>,
}

/// Node of the trie, for a common prefix of patterns.
#[derive(Debug, Default)]
struct Node {
    /// Children for literal components.
    plain: Names,
    /// Child for `*`.
    any: Option<usize>,
    /// Child for a `**` that is not the last component.
    deep: Option<usize>,
    /// True if this node is the child for a `**`: every component leads back to it.
    stays: bool,
    /// Children for simple components with wildcards.
    compared: Vec<(PlainPart, usize)>,
    /// Regular expressions of the other components, and the child for each.
    sets: Vec<(RegexSet, Vec<usize>)>,
    /// First pattern that ends here, and first pattern that matches everything below.
    here: Option<usize>,
    below: Option<usize>,
}

/// Node under construction.
#[derive(Default)]
struct Sapling {
    node: Node,
    plain: HashMap<Box<[u8]>, usize>,
    wild: HashMap<String, usize>,
}

/// Literal components and their children, sorted by length, which is enough to distinguish most of them.
///
/// A lookup does not hash the components that a caller chose.
#[derive(Debug, Default)]
struct Names(Box<[(Box<[u8]>, usize)]>);

impl Names {
    fn of(names: HashMap<Box<[u8]>, usize>) -> Self {
        let mut sorted: Vec<_> = names.into_iter().collect();
        sorted.sort_unstable_by(|(one, _), (other, _)| by_length(one, other));
        Names(sorted.into())
    }

    fn get(&self, part: &[u8]) -> Option<usize> {
        let found = self.0.binary_search_by(|(name, _)| by_length(name, part)).ok()?;
        self.0.get(found).map(|(_, behind)| *behind)
    }
}

fn by_length(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

impl TreeBuilder {
    pub(crate) fn new() -> Self {
        TreeBuilder { nodes: vec![Sapling::default()] }
    }

    /// Adds a pattern under a number.
    pub(crate) fn add(&mut self, text: &str, number: usize) -> Result<(), BadPattern> {
        let glob = glob_builder(text).build();
        glob.map_err(|error| bad(&error.kind().to_string()))?;
        let mut parts = text.split('/').filter(|part| !part.is_empty()).peekable();
        let mut at = 0;
        while let Some(part) = parts.next() {
            if part == "**" && parts.peek().is_none() {
                self.keep(at, number, |node| &mut node.below);
                return Ok(());
            }
            at = self.behind(at, part)?;
        }
        self.keep(at, number, |node| &mut node.here);
        Ok(())
    }

    fn keep(&mut self, at: usize, number: usize, place: impl Fn(&mut Node) -> &mut Option<usize>) {
        if let Some(sapling) = self.nodes.get_mut(at) {
            let known = place(&mut sapling.node);
            *known = Some(known.map_or(number, |known| known.min(number)));
        }
    }

    /// Returns the child for a component, and creates it if it does not exist.
    fn behind(&mut self, at: usize, part: &str) -> Result<usize, BadPattern> {
        let next = self.nodes.len();
        let Some(from) = self.nodes.get_mut(at) else { return Err(bad("internal error: unknown node")) };
        let found = match part {
            "*" => *from.node.any.get_or_insert(next),
            "**" => *from.node.deep.get_or_insert(next),
            part if is_wild(part) && from.wild.len() >= MOST_WILD && !from.wild.contains_key(part) => {
                return Err(too_many());
            }
            part if is_wild(part) => *from.wild.entry(part.to_owned()).or_insert(next),
            part => *from.plain.entry(part.as_bytes().into()).or_insert(next),
        };
        if found == next {
            let node = Node { stays: part == "**", ..Node::default() };
            self.nodes.push(Sapling { node, ..Sapling::default() });
        }
        Ok(found)
    }

    /// Compiles the regular expressions and returns the trie.
    pub(crate) fn build(self) -> Result<Tree, BadPattern> {
        Ok(Tree { nodes: self.nodes.into_iter().map(Sapling::grow).collect::<Result<_, _>>()? })
    }
}

impl Sapling {
    fn grow(self) -> Result<Node, BadPattern> {
        let mut node = Node { plain: Names::of(self.plain), ..self.node };
        let mut left = Vec::new();
        for (part, behind) in self.wild {
            match PlainPart::of(&part) {
                Some(plain) => node.compared.push((plain, behind)),
                None => left.push((part, behind)),
            }
        }
        for together in left.chunks(TOGETHER) {
            let leads = together.iter().map(|(_, behind)| *behind).collect();
            node.sets.push((expressions(together)?, leads));
        }
        Ok(node)
    }
}

impl Node {
    /// Adds the children that a component leads to without a regular expression.
    fn go_on(&self, (at, part): (usize, &[u8]), next: &mut Vec<usize>) {
        let mut leads = |behind: Option<usize>| {
            if let Some(behind) = behind {
                next.push(behind);
            }
        };
        leads(self.plain.get(part));
        leads(self.any);
        leads(self.stays.then_some(at));
        for (compared, behind) in &self.compared {
            leads(compared.matches(part).then_some(*behind));
        }
    }
}

impl Tree {
    /// Returns a trie without patterns.
    pub(super) fn empty() -> Self {
        Tree { nodes: Vec::new() }
    }

    /// Returns the number of sets of regular expressions.
    #[cfg(test)]
    pub(crate) fn expressions(&self) -> usize {
        self.nodes.iter().map(|node| node.sets.len()).sum()
    }

    /// Returns the smallest number among the patterns that match a name.
    pub(crate) fn first(&self, name: &[u8]) -> Option<usize> {
        let mut found: Option<usize> = None;
        let mut take = |number: Option<usize>| {
            if let Some(number) = number {
                found = Some(found.map_or(number, |found| found.min(number)));
            }
        };
        // Two lists that are swapped, so that a lookup allocates only twice: a judgement looks names up in
        // many tries.
        let (mut places, mut next) = (Vec::with_capacity(USUAL_PLACES), Vec::with_capacity(USUAL_PLACES));
        places.push(0);
        self.go_deeper(&mut places);
        for part in name.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            for (at, node) in self.at(&places) {
                take(node.below);
                node.go_on((at, part), &mut next);
                if node.sets.is_empty() {
                    continue;
                }
                let characters = characters(part);
                for (set, behind) in &node.sets {
                    next.extend(set.matches(&characters).into_iter().filter_map(|which| behind.get(which)));
                }
            }
            self.go_deeper(&mut next);
            std::mem::swap(&mut places, &mut next);
            next.clear();
            if places.is_empty() {
                return found;
            }
        }
        self.at(&places).for_each(|(_, node)| take(node.here));
        found
    }

    fn at<'t>(&'t self, places: &'t [usize]) -> impl Iterator<Item = (usize, &'t Node)> {
        places.iter().filter_map(|at| self.nodes.get(*at).map(|node| (*at, node)))
    }

    /// Adds the children for `**` of the active nodes, because `**` may match no component. Removes
    /// duplicates.
    fn go_deeper(&self, places: &mut Vec<usize>) {
        let mut looked = 0;
        while let Some(at) = places.get(looked).copied() {
            if let Some(deeper) = self.nodes.get(at).and_then(|node| node.deep) {
                places.push(deeper);
            }
            looked += 1;
        }
        if places.len() > 1 {
            places.sort_unstable();
            places.dedup();
        }
    }
}

/// Returns a builder that accepts empty alternatives, so that `key{,.bak}` also matches `key`.
fn glob_builder(text: &str) -> GlobBuilder<'_> {
    let mut builder = GlobBuilder::new(text);
    builder.literal_separator(true).empty_alternates(true);
    builder
}

fn expressions(parts: &[(String, usize)]) -> Result<RegexSet, BadPattern> {
    let globs = parts.iter().map(|(part, _)| glob_builder(part).build());
    let globs: Vec<Glob> = globs.collect::<Result<_, _>>().map_err(|error| bad(&error.kind().to_string()))?;
    let set = RegexSetBuilder::new(globs.iter().map(of_characters)).dot_matches_new_line(true).build();
    set.map_err(|error| bad(&error.to_string()))
}

/// Returns the regular expression of a component with `?` as one character. `*` may still match bytes.
fn of_characters(glob: &Glob) -> String {
    let wide = glob.regex().replace(BYTE, CHARACTER);
    wide.replace(&format!("{CHARACTER}*"), &format!("{BYTE}*"))
}

/// Replaces each byte of a component that is not valid UTF-8 by one replacement character.
fn characters(part: &[u8]) -> Cow<'_, [u8]> {
    if str::from_utf8(part).is_ok() {
        return Cow::Borrowed(part);
    }
    let mut text = String::new();
    for chunk in part.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text.into_bytes())
}

fn bad(why: &str) -> BadPattern {
    BadPattern { message: format!("the pattern is not valid: {why}"), suggestion: None }
}

fn too_many() -> BadPattern {
    BadPattern {
        message: format!("a list has more than {MOST_WILD} patterns with wildcards in names of one folder"),
        suggestion: Some("list the whole folder, or list its files without wildcards".to_owned()),
    }
}
