//! Arguments of a tool that are paths. They are found once, from the schema, when a definition is checked.
//! The module `path_declarations` ensures that the schema declares no path at any other position.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::path_declarations::{self, ACCESS_KEYWORD, is_path};
use crate::definition::DefinitionError;
use crate::text::SharedText;
use crate::{Arguments, Category};

/// Access that a tool needs to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathAccess {
    /// Read a file or list a directory.
    Read,
    /// Create, replace or change the target.
    Write,
    /// Remove the directory entry. A symbolic link is removed itself, not followed.
    Remove,
}

impl PathAccess {
    /// Returns true if the access modifies anything.
    pub fn is_modifying(self) -> bool {
        match self {
            PathAccess::Read => false,
            PathAccess::Write | PathAccess::Remove => true,
        }
    }
}

/// One argument declared `format: path`: a key, or a key whose array items are paths.
///
/// The keyword `x-sinew-access` (`read`, `write` or `remove`) states the access; the default is by category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathArgument {
    /// Key of the argument.
    pub key: SharedText,
    /// True if the argument is an array of paths.
    pub many: bool,
    /// Access that the tool needs.
    pub access: PathAccess,
}

impl PathArgument {
    /// Finds all path arguments of an object schema. A path declared at any other position is an error.
    pub(crate) fn find(schema: &Value, category: &Category) -> Result<Vec<PathArgument>, DefinitionError> {
        path_declarations::check(schema)?;
        let properties = schema["properties"].as_object().into_iter().flatten();
        Ok(properties.filter_map(|(key, property)| Self::from_property(key, property, category)).collect())
    }

    fn from_property(key: &str, property: &Value, category: &Category) -> Option<PathArgument> {
        let items = &property["items"];
        let many = is_path(items);
        let declared = [property, items].into_iter().filter(|schema| is_path(schema));
        let access = declared.map(|schema| access(schema, category)).max()?;
        Some(PathArgument { key: key.into(), many, access })
    }

    /// Returns the strings given for this argument. The schema check has refused values of other types.
    pub fn texts<'a>(&'a self, arguments: &'a Arguments) -> impl Iterator<Item = &'a str> {
        let value = arguments.get(&*self.key);
        let items = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        value.and_then(Value::as_str).into_iter().chain(items)
    }
}

/// Returns the stated access. Without one, only a tool of the category `read_only` gets read access.
fn access(schema: &Value, category: &Category) -> PathAccess {
    match schema[ACCESS_KEYWORD].as_str() {
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
    fn keys_and_items_get_the_stricter_access() {
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
