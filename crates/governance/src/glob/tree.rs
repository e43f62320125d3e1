//! Patterns as a tree of the parts between their slashes, so that a name is looked up part by part: what a judgement costs
//! grows with the depth of a name and not with the number of patterns. A plain part is found in a table, `*` and `**` are
//! edges of their own, a part that letters can tell (`*.md`) is compared, and only what is left (`[ab]?`) is matched by an
//! expression.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use globset::{Glob, GlobBuilder};
use regex::bytes::{RegexSet, RegexSetBuilder};

use super::part::PlainPart;
use crate::pattern::{BadPattern, is_wild};

/// Expressions that are compiled together.
const TOGETHER: usize = 64;
/// As many places as most names are at, at once.
const USUAL_PLACES: usize = 16;
/// Parts with wildcards of their own that one folder may have: each costs every judgement a little.
const MOST_WILD: usize = 10_000;

/// One byte, as an expression of `globset` has it for a `?`; and one character, which is what a reader means.
const BYTE: &str = "[^/]";
const CHARACTER: &str = "(?u:[^/])";

/// A tree that is asked.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

/// A tree under construction: nobody can ask it before its expressions are compiled.
pub(crate) struct TreeBuilder {
    nodes: Vec<Sapling>,
}

/// A place in the tree: what all patterns that lead here have in common.
#[derive(Debug, Default)]
struct Node {
    /// Behind plain parts.
    plain: Names,
    /// Behind a `*`.
    any: Option<usize>,
    /// Behind a `**` that more follows.
    deep: Option<usize>,
    /// Whether this is such a place: any part leads back to it.
    stays: bool,
    /// Behind parts with other wildcards, those that are compared.
    compared: Vec<(PlainPart, usize)>,
    /// The expressions of the rest, and where each of them leads.
    sets: Vec<(RegexSet, Vec<usize>)>,
    /// The first pattern that ends here, and the first that takes everything below.
    here: Option<usize>,
    below: Option<usize>,
}

/// A place that patterns are still added to.
#[derive(Default)]
struct Sapling {
    node: Node,
    plain: HashMap<Box<[u8]>, usize>,
    wild: HashMap<String, usize>,
}

/// Plain parts and where each of them leads, in the order of their lengths: most are told apart by that alone. No part that
/// a caller makes up is hashed.
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

    /// Adds a pattern by its text, with the number it is known by.
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

    /// The place behind a part, made if there is none yet.
    fn behind(&mut self, at: usize, part: &str) -> Result<usize, BadPattern> {
        let next = self.nodes.len();
        let Some(from) = self.nodes.get_mut(at) else { return Err(bad("it leads nowhere")) };
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

    /// Compiles what is left to compile.
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
    /// Adds where a part leads from here, as far as no expression has to say so.
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
    /// One without patterns.
    pub(super) fn empty() -> Self {
        Tree { nodes: Vec::new() }
    }

    /// How many of its parts only an expression can match.
    #[cfg(test)]
    pub(crate) fn expressions(&self) -> usize {
        self.nodes.iter().map(|node| node.sets.len()).sum()
    }

    /// The smallest number of the patterns that match a name.
    pub(crate) fn first(&self, name: &[u8]) -> Option<usize> {
        let mut found: Option<usize> = None;
        let mut take = |number: Option<usize>| {
            if let Some(number) = number {
                found = Some(found.map_or(number, |found| found.min(number)));
            }
        };
        // Two lists that change places, so that a judgement, which looks names up in many trees, asks for memory twice.
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

    /// Adds to the places those behind a `**`, which may be no part at all. Each of them once.
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

/// `{,.bak}` is also nothing: whoever writes it means the name without as well.
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

/// The expression of a part with a character for each `?`. What a `*` stands for may stay bytes.
fn of_characters(glob: &Glob) -> String {
    let wide = glob.regex().replace(BYTE, CHARACTER);
    wide.replace(&format!("{CHARACTER}*"), &format!("{BYTE}*"))
}

/// A part of a name in characters: of bytes that are none, each counts as one.
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
    BadPattern { message: format!("the pattern cannot be read: {why}"), suggestion: None }
}

fn too_many() -> BadPattern {
    BadPattern {
        message: format!(
            "a list has more than {MOST_WILD} patterns with wildcards within a name in one folder"
        ),
        suggestion: Some("forbid or allow the folder, or name what is in it plainly".to_owned()),
    }
}
