//! Document as a tree of values with positions, for checks that report all errors of a file at once.
//!
//! Deserialising into a type stops at the first error. The tree is built from the same parser events, after
//! they have passed the same ambiguity scan.

use serde_json::{Map, Number, Value};
use serde_saphyr::granit_parser::{Event, ScalarStyle, Span};

use crate::Located;
use crate::scan::is_null;

/// Value with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlNode {
    /// Line number, from 1.
    pub line: u64,
    /// Column number from 1, in characters.
    pub column: u64,
    /// Content.
    pub kind: YamlNodeKind,
}

/// Kinds of values in plain YAML.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlNodeKind {
    /// Text: quoted, a block, or a word that is neither a number nor a boolean.
    Text(String),
    /// Number, with its source text: `1.0` differs from `1`.
    Number(Number, String),
    /// `true` or `false`.
    Boolean(bool),
    /// Absent value or null; only in a tree that admits it.
    Null,
    /// A list.
    List(Vec<YamlNode>),
    /// Mapping in file order, without duplicate keys.
    Mapping(Vec<(Located<String>, YamlNode)>),
}

impl YamlNode {
    /// Returns the value of a key, if this is a mapping that contains it.
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entries().iter().find(|(known, _)| known.value == key).map(|(_, value)| value)
    }

    /// Returns the key with its position, if this is a mapping that contains it.
    pub fn key(&self, key: &str) -> Option<&Located<String>> {
        self.entries().iter().find(|(known, _)| known.value == key).map(|(known, _)| known)
    }

    /// Returns the entries of a mapping; empty for other kinds.
    pub fn entries(&self) -> &[(Located<String>, YamlNode)] {
        match &self.kind {
            YamlNodeKind::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the items of a list; empty for other kinds.
    pub fn items(&self) -> &[YamlNode] {
        match &self.kind {
            YamlNodeKind::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the text, if it is text.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            YamlNodeKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of the kind, for messages.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            YamlNodeKind::Text(_) => "text",
            YamlNodeKind::Number(..) => "a number",
            YamlNodeKind::Boolean(_) => "a boolean",
            YamlNodeKind::Null => "null",
            YamlNodeKind::List(_) => "a list",
            YamlNodeKind::Mapping(_) => "a mapping",
        }
    }

    /// Converts to JSON, without positions.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            YamlNodeKind::Text(text) => Value::String(text.clone()),
            YamlNodeKind::Number(number, _) => Value::Number(number.clone()),
            YamlNodeKind::Boolean(value) => Value::Bool(*value),
            YamlNodeKind::Null => Value::Null,
            YamlNodeKind::List(items) => items.iter().map(YamlNode::to_json).collect(),
            YamlNodeKind::Mapping(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.value.clone(), value.to_json()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// Builds a tree from events that passed the scan.
#[derive(Default)]
pub(crate) struct YamlTreeBuilder {
    open: Vec<OpenCollection>,
    root: Option<YamlNode>,
}

struct OpenCollection {
    line: u64,
    column: u64,
    parts_so_far: CollectionParts,
}

enum CollectionParts {
    List(Vec<YamlNode>),
    Mapping { entries: Vec<(Located<String>, YamlNode)>, key: Option<Located<String>> },
}

impl YamlTreeBuilder {
    pub(crate) fn add_event(&mut self, event: &Event<'_>, span: Span) {
        let (line, column) = (span.start.line() as u64, span.start.col() as u64 + 1);
        let open = |parts| OpenCollection { line, column, parts_so_far: parts };
        match event {
            Event::Scalar(text, style, ..) => self.add_scalar(text, *style, line, column),
            Event::SequenceStart(..) => self.open.push(open(CollectionParts::List(Vec::new()))),
            Event::MappingStart(..) => {
                self.open.push(open(CollectionParts::Mapping { entries: Vec::new(), key: None }));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(OpenCollection { line, column, parts_so_far: parts }) = self.open.pop() {
                    let kind = match parts {
                        CollectionParts::List(items) => YamlNodeKind::List(items),
                        CollectionParts::Mapping { entries, .. } => YamlNodeKind::Mapping(entries),
                    };
                    self.add_node(YamlNode { line, column, kind });
                }
            }
            _ => {}
        }
    }

    pub(crate) fn finish(self) -> Option<YamlNode> {
        self.root
    }

    fn add_scalar(&mut self, text: &str, style: ScalarStyle, line: u64, column: u64) {
        if let Some(OpenCollection {
            parts_so_far: CollectionParts::Mapping { key: key @ None, .. }, ..
        }) = self.open.last_mut()
        {
            *key = Some(Located { value: text.to_owned(), line, column });
            return;
        }
        let kind = match style {
            ScalarStyle::Plain => interpret_plain_scalar(text),
            _ => YamlNodeKind::Text(text.to_owned()),
        };
        self.add_node(YamlNode { line, column, kind });
    }

    fn add_node(&mut self, node: YamlNode) {
        match self.open.last_mut().map(|open| &mut open.parts_so_far) {
            Some(CollectionParts::List(items)) => items.push(node),
            Some(CollectionParts::Mapping { entries, key }) => {
                if let Some(key) = key.take() {
                    entries.push((key, node));
                }
            }
            None => self.root = Some(node),
        }
    }
}

/// Interprets an unquoted word. Only JSON numbers are numbers; forms that only some parsers read as numbers
/// (`0x1f`, `007`, `.inf`) are text.
fn interpret_plain_scalar(text: &str) -> YamlNodeKind {
    match text {
        null if is_null(null) => YamlNodeKind::Null,
        "true" => YamlNodeKind::Boolean(true),
        "false" => YamlNodeKind::Boolean(false),
        _ => match serde_json::from_str::<Number>(text) {
            Ok(number) => YamlNodeKind::Number(number, text.to_owned()),
            Err(_) => YamlNodeKind::Text(text.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Document;

    #[test]
    fn values_have_positions_and_one_meaning() {
        let text =
            "a: [1, 2.0, '3', yes, true, 1.0.0, 007]\nb:\n  c: |\n    two\n    lines\n  \"d\": {e: -4}\n";
        let root = Document::from_text("f.yaml", text).unwrap().tree().unwrap();
        let expect = json!({"a": [1, 2.0, "3", "yes", true, "1.0.0", "007"],
            "b": {"c": "two\nlines\n", "d": {"e": -4}}});
        assert_eq!(root.to_json(), expect);
        let place = |node: &crate::YamlNode| (node.line, node.column);
        let inner = root.get("b").unwrap();
        assert_eq!(place(inner), (3, 3));
        assert_eq!(inner.key("d").map(|key| (key.line, key.column)), Some((6, 3)));
        assert_eq!(place(inner.get("d").unwrap().get("e").unwrap()), (6, 12));
        assert_eq!(
            root.get("a").unwrap().items().iter().map(|item| item.column).collect::<Vec<_>>(),
            [5, 8, 13, 18, 23, 29, 36]
        );
    }

    #[test]
    fn tree_with_nulls_admits_absent_values_only() {
        let tree = |text: &str| Document::from_text("f.yaml", text).unwrap().tree_with_nulls();
        let root = tree("a:\nb: [~, null, 'null']\nc: {d: , e: 1}\n").unwrap();
        assert_eq!(root.to_json(), json!({"a": null, "b": [null, null, "null"], "c": {"d": null, "e": 1}}));
        for text in ["", "~\n", "a: 1\na: 2\n", "a: &x 1\n", "~: 1\n"] {
            assert!(tree(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ambiguous_text_gives_no_tree() {
        for text in
            ["", "a: 1\na: 2\n", "a: &x 1\n", "a: !!int 1\n", "a:\n", "a: 1\n---\nb: 2\n", "a: [*x]\n"]
        {
            let tree = Document::from_text("f.yaml", text).unwrap().tree();
            assert!(tree.unwrap_err().line >= 1, "{text:?}");
        }
    }
}
