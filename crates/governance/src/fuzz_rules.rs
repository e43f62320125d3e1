//! Properties of path patterns and network targets, for the fuzz targets `patterns` and `url`.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use tool::RuleRef;
use url::Url;

use crate::glob::{ListPurpose, PathGlobsBuilder};
use crate::host_rules::NetworkTarget;
use crate::pattern::PathPattern;
use crate::policy_environment::{NameComparison, PathVariables};

/// Compares a pattern, which is the first line, with the glob library on a path, which is the rest. Also
/// asserts that a forbidding list matches everything that an allowing one matches, and that a pattern without
/// wildcards matches the path it spells.
pub fn fuzz_patterns(text: &str) {
    let (written, path) = text.split_once('\n').unwrap_or((text, "/a"));
    let variables = PathVariables::with_home(Path::new("/h"));
    let Ok(pattern) = PathPattern::parse(written, &variables) else { return };
    let rule = RuleRef { file: "f".into(), line: 1, id: "i".into() };
    let list = |purpose| {
        let mut builder = PathGlobsBuilder::new(purpose, NameComparison::CaseSensitive);
        builder.add(written, &pattern, &rule).and_then(|()| builder.build()).ok()
    };
    let (allow, forbid) = (list(ListPurpose::Allow), list(ListPurpose::Forbid));
    assert_eq!(allow.is_some(), forbid.is_some(), "{written}");
    let (Some(allow), Some(forbid)) = (allow, forbid) else { return };
    // A path as the judge sees it has no `//` and no final slash.
    let as_judged = |path: &Path| -> PathBuf { path.components().collect() };
    if !pattern.to_string().contains(['*', '?', '[', '{']) {
        assert!(allow.matches(&as_judged(&pattern.example_path())), "{written} matches nothing");
    }
    for path in [as_judged(Path::new(path)), as_judged(&pattern.example_path())] {
        let path = path.as_path();
        let allowed = allow.matches(path);
        assert!(!allowed || forbid.matches(path), "{written} allows {path:?} and does not forbid it");
        // The pattern's own folder may be a link on this machine, whose target is matched as well.
        let is_canonical =
            path.starts_with("/w") && crate::normalized_path::NormalizedPath::canonical(path).is_some();
        if is_canonical && pattern.to_string().starts_with("/w/") {
            let globs = pattern.texts_with_folder();
            let by_library = globs.iter().any(|glob| {
                let built = GlobBuilder::new(glob).literal_separator(true).empty_alternates(true).build();
                built.is_ok_and(|glob| glob.compile_matcher().is_match(path))
            });
            assert_eq!(allowed, by_library, "{written} {path:?}");
        }
    }
}

/// Asserts that the host that is judged is the host that a client would connect to.
pub fn fuzz_url(text: &str) {
    let NetworkTarget::Host(host) = NetworkTarget::from_url(text) else { return };
    let url = Url::parse(text);
    let visited = url.as_ref().ok().and_then(Url::host_str).unwrap_or_default();
    assert_eq!(NetworkTarget::from_host(visited), NetworkTarget::Host(host.clone()), "{text}");
    let again = format!("https://{host}/");
    assert_eq!(NetworkTarget::from_url(&again), NetworkTarget::Host(host), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_agree_with_the_glob_library() {
        for text in [
            "/w/**/x\n/w/a/x",
            "/w/{a,b}*\n/w/ab",
            "**/.env\n/w/.env",
            "/w/[a-c]?\n/w/b1",
            "$HOME/x\n/h/x",
            r"/w/\./x",
        ] {
            fuzz_patterns(text);
        }
    }

    #[test]
    fn judged_host_is_the_visited_host() {
        for text in [
            "http://a.b.:80/",
            "https://[::ffff:127.0.0.1]/",
            "http://0x7f.1/x",
            "http://xn--a/",
            "http:.:81/x",
            "https://x0X..1.....",
            "x",
        ] {
            fuzz_url(text);
        }
    }
}
