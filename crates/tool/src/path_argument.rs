//! Which arguments of a tool are paths. Found once, from the schema, when a definition is made; that no path hides
//! anywhere else in the schema is for [`path_places`](crate::path_places) to say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::path_places::{self, ACCESS, is_path};
use crate::{Arguments, Category, DefinitionError};

/// What a tool will do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathAccess {
    /// Read a file or list a directory.
    Read,
    /// Create, replace or change what is there.
    Write,
    /// Take the name away. A link is not followed: it is the name that goes.
    Remove,
}

impl PathAccess {
    /// Whether anything is different afterwards.
    pub fn changes(self) -> bool {
        match self {
            PathAccess::Read => false,
            PathAccess::Write | PathAccess::Remove => true,
        }
    }
}

/// One argument declared `format: path`: a key, or a key whose array items are paths.
///
/// The keyword `x-sinew-access` (`read`, `write` or `remove`) states the access; without it the category decides.
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
    /// All path arguments of an object schema, which has no path anywhere else.
    pub(crate) fn find(schema: &Value, category: &Category) -> Result<Vec<PathArgument>, DefinitionError> {
        path_places::check(schema)?;
        let properties = schema["properties"].as_object().into_iter().flatten();
        Ok(properties.filter_map(|(key, property)| Self::from_property(key, property, category)).collect())
    }

    fn from_property(key: &str, property: &Value, category: &Category) -> Option<PathArgument> {
        let items = &property["items"];
        let many = is_path(items);
        let declared = [property, items].into_iter().filter(|schema| is_path(schema));
        let access = declared.map(|schema| access(schema, category)).max()?;
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
fn access(schema: &Value, category: &Category) -> PathAccess {
    match schema[ACCESS].as_str() {
        Some("read") => PathAccess::Read,
        Some("remove") => PathAccess::Remove,
        None if *category == Category::READ_ONLY => PathAccess::Read,
        _ => PathAccess::Write,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_items_are_found_with_the_stricter_access() {
        let find = |property: Value, category: &Category| {
            let schema = json!({"type": "object", "properties": {"p": property}});
            PathArgument::find(&schema, category).unwrap().into_iter().map(|p| (p.many, p.access)).next()
        };
        let path = json!({"type": "string", "format": "path"});
        let stated =
            |word: &str| json!({"type": ["string", "null"], "format": "path", "x-sinew-access": word});
        assert_eq!(find(json!({"type": "string"}), &Category::READ_ONLY), None);
        assert_eq!(find(path.clone(), &Category::READ_ONLY), Some((false, PathAccess::Read)));
        assert_eq!(find(path.clone(), &Category::NETWORK), Some((false, PathAccess::Write)));
        assert_eq!(find(stated("read"), &Category::NETWORK), Some((false, PathAccess::Read)));
        assert_eq!(find(stated("write"), &Category::READ_ONLY), Some((false, PathAccess::Write)));
        assert_eq!(find(stated("remove"), &Category::READ_ONLY), Some((false, PathAccess::Remove)));
        let list = json!({"type": "array", "items": path});
        assert_eq!(find(list, &Category::READ_ONLY), Some((true, PathAccess::Read)));
        let either = json!({"type": ["string", "array"], "format": "path", "x-sinew-access": "write",
            "items": stated("read")});
        assert_eq!(find(either, &Category::READ_ONLY), Some((true, PathAccess::Write)));
    }
}
