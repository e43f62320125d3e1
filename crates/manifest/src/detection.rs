//! The rule by which the form of an answer is told, from the few words it is written in.

/// A rule by which the form of an answer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detection {
    /// The field is there.
    Exists(String),
    /// The field has this text.
    Equals(String, String),
}

impl Detection {
    /// `NAME field exists`, `NAME field`, `NAME exists`, `NAME` or `NAME == VALUE`. Anything else is prose.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_path = |path: &str| {
            let part = |part: &str| {
                !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
            };
            path.split('.').all(part)
        };
        if let Some((path, value)) = text.split_once("==") {
            let (path, value) = (path.trim(), value.trim().trim_matches(['"', '\'']));
            return is_path(path).then(|| Detection::Equals(path.to_owned(), value.to_owned()));
        }
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            [path] | [path, "field" | "exists"] | [path, "field", "exists"] if is_path(path) => {
                Some(Detection::Exists((*path).to_owned()))
            }
            _ => None,
        }
    }
}
