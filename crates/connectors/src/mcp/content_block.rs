//! Content blocks of an upstream server, which are passed on to MCP clients. Only blocks of known types, with
//! the members that the specification defines, pass; a block of another type becomes text.

use serde_json::{Map, Value};
use tool::result::text_block;

/// Limit of blocks in one result. The rest is dropped and counted in a text block.
const MAX_BLOCKS: usize = 256;

/// Members of each type of block: those it must have, and those it may have.
const BLOCK_TYPES: [(&str, &[&str], &[&str]); 5] = [
    ("text", &["text"], &[]),
    ("image", &["data", "mimeType"], &[]),
    ("audio", &["data", "mimeType"], &[]),
    ("resource", &["resource"], &[]),
    ("resource_link", &["name", "uri"], &["title", "description", "mimeType", "size"]),
];
/// Optional members of every block.
const COMMON_MEMBERS: [&str; 2] = ["annotations", "_meta"];

/// Converts the content of a result to blocks that conform to the specification.
pub(super) fn checked_blocks(content: &[Value]) -> Vec<Value> {
    let dropped = content.len().saturating_sub(MAX_BLOCKS);
    let mut blocks: Vec<Value> = content.iter().take(MAX_BLOCKS).map(checked_block).collect();
    if dropped > 0 {
        blocks.push(text_block(format!("[{dropped} more content blocks were dropped]")));
    }
    blocks
}

fn checked_block(block: &Value) -> Value {
    match known_block(block) {
        Some(known) => known,
        None => text_block(block.to_string()),
    }
}

fn known_block(block: &Value) -> Option<Value> {
    let kind = block.get("type")?.as_str()?;
    let (_, required, optional) = BLOCK_TYPES.iter().find(|(name, ..)| *name == kind)?;
    let mut known = Map::new();
    known.insert("type".to_owned(), kind.into());
    for member in *required {
        let value = block.get(*member)?;
        let is_valid = if *member == "resource" { is_resource(value) } else { value.is_string() };
        known.extend(is_valid.then(|| ((*member).to_owned(), value.clone())));
        known.get(*member)?;
    }
    for member in *optional {
        let is_valid = |value: &&Value| if *member == "size" { value.is_number() } else { value.is_string() };
        let value = block.get(*member).filter(is_valid);
        known.extend(value.map(|value| ((*member).to_owned(), value.clone())));
    }
    for member in COMMON_MEMBERS {
        let value = block.get(member).filter(|value| value.is_object());
        known.extend(value.map(|value| (member.to_owned(), value.clone())));
    }
    Some(Value::Object(known))
}

/// Returns true for an embedded resource: an address with text or base64 data.
fn is_resource(resource: &Value) -> bool {
    let is_text = |member: &str| resource.get(member).is_some_and(Value::is_string);
    is_text("uri") && (is_text("text") || is_text("blob"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_blocks_pass_and_others_become_text() {
        let same = |block: Value| assert_eq!(checked_blocks(std::slice::from_ref(&block)), [block]);
        same(json!({"type": "text", "text": "a", "annotations": {"priority": 1}}));
        same(json!({"type": "image", "data": "AA==", "mimeType": "image/png"}));
        same(json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}));
        same(json!({"type": "resource", "resource": {"uri": "a:b", "text": "t"}}));
        same(json!({"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}}));
        same(json!({"type": "resource_link", "uri": "a:b", "name": "n", "size": 3}));
        for other in [
            json!({"type": "video", "data": ""}),
            json!({"type": "image", "data": "AA=="}),
            json!({"type": "resource", "resource": {"uri": "a:b"}}),
            json!(5),
        ] {
            assert_eq!(checked_blocks(std::slice::from_ref(&other)), [text_block(other.to_string())]);
        }
        let extra = json!({"type": "text", "text": "a", "evil": {"x": 1}, "_meta": 5});
        assert_eq!(checked_blocks(&[extra]), [json!({"type": "text", "text": "a"})]);
        assert_eq!(checked_blocks(&vec![text_block("a"); 300]).len(), MAX_BLOCKS + 1);
    }
}
