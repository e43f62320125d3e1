//! Index of the patterns of a list by text, to find the patterns that cover another one. It avoids comparing
//! every pair in a long list.

use std::collections::HashMap;

use governance::rules::{ListPurpose, ListedPattern, PathPattern};

/// Patterns of a list, indexed by their texts.
pub(super) struct CoverIndex<'w> {
    list: &'w [ListedPattern],
    purpose: ListPurpose,
    by_text: HashMap<String, Vec<usize>>,
}

impl<'w> CoverIndex<'w> {
    pub(super) fn new(list: &'w [ListedPattern], purpose: ListPurpose) -> Self {
        let mut by_text: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, written) in list.iter().enumerate() {
            by_text.entry(written.pattern.to_string()).or_default().push(at);
        }
        CoverIndex { list, purpose, by_text }
    }

    /// Returns the patterns that cover `narrow`, with their positions, in list order.
    pub(super) fn covering(&self, narrow: &PathPattern) -> impl Iterator<Item = (usize, &'w ListedPattern)> {
        let mut places: Vec<usize> = covering_texts(&narrow.to_string())
            .iter()
            .filter_map(|text| self.by_text.get(text))
            .flatten()
            .copied()
            .collect();
        places.sort_unstable();
        places.dedup();
        let covers: Vec<(usize, &'w ListedPattern)> = places
            .into_iter()
            .filter_map(|at| Some((at, self.list.get(at)?)))
            .filter(|(_, wide)| wide.pattern.covers(narrow, self.purpose))
            .collect();
        covers.into_iter()
    }
}

/// Returns every text that a covering pattern can have: its own text, a folder above it, one of its name
/// parts anywhere, or a pattern that matches everything.
fn covering_texts(narrow: &str) -> Vec<String> {
    let mut texts: Vec<String> = ["/", "/**", "/**/*", "/**/**"].map(str::to_owned).into();
    let ends = narrow.match_indices('/').map(|(at, _)| at).skip(1).chain([narrow.len()]);
    for above in ends.filter_map(|end| narrow.get(..end)) {
        texts.extend([above.to_owned(), format!("{above}/**")]);
    }
    texts.extend(narrow.split('/').filter(|part| !part.is_empty()).map(|name| format!("/**/{name}")));
    texts
}
