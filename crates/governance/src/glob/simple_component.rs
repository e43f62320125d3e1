//! Pattern components that byte comparison can match, such as `.env.*`, `*_key` and `{id_rsa,id_dsa}`.
//!
//! A regular expression gives the same result but takes many times as long.

/// Maximum number of brace alternatives of one component; with more, a regular expression is used.
const MAX_ALTERNATIVES: usize = 8;

/// Pattern component, expanded into its alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimpleComponent(Box<[ComponentForm]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ComponentForm {
    /// Exact text.
    Exact(Box<str>),
    /// Prefix and suffix around a `*`.
    PrefixSuffix(Box<str>, Box<str>),
}

impl SimpleComponent {
    /// Parses a component; `None` if it needs a regular expression.
    pub(super) fn parse(part: &str) -> Option<Self> {
        let spellings: Option<Vec<_>> =
            brace_alternatives(part)?.iter().map(|text| ComponentForm::parse(text)).collect();
        spellings
            .filter(|spellings| spellings.len() <= MAX_ALTERNATIVES)
            .map(|all| SimpleComponent(all.into()))
    }

    pub(super) fn matches(&self, part: &[u8]) -> bool {
        self.0.iter().any(|spelling| spelling.matches(part))
    }
}

impl ComponentForm {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once('*') {
            None => is_literal(text).then(|| ComponentForm::Exact(text.into())),
            Some((start, end)) => (is_literal(start) && is_literal(end))
                .then(|| ComponentForm::PrefixSuffix(start.into(), end.into())),
        }
    }

    fn matches(&self, part: &[u8]) -> bool {
        match self {
            ComponentForm::Exact(text) => part == text.as_bytes(),
            ComponentForm::PrefixSuffix(start, end) => {
                let rest = part.strip_prefix(start.as_bytes());
                rest.is_some_and(|rest| rest.ends_with(end.as_bytes()))
            }
        }
    }
}

/// Expands the braces of a text; `None` if a pair is not closed. Braces after the first pair are not
/// expanded.
pub(crate) fn brace_alternatives(part: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = part.split_once('{') else { return Some(vec![part.to_owned()]) };
    let (alternatives, after) = rest.split_once('}')?;
    Some(alternatives.split(',').map(|text| format!("{before}{text}{after}")).collect())
}

/// Returns true if a text has no wildcards. The replacement character is excluded, because it stands for
/// invalid bytes.
fn is_literal(text: &str) -> bool {
    !text.contains(['*', '?', '[', ']', '{', '}', '\\', char::REPLACEMENT_CHARACTER])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_components_match_by_comparison() {
        for (part, names, others) in [
            (".env.*", &[".env.", ".env.x", ".env.*", ".env.\u{e9}"][..], &[".env", "x.env.x"][..]),
            ("*_key", &["_key", "a_key", "_key_key"], &["_keys", "key"]),
            ("a*a", &["aa", "aba", "aaa"], &["a", "ab", "ba"]),
            ("{id_rsa,id_dsa}", &["id_rsa", "id_dsa"], &["id_rsa,id_dsa", "id_", ""]),
            ("k{,.bak}", &["k", "k.bak"], &["k.", "k.ba"]),
            ("x{a*,b}.c", &["xa.c", "xaa.c", "xb.c"], &["xb", "xba.c", "xc.c"]),
            ("a,b*", &["a,b", "a,bc"], &["a", "b"]),
        ] {
            let plain = SimpleComponent::parse(part).unwrap_or_else(|| panic!("{part}"));
            assert!(names.iter().all(|name| plain.matches(name.as_bytes())), "{part} {names:?}");
            assert!(!others.iter().any(|name| plain.matches(name.as_bytes())), "{part} {others:?}");
        }
    }

    #[test]
    fn other_components_need_a_regular_expression() {
        for part in
            ["?", "a?*", "[ab]", "**", "a*b*", "{a,{b,c}}", "{a}{b}", "{a", r"\*", "\u{fffd}*", "{*a*,b}"]
        {
            assert_eq!(SimpleComponent::parse(part), None, "{part}");
        }
        let many = |count: usize| format!("{{{}}}", vec!["a"; count].join(","));
        assert!(SimpleComponent::parse(&many(MAX_ALTERNATIVES)).is_some());
        assert_eq!(SimpleComponent::parse(&many(MAX_ALTERNATIVES + 1)), None);
    }
}
