//! Edits of a JSON text that keep every other byte: settings of another program must not be reformatted.
//!
//! The caller has already parsed the text strictly, so it is well-formed. For malformed text the functions
//! here return no node.

use std::ops::Range;

/// JSON value with its byte range in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonNode {
    pub(super) span: Range<usize>,
    pub(super) kind: JsonContent,
}

/// Content of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonContent {
    /// Members, in order.
    Object(Vec<JsonMember>),
    /// Items, in order.
    Array(Vec<JsonNode>),
    /// String, number, boolean or null.
    Scalar,
}

/// Member of an object. Its span includes the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonMember {
    pub(super) key: String,
    pub(super) span: Range<usize>,
    pub(super) value: JsonNode,
}

impl JsonNode {
    /// Parses the whole text as one value.
    pub(super) fn parse(text: &str) -> Option<JsonNode> {
        let mut reader = JsonSpanParser { bytes: text.as_bytes(), at: 0 };
        reader.value()
    }

    /// Returns the member with this key, if the value is an object.
    pub(super) fn member(&self, key: &str) -> Option<&JsonMember> {
        match &self.kind {
            JsonContent::Object(members) => members.iter().find(|member| member.key == key),
            JsonContent::Array(_) | JsonContent::Scalar => None,
        }
    }

    /// Returns the items of an array, and none for any other value.
    pub(super) fn items(&self) -> &[JsonNode] {
        match &self.kind {
            JsonContent::Array(items) => items,
            JsonContent::Object(_) | JsonContent::Scalar => &[],
        }
    }

    /// Returns the byte ranges of the members, with their keys, or of the items.
    fn parts(&self) -> Vec<Range<usize>> {
        match &self.kind {
            JsonContent::Object(members) => members.iter().map(|member| member.span.clone()).collect(),
            JsonContent::Array(items) => items.iter().map(|item| item.span.clone()).collect(),
            JsonContent::Scalar => Vec::new(),
        }
    }
}

/// Returns the text with one more part at the end of an object or array.
pub(super) fn append(text: &str, whole: &JsonNode, part: &str) -> String {
    let indent = indent_at(text, whole.span.start);
    let inner = format!("{indent}{}", indent_step(text));
    let part = part.replace('\n', &format!("\n{inner}"));
    match whole.parts().last() {
        Some(last) => splice(text, last.end..last.end, &format!(",\n{inner}{part}")),
        None => {
            let inside = whole.span.start + 1..whole.span.end.saturating_sub(1);
            splice(text, inside, &format!("\n{inner}{part}\n{indent}"))
        }
    }
}

/// Returns the text without the part at `index` and without its comma.
pub(super) fn remove(text: &str, whole: &JsonNode, index: usize) -> String {
    let parts = whole.parts();
    let Some(part) = parts.get(index) else { return text.to_owned() };
    let before = index.checked_sub(1).and_then(|before| parts.get(before));
    let range = match (before, parts.get(index + 1)) {
        (Some(before), _) => before.end..part.end,
        (None, Some(after)) => part.start..after.start,
        (None, None) => whole.span.start + 1..whole.span.end.saturating_sub(1),
    };
    splice(text, range, "")
}

/// Returns the text with the value at `node` replaced.
pub(super) fn replace(text: &str, node: &JsonNode, value: &str) -> String {
    let indent = indent_at(text, node.span.start);
    splice(text, node.span.clone(), &value.replace('\n', &format!("\n{indent}")))
}

fn splice(text: &str, range: Range<usize>, middle: &str) -> String {
    let (before, after) = (text.get(..range.start), text.get(range.end..));
    format!("{}{middle}{}", before.unwrap_or_default(), after.unwrap_or_default())
}

/// Returns the indentation of the line that contains this offset.
fn indent_at(text: &str, at: usize) -> &str {
    let line = text.get(..at).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
    let width = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..width).unwrap_or_default()
}

/// Returns one indentation step as used in the file, else two spaces.
fn indent_step(text: &str) -> &str {
    let indented = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    let width = indented.map_or(0, |line| line.len() - line.trim_start_matches([' ', '\t']).len());
    indented.and_then(|line| line.get(..width)).unwrap_or("  ")
}

struct JsonSpanParser<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl JsonSpanParser<'_> {
    fn value(&mut self) -> Option<JsonNode> {
        self.skip_space();
        let start = self.at;
        let kind = match self.peek()? {
            b'{' => self.object()?,
            b'[' => self.array()?,
            b'"' => {
                self.string()?;
                JsonContent::Scalar
            }
            _ => {
                while self.peek().is_some_and(|b| !b",]} \t\r\n".contains(&b)) {
                    self.at += 1;
                }
                JsonContent::Scalar
            }
        };
        Some(JsonNode { span: start..self.at, kind })
    }

    fn object(&mut self) -> Option<JsonContent> {
        let mut members = Vec::new();
        self.at += 1;
        while self.next_part(b'}')? {
            let start = self.at;
            let key = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            let value = self.value()?;
            members.push(JsonMember { key, span: start..self.at, value });
        }
        Some(JsonContent::Object(members))
    }

    fn array(&mut self) -> Option<JsonContent> {
        let mut items = Vec::new();
        self.at += 1;
        while self.next_part(b']')? {
            items.push(self.value()?);
        }
        Some(JsonContent::Array(items))
    }

    /// Advances to the next part and returns true, or past the closing bracket and returns false.
    fn next_part(&mut self, end: u8) -> Option<bool> {
        self.skip_space();
        if self.peek()? == b',' {
            self.at += 1;
            self.skip_space();
        }
        if self.peek()? == end {
            self.at += 1;
            return Some(false);
        }
        Some(true)
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        serde_json::from_slice(self.bytes.get(start..self.at)?).ok()
    }

    fn expect(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_then_remove_restores_the_text() {
        for text in [
            "{}",
            "{ }\n",
            "{\"a\":1.0}",
            "{\n  \"a\": 1e3,\n  \"b\" : [ ]\n}\n",
            "{\n\t\"\\u0061\\\"}\": {\"x\": \"}\"},\n\n\t\"c\": null }",
        ] {
            let node = JsonNode::parse(text).unwrap();
            let longer = append(text, &node, "\"new\": {\n  \"deep\": true\n}");
            let parsed: serde_json::Value =
                serde_json::from_str(&longer).unwrap_or_else(|e| panic!("{e}: {longer}"));
            assert_eq!(parsed["new"]["deep"], true);
            let node = JsonNode::parse(&longer).unwrap();
            let last = node.parts().len() - 1;
            assert_eq!(node.member("new").map(|member| &member.span), node.parts().last());
            let back = remove(&longer, &node, last);
            assert_eq!(back.replace("{}", ""), text.replace("{ }", "{}").replace("{}", ""), "{longer}");
        }
    }

    #[test]
    fn any_part_can_be_removed_or_replaced() {
        let text = "[\n  1,\n  {\"a\": [2]},\n  3\n]";
        let node = JsonNode::parse(text).unwrap();
        for (index, rest) in
            [(0, "[{\"a\":[2]},3]"), (1, "[1,3]"), (2, "[1,{\"a\":[2]}]"), (9, "[1,{\"a\":[2]},3]")]
        {
            let without = remove(text, &node, index);
            let compact: serde_json::Value = serde_json::from_str(&without).unwrap();
            assert_eq!(compact.to_string(), rest);
        }
        assert_eq!(replace(text, &node.items()[1], "{\n}"), "[\n  1,\n  {\n  },\n  3\n]");
    }
}
