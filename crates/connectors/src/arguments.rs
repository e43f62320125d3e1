//! The arguments of a call in the form that a tool of a manifest takes them.

use governance::Permit;
use serde_json::Value;
use tool::Arguments;

/// What the tool is handed, with every path as it was opened, not as it was typed.
pub(crate) fn as_opened(permit: &Permit) -> Arguments {
    let mut arguments = permit.call().handed_over();
    for (key, value) in &mut arguments {
        let mut opened = permit.paths().iter().filter(|path| path.key() == key);
        let texts = match value {
            Value::Array(items) => items.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        for text in texts.iter_mut().filter(|text| text.is_string()) {
            if let Some(path) = opened.next() {
                *text = path.canonical().display().to_string().into();
            }
        }
    }
    arguments
}
