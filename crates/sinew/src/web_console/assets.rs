//! Files of the page. They are the files that a reader opens in the repository: no build step changes them.

use hyper::body::Bytes;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// File with its path in the page, its type and its content.
type Asset = (&'static str, &'static str, &'static [u8]);

macro_rules! asset {
    ($path:literal, $content_type:expr) => {
        (concat!("/", $path), $content_type, include_bytes!(concat!("../../console/", $path)))
    };
}

const ASSETS: [Asset; 16] = [
    asset!("index.html", HTML),
    asset!("app.css", STYLE),
    asset!("icon.svg", IMAGE),
    asset!("app.js", SCRIPT),
    asset!("base.js", SCRIPT),
    asset!("parts.js", SCRIPT),
    asset!("charts.js", SCRIPT),
    asset!("overview.js", SCRIPT),
    asset!("inbox.js", SCRIPT),
    asset!("ledger.js", SCRIPT),
    asset!("policy.js", SCRIPT),
    asset!("state.js", SCRIPT),
    asset!("vendor/LICENSES.txt", TEXT),
    asset!("vendor/preact.js", SCRIPT),
    asset!("vendor/hooks.js", SCRIPT),
    asset!("vendor/htm.js", SCRIPT),
];

/// Returns the type and the content of a file. A debug build reads it from the source tree where that exists, so that
/// a change needs no compilation.
pub(super) fn find(path: &str) -> Option<(&'static str, Bytes)> {
    let path = if path == "/" { "/index.html" } else { path };
    let (path, content_type, embedded) = ASSETS.into_iter().find(|(known, ..)| *known == path)?;
    let content = from_source_tree(path).unwrap_or(Bytes::from_static(embedded));
    Some((content_type, content))
}

#[cfg(debug_assertions)]
fn from_source_tree(path: &str) -> Option<Bytes> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/console");
    std::fs::read(format!("{folder}{path}")).ok().map(Bytes::from)
}

#[cfg(not(debug_assertions))]
fn from_source_tree(_: &str) -> Option<Bytes> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_fits_its_size_and_loads_nothing_from_elsewhere() {
        // The texts of the licences are served and never loaded.
        let loaded = ASSETS.iter().filter(|(_, content_type, _)| *content_type != TEXT);
        let all: usize = loaded.map(|(_, _, content)| content.len()).sum();
        assert!(all <= 120 * 1024, "{all} bytes");
        for (path, _, content) in ASSETS {
            let text = std::str::from_utf8(content).unwrap();
            let is_own = !path.starts_with("/vendor/");
            for word in ["innerHTML", "dangerouslySetInnerHTML", "eval(", "new Function", "document.write"] {
                assert!(!is_own || !text.contains(word), "{path} has `{word}`");
            }
            let urls = text.match_indices("https://").count();
            assert!(!is_own || urls == 0, "{path} names another server");
        }
    }

    #[test]
    fn only_listed_files_are_served() {
        assert_eq!(find("/").unwrap().0, HTML);
        assert!(find("/vendor/htm.js").is_some());
        for path in ["", "/../Cargo.toml", "/vendor/", "/vendor/../app.js", "//app.js", "/%61pp.js"] {
            assert!(find(path).is_none(), "{path}");
        }
    }
}
