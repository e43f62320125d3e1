//! Arguments of a call in the form that a tool of a manifest receives.

use governance::Permit;
use serde_json::Value;
use tool::Arguments;

/// Returns the arguments with every path replaced by the canonical path that was opened.
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
