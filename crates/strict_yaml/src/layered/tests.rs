//! Merge and rendering: cases by hand, and random layers for the laws.

use serde_json::json;

use super::*;
use crate::{Located, LocatedMap};

fn layer(name: &str, text: &str) -> LayeredNode {
    let mut node = LayeredNode::read(&Document::from_text(name, text).unwrap(), &["example"]).unwrap();
    if node.take("extends").is_some() {
        let LayeredKind::Mapping(mapping) = &mut node.kind else { panic!("{text}") };
        mapping.replaces = true;
    }
    node
}

fn merged(layers: &[&str]) -> LayeredNode {
    let mut layers = layers.iter().enumerate().map(|(at, text)| layer(&format!("{at}.yaml"), text));
    let first = layers.next().unwrap();
    layers.fold(first, |base, over| merge(base, over, &mut Vec::new()))
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "callers write `json!` in place")]
fn check(layers: &[&str], expect: Value) {
    let document = merged(layers).into_document("merged");
    assert_eq!(document.tree().unwrap().to_json(), expect, "{}", document.text());
}

#[test]
fn later_layer_overrides_key_by_key() {
    let base = "a: {x: 1, y: [p, q]}\nb: two\n";
    check(&[base, "a: {x: 2}\n"], json!({"a": {"x": 2, "y": ["p", "q"]}, "b": "two"}));
    check(&[base, "a: {y: [r]}\nc: {}\n"], json!({"a": {"x": 1, "y": ["r"]}, "b": "two", "c": {}}));
    check(&[base, "a: {y: {add: [r, p]}}\n"], json!({"a": {"x": 1, "y": ["p", "q", "r"]}, "b": "two"}));
    check(&[base, "a: {y: {remove: [p], add: [r]}}\n"], json!({"a": {"x": 1, "y": ["q", "r"]}, "b": "two"}));
    check(&[base, "extends: none\na: {y: [r]}\n"], json!({"a": {"y": ["r"]}}));
    check(&[base, "d: {add: [r]}\n"], json!({"a": {"x": 1, "y": ["p", "q"]}, "b": "two", "d": ["r"]}));
    check(&["a: {example: {add: [1]}}\n", "a: {example: {x: 1}}\n"], json!({"a": {"example": {"x": 1}}}));
    check(&["a: {example: [1]}\n", "a: {example: {add: [1]}}\n"], json!({"a": {"example": {"add": [1]}}}));
}

#[test]
fn removed_item_that_is_not_in_the_list_is_reported() {
    let mut unmatched = Vec::new();
    merge(layer("a", "x: [1, 2]\n"), layer("b", "x: {remove: [2, 3]}\n"), &mut unmatched);
    let [only] = unmatched.as_slice() else { panic!("{unmatched:?}") };
    assert_eq!((only.to_json(), only.origin.line, only.origin.column), (json!(3), 1, 17));
}

#[test]
fn every_position_leads_to_where_it_was_written() {
    #[derive(serde::Deserialize)]
    struct Rules {
        paths: Located<Vec<Located<String>>>,
        size: Located<u32>,
    }
    let base = "# words\nwrite:\n  paths:\n    - /a\n    - \"x: y\"\n  size: 1\n";
    let over = "write:\n\n  size:   20\n  paths: {add: [\"**/ü\", /c]}\nread: {paths: [], size: 3}\n";
    let document = merged(&[base, over]).into_document("merged");
    let parsed: LocatedMap<Rules> = document.parse().unwrap();
    let place = |line, column| {
        let origin = document.origin(line, column);
        format!("{}:{}:{}", origin.document.name(), origin.line, origin.column)
    };
    let at = |found: &Located<String>| place(found.line, found.column);
    let all: Vec<_> = parsed.iter().collect();
    assert_eq!(all.iter().map(|(key, _)| at(key)).collect::<Vec<_>>(), ["0.yaml:2:1", "1.yaml:5:1"]);
    let (_, write) = all[0];
    assert_eq!(
        write.paths.iter().map(at).collect::<Vec<_>>(),
        ["0.yaml:4:7", "0.yaml:5:7", "1.yaml:4:17", "1.yaml:4:25"]
    );
    assert_eq!(place(write.paths.line, write.paths.column), "1.yaml:4:10");
    assert_eq!((write.size.value, place(write.size.line, write.size.column)), (20, "1.yaml:3:11".to_owned()));
    let error = document.error_at(write.size.line, write.size.column, "too large");
    assert_eq!((error.file.as_str(), error.line, error.column), ("1.yaml", 3, 11));
    assert!(error.excerpt.contains("size:   20"), "{error}");
    let lines: Vec<String> = document
        .lines_with_origins()
        .map(|(_, from)| format!("{}:{}", from.document.name(), from.line))
        .collect();
    assert_eq!(lines.len(), document.text().lines().count());
    assert_eq!(lines.last().unwrap(), "1.yaml:5");
}

#[test]
fn unknown_key_is_reported_in_its_own_file() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rules {
        #[serde(rename = "size")]
        _size: u32,
    }
    let document = merged(&["a: {size: 1}\n", "a:\n  sise: 2\n"]).into_document("merged");
    let error = document.parse::<LocatedMap<Rules>>().unwrap_err();
    assert_eq!((error.file.as_str(), error.line, error.column), ("1.yaml", 2, 3), "{error}");
}

#[test]
fn rendered_text_means_what_was_written() {
    for text in [
        "a: ['true', \"null\", '~', \"1\", \"- x\", '', \"a\\nb\", 'x # y', \"#\", '@set', '*', '**/.env']\n",
        "- a\n- {b: [1, 2.50, -3], 'c d': {}}\n- []\n-\n  - deep\n  -\n    k: v\n    l: w\n",
        "on: off\nyes: no\n\"5\": 1e3\n",
        "{}\n",
        "word\n",
    ] {
        let node = LayeredNode::read(&Document::from_text("a", text).unwrap(), &[]).unwrap();
        let (before, document) = (node.to_json(), node.into_document("b"));
        assert_eq!(document.tree().unwrap().to_json(), before, "{}", document.text());
    }
}

/// Random layers over few keys and values, so that they meet often.
struct LayerRng(u64);

impl LayerRng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn items(&mut self) -> String {
        let items: Vec<String> = (0..self.below(4)).map(|_| format!("i{}", self.below(4))).collect();
        // The files have no duplicates in lists; a list is a set with an order.
        let mut known = Vec::new();
        items.into_iter().for_each(|item| {
            if !known.contains(&item) {
                known.push(item)
            }
        });
        format!("[{}]", known.join(", "))
    }

    fn value(&mut self, depth: u64) -> String {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => format!("{}", self.below(3)),
            1 | 2 => self.items(),
            3 => format!("{{add: {}}}", self.items()),
            4 => format!("{{remove: {}, add: {}}}", self.items(), self.items()),
            _ => self.mapping(depth - 1),
        }
    }

    fn mapping(&mut self, depth: u64) -> String {
        let keys = (0..4).filter(|_| !self.0.is_multiple_of(3) || self.below(2) == 0).collect::<Vec<_>>();
        let entries: Vec<String> = keys.iter().map(|key| format!("k{key}: {}", self.value(depth))).collect();
        format!("{{{}}}", entries.join(", "))
    }

    fn layer(&mut self) -> LayeredNode {
        let mapping = self.mapping(3);
        let text = match self.below(8) {
            0 => format!(
                "{}extends: none}}",
                mapping.trim_end_matches('}').to_owned() + if mapping == "{}" { "" } else { ", " }
            ),
            _ => mapping.clone(),
        };
        // Nested mappings end with `}` too: only the text of a flat mapping can be cut like that.
        let text = if text.matches('{').count() == text.matches('}').count() { text } else { mapping };
        layer("random", &text)
    }
}

/// `SINEW_LAYER_TRIPLES` and `SINEW_LAYER_SEED` set the number of triples and the first seed, as `cargo xtask soak` does.
#[test]
fn merging_layers_is_associative() {
    let number = |name: &str, few: u64| std::env::var(name).map_or(few, |text| text.parse().unwrap());
    let (count, first) = (number("SINEW_LAYER_TRIPLES", 1_500), number("SINEW_LAYER_SEED", 0));
    for seed in first..first + count {
        let mut dice = LayerRng(seed);
        let [a, b, c] = [dice.layer(), dice.layer(), dice.layer()];
        let merge =
            |base: &LayeredNode, over: &LayeredNode| merge(base.clone(), over.clone(), &mut Vec::new());
        let (left, right) = (merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
        let text = |node: LayeredNode| node.into_document("x").text().to_owned();
        let shown = || format!("{seed}\n{}\n{}\n{}", a.to_json(), b.to_json(), c.to_json());
        assert_eq!(left.to_json(), right.to_json(), "{}", shown());
        // Key order and the order of items are part of the result.
        assert_eq!(text(left), text(right), "{}", shown());
    }
}
