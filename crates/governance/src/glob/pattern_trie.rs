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
use smallvec::SmallVec;

use super::simple_component::SimpleComponent;
use crate::pattern::{PatternError, has_wildcard};

/// Number of regular expressions that are compiled into one set.
const REGEXES_PER_SET: usize = 64;
/// Active nodes of a lookup. Most names have few, and then a lookup allocates nothing: a judgement looks names up in many
/// tries.
type ActiveNodes = SmallVec<[usize; 16]>;
/// Maximum number of components with wildcards per node, because each of them adds to the cost of every
/// lookup.
const MAX_WILDCARD_CHILDREN: usize = 10_000;

/// Expression for `?` as `globset` writes it, which matches one byte; and the replacement, which matches one
/// character.
const ONE_BYTE: &str = "[^/]";
const ONE_CHARACTER: &str = "(?u:[^/])";

/// Compiled trie of patterns.
#[derive(Clone, Debug)]
pub(crate) struct PatternTrie {
    nodes: Vec<TrieNode>,
}

/// Position of a name in a trie. Two names at the same position match a pattern of the trie with the same
/// continuations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TriePosition {
    active: ActiveNodes,
    /// True if a pattern matches the name and everything below it.
    covers_all_below: bool,
}

impl TriePosition {
    /// Returns true if no pattern matches the name or anything below it.
    pub(crate) fn is_dead(&self) -> bool {
        !self.covers_all_below && self.active.is_empty()
    }
}

/// Builder of a trie. It has no lookup, because its regular expressions are not compiled yet.
pub(crate) struct PatternTrieBuilder {
    nodes: Vec<TrieNodeBuilder>,
}

/// Node of the trie, for a common prefix of patterns.
#[derive(Clone, Debug, Default)]
struct TrieNode {
    /// Children for literal components.
    literal: LiteralChildren,
    /// Child for `*`.
    any_component: Option<usize>,
    /// Child for a `**` that is not the last component.
    any_depth: Option<usize>,
    /// True if this node is the child for a `**`: every component leads back to it.
    is_any_depth: bool,
    /// Children for simple components with wildcards.
    simple: Vec<(SimpleComponent, usize)>,
    /// Regular expressions of the other components, and the child for each.
    regex_sets: Vec<(RegexSet, Vec<usize>)>,
    /// First pattern that ends here, and first pattern that matches everything below.
    pattern_here: Option<usize>,
    pattern_below: Option<usize>,
}

/// Node under construction.
#[derive(Default)]
struct TrieNodeBuilder {
    node: TrieNode,
    literal: HashMap<Box<[u8]>, usize>,
    wildcard: HashMap<String, usize>,
}

/// Literal components and their children, sorted by length, which is enough to distinguish most of them.
///
/// A lookup does not hash the components that a caller chose.
#[derive(Clone, Debug, Default)]
struct LiteralChildren(Box<[(Box<[u8]>, usize)]>);

impl LiteralChildren {
    fn from_map(names: HashMap<Box<[u8]>, usize>) -> Self {
        let mut sorted: Vec<_> = names.into_iter().collect();
        sorted.sort_unstable_by(|(one, _), (other, _)| by_length(one, other));
        LiteralChildren(sorted.into())
    }

    fn get(&self, part: &[u8]) -> Option<usize> {
        let found = self.0.binary_search_by(|(name, _)| by_length(name, part)).ok()?;
        self.0.get(found).map(|(_, behind)| *behind)
    }
}

fn by_length(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

impl PatternTrieBuilder {
    pub(crate) fn new() -> Self {
        PatternTrieBuilder { nodes: vec![TrieNodeBuilder::default()] }
    }

    /// Adds a pattern under a number.
    pub(crate) fn add(&mut self, text: &str, number: usize) -> Result<(), PatternError> {
        let glob = glob_builder(text).build();
        glob.map_err(|error| invalid_pattern(&error.kind().to_string()))?;
        let mut parts = text.split('/').filter(|part| !part.is_empty()).peekable();
        let mut at = 0;
        while let Some(part) = parts.next() {
            if part == "**" && parts.peek().is_none() {
                self.record_pattern(at, number, |node| &mut node.pattern_below);
                return Ok(());
            }
            at = self.child(at, part)?;
        }
        self.record_pattern(at, number, |node| &mut node.pattern_here);
        Ok(())
    }

    fn record_pattern(
        &mut self,
        at: usize,
        number: usize,
        place: impl Fn(&mut TrieNode) -> &mut Option<usize>,
    ) {
        if let Some(sapling) = self.nodes.get_mut(at) {
            let known = place(&mut sapling.node);
            *known = Some(known.map_or(number, |known| known.min(number)));
        }
    }

    /// Returns the child for a component, and creates it if it does not exist.
    fn child(&mut self, at: usize, part: &str) -> Result<usize, PatternError> {
        let next = self.nodes.len();
        let Some(from) = self.nodes.get_mut(at) else {
            return Err(invalid_pattern("internal error: unknown node"));
        };
        let found = match part {
            "*" => *from.node.any_component.get_or_insert(next),
            "**" => *from.node.any_depth.get_or_insert(next),
            part if has_wildcard(part)
                && from.wildcard.len() >= MAX_WILDCARD_CHILDREN
                && !from.wildcard.contains_key(part) =>
            {
                return Err(too_many_wildcards());
            }
            part if has_wildcard(part) => *from.wildcard.entry(part.to_owned()).or_insert(next),
            part => *from.literal.entry(part.as_bytes().into()).or_insert(next),
        };
        if found == next {
            let node = TrieNode { is_any_depth: part == "**", ..TrieNode::default() };
            self.nodes.push(TrieNodeBuilder { node, ..TrieNodeBuilder::default() });
        }
        Ok(found)
    }

    /// Compiles the regular expressions and returns the trie.
    pub(crate) fn build(self) -> Result<PatternTrie, PatternError> {
        Ok(PatternTrie {
            nodes: self.nodes.into_iter().map(TrieNodeBuilder::build).collect::<Result<_, _>>()?,
        })
    }
}

impl TrieNodeBuilder {
    fn build(self) -> Result<TrieNode, PatternError> {
        let mut node = TrieNode { literal: LiteralChildren::from_map(self.literal), ..self.node };
        let mut left = Vec::new();
        for (part, behind) in self.wildcard {
            match SimpleComponent::parse(&part) {
                Some(plain) => node.simple.push((plain, behind)),
                None => left.push((part, behind)),
            }
        }
        for together in left.chunks(REGEXES_PER_SET) {
            let leads = together.iter().map(|(_, behind)| *behind).collect();
            node.regex_sets.push((compile_regex_set(together)?, leads));
        }
        Ok(node)
    }
}

impl TrieNode {
    /// Adds the children that a component leads to without a regular expression.
    fn push_children(&self, (at, part): (usize, &[u8]), next: &mut ActiveNodes) {
        let mut leads = |behind: Option<usize>| {
            if let Some(behind) = behind {
                next.push(behind);
            }
        };
        leads(self.literal.get(part));
        leads(self.any_component);
        leads(self.is_any_depth.then_some(at));
        for (compared, behind) in &self.simple {
            leads(compared.matches(part).then_some(*behind));
        }
    }
}

impl PatternTrie {
    /// Returns a trie without patterns.
    pub(super) fn empty() -> Self {
        PatternTrie { nodes: Vec::new() }
    }

    /// Returns the number of sets of regular expressions.
    #[cfg(test)]
    pub(crate) fn regex_set_count(&self) -> usize {
        self.nodes.iter().map(|node| node.regex_sets.len()).sum()
    }

    /// Returns the smallest number among the patterns that match a name.
    pub(crate) fn first_match(&self, name: &[u8]) -> Option<usize> {
        let mut found: Option<usize> = None;
        let (mut active, mut next) = (ActiveNodes::from_elem(0, 1), ActiveNodes::new());
        self.add_any_depth(&mut active);
        for part in name.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            found = lower(found, self.enter_component(part, &active, &mut next));
            std::mem::swap(&mut active, &mut next);
            next.clear();
            if active.is_empty() {
                return found;
            }
        }
        lower(found, self.pattern_at(&active))
    }

    /// Adds the nodes that a component leads to, and returns the smallest number among the patterns that match
    /// everything below the active nodes.
    fn enter_component(&self, part: &[u8], active: &[usize], next: &mut ActiveNodes) -> Option<usize> {
        let mut found = None;
        for (at, node) in self.nodes_at(active) {
            found = lower(found, node.pattern_below);
            node.push_children((at, part), next);
            if node.regex_sets.is_empty() {
                continue;
            }
            let characters = replace_invalid_utf8(part);
            for (set, behind) in &node.regex_sets {
                next.extend(
                    set.matches(&characters).into_iter().filter_map(|which| behind.get(which).copied()),
                );
            }
        }
        self.add_any_depth(next);
        found
    }

    /// Returns the smallest number among the patterns that end at the active nodes.
    fn pattern_at(&self, active: &[usize]) -> Option<usize> {
        self.nodes_at(active).fold(None, |found, (_, node)| lower(found, node.pattern_here))
    }

    /// Returns the position of the name `/`.
    pub(crate) fn start(&self) -> TriePosition {
        let mut active = ActiveNodes::from_elem(0, usize::from(!self.nodes.is_empty()));
        self.add_any_depth(&mut active);
        TriePosition { active, covers_all_below: false }
    }

    /// Returns the position of a name with one more component.
    pub(crate) fn enter(&self, from: &TriePosition, part: &str) -> TriePosition {
        let mut active = ActiveNodes::new();
        let below = self.enter_component(part.as_bytes(), &from.active, &mut active);
        if from.covers_all_below || below.is_some() {
            return TriePosition { active: ActiveNodes::new(), covers_all_below: true };
        }
        TriePosition { active, covers_all_below: false }
    }

    /// Returns true if a pattern matches the name at a position.
    pub(crate) fn matches_at(&self, position: &TriePosition) -> bool {
        position.covers_all_below || self.pattern_at(&position.active).is_some()
    }

    fn nodes_at<'t>(&'t self, active: &'t [usize]) -> impl Iterator<Item = (usize, &'t TrieNode)> {
        active.iter().filter_map(|at| self.nodes.get(*at).map(|node| (*at, node)))
    }

    /// Adds the children for `**` of the active nodes, because `**` may match no component. Removes
    /// duplicates.
    fn add_any_depth(&self, active: &mut ActiveNodes) {
        let mut next_index = 0;
        while let Some(at) = active.get(next_index).copied() {
            if let Some(deeper) = self.nodes.get(at).and_then(|node| node.any_depth) {
                active.push(deeper);
            }
            next_index += 1;
        }
        if active.len() > 1 {
            active.sort_unstable();
            active.dedup();
        }
    }
}

/// Returns the lower number, if there is one.
fn lower(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Returns a builder that accepts empty alternatives, so that `key{,.bak}` also matches `key`.
fn glob_builder(text: &str) -> GlobBuilder<'_> {
    let mut builder = GlobBuilder::new(text);
    builder.literal_separator(true).empty_alternates(true);
    builder
}

fn compile_regex_set(parts: &[(String, usize)]) -> Result<RegexSet, PatternError> {
    let globs = parts.iter().map(|(part, _)| glob_builder(part).build());
    let globs: Vec<Glob> =
        globs.collect::<Result<_, _>>().map_err(|error| invalid_pattern(&error.kind().to_string()))?;
    let set = RegexSetBuilder::new(globs.iter().map(character_regex)).dot_matches_new_line(true).build();
    set.map_err(|error| invalid_pattern(&error.to_string()))
}

/// Returns the regular expression of a component with `?` as one character. `*` may still match bytes.
fn character_regex(glob: &Glob) -> String {
    let wide = glob.regex().replace(ONE_BYTE, ONE_CHARACTER);
    wide.replace(&format!("{ONE_CHARACTER}*"), &format!("{ONE_BYTE}*"))
}

/// Replaces each byte of a component that is not valid UTF-8 by one replacement character.
fn replace_invalid_utf8(part: &[u8]) -> Cow<'_, [u8]> {
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

fn invalid_pattern(why: &str) -> PatternError {
    PatternError { message: format!("the pattern is not valid: {why}"), suggestion: None }
}

fn too_many_wildcards() -> PatternError {
    PatternError {
        message: format!(
            "a list has more than {MAX_WILDCARD_CHILDREN} patterns with wildcards in names of one folder"
        ),
        suggestion: Some("list the whole folder, or list its files without wildcards".to_owned()),
    }
}
