//! Which arguments of a tool are paths. Found once, from the schema, when a definition is made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Arguments, Category};

/// What a tool will do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathAccess {
    /// Read a file or list a directory.
    Read,
    /// Create, replace or change what is there.
    Write,
}

/// One argument declared `format: path`: a key, or a key whose array items are paths.
///
/// The keyword `x-sinew-access` (`read` or `write`) states the access; without it the category decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathArgument {
    /// The key of the argument.
    pub key: String,
    /// Whether the argument is an array of paths.
    pub many: bool,
    /// What the tool will do there.
    pub access: PathAccess,
}

impl PathArgument {
    /// All path arguments of an object schema.
    pub(crate) fn find(schema: &Value, category: &Category) -> Vec<PathArgument> {
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties.filter_map(|(key, property)| Self::from_property(key, property, category)).collect()
    }

    fn from_property(key: &str, property: &Value, category: &Category) -> Option<PathArgument> {
        let is_path = |schema: &Value| schema["format"] == "path";
        let many = is_path(&property["items"]);
        if !many && !is_path(property) {
            return None;
        }
        let declared = if many { &property["items"] } else { property };
        let access = serde_json::from_value(declared["x-sinew-access"].clone());
        let access = access.unwrap_or_else(|_| default_access(category));
        Some(PathArgument { key: key.to_owned(), many, access })
    }

    /// The texts given for this argument. Values of other types have been refused by the schema check.
    pub fn texts<'a>(&'a self, arguments: &'a Arguments) -> impl Iterator<Item = &'a str> {
        let value = arguments.get(&self.key);
        let items = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        value.and_then(Value::as_str).into_iter().chain(items)
    }
}

/// Only a tool that promises to change nothing is trusted to read.
fn default_access(category: &Category) -> PathAccess {
    if *category == Category::READ_ONLY { PathAccess::Read } else { PathAccess::Write }
}
