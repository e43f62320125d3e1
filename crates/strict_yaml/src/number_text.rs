//! Text that the typed parser would read as a number: quoted digits, digit separators, other bases. Each of these has
//! another meaning in another parser, so it is a type error where a number is expected.
//!
//! The typed parser does not tell which scalars it converted. So each suspicious scalar is masked by letters and the
//! document is parsed again: where text is expected nothing changes, and where a number is expected it fails there.

use crate::node::{YamlNode, YamlNodeKind};

/// Position of a scalar: line and column from 1.
type ScalarPosition = (u64, u64);

/// Returns the document with masked scalars, and their positions and texts. `None` if there is nothing to mask.
pub(crate) fn mask(text: &str, tree: &YamlNode) -> Option<(String, Vec<(ScalarPosition, String)>)> {
    let mut found = Vec::new();
    collect(tree, &mut found);
    if found.is_empty() {
        return None;
    }
    let mut lines: Vec<Vec<char>> = text.split('\n').map(|line| line.chars().collect()).collect();
    for ((line, column), value) in &found {
        let index = |number: &u64| usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(line) = lines.get_mut(index(line)) else { continue };
        let rest = line.iter_mut().skip(index(column));
        // A quote comes first, if there is one.
        rest.skip_while(|at| ['"', '\''].contains(at)).take(value.chars().count()).for_each(|at| *at = 'x');
    }
    let lines: Vec<String> = lines.into_iter().map(String::from_iter).collect();
    Some((lines.join("\n"), found))
}

fn collect(node: &YamlNode, found: &mut Vec<(ScalarPosition, String)>) {
    match &node.kind {
        YamlNodeKind::Text(text) if is_number_like(text) => {
            found.push(((node.line, node.column), text.clone()));
        }
        YamlNodeKind::List(items) => items.iter().for_each(|item| collect(item, found)),
        YamlNodeKind::Mapping(entries) => entries.iter().for_each(|(_, value)| collect(value, found)),
        YamlNodeKind::Text(_) | YamlNodeKind::Number(..) | YamlNodeKind::Boolean(_) | YamlNodeKind::Null => {}
    }
}

/// Returns true if some parser reads the text as a number.
fn is_number_like(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.chars().all(|c| c.is_ascii_hexdigit() || "_xob.eE+-infNaAN".contains(c))
}
