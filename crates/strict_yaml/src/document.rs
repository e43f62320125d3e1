//! Named YAML text, and the only way to parse it into a type.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::error::DocumentError;
use crate::node::YamlNode;
use crate::scan::{NullValues, ScanError};
use crate::{number_text, scan, translate, trust};

/// Size limit of a file in bytes. A policy with a thousand tools needs a tenth of it.
pub const MAX_DOCUMENT_BYTES: u64 = 1024 * 1024;

/// YAML text with a display name.
#[derive(Clone, Debug)]
pub struct Document {
    name: Arc<str>,
    text: Arc<str>,
    /// Positions at which the values were written, by line and column, if this text was rendered from other
    /// documents.
    origins: Option<Arc<BTreeMap<(u64, u64), Origin>>>,
}

/// Position at which a value was written.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Document.
    pub document: Document,
    /// Line number from 1; 0 if unknown.
    pub line: u64,
    /// Column number from 1, in characters; 0 if unknown.
    pub column: u64,
}

impl Origin {
    /// Creates an error at this position.
    pub fn error(&self, message: &str) -> DocumentError {
        self.document.error_at(self.line, self.column, message)
    }
}

impl Document {
    /// Reads a file without checking its owner. It must be a regular file of at most `MAX_DOCUMENT_BYTES`.
    pub fn read(path: &Path) -> Result<Self, DocumentError> {
        let file = trust::open(path).map_err(|error| read_error(path, &error))?;
        Self::read_from(path, file)
    }

    /// Reads a file that only the current user or root can have changed.
    ///
    /// The check applies to the opened file, so that the file cannot be replaced between check and read.
    pub fn read_trusted(path: &Path) -> Result<Self, DocumentError> {
        let file = trust::open_trusted(path).map_err(|error| error.into_document_error(path))?;
        Self::read_from(path, file)
    }

    /// Like `read_trusted`, but returns `None` if the path does not exist. A dangling link counts as present.
    pub fn read_trusted_if_present(path: &Path) -> Result<Option<Self>, DocumentError> {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            _ => Self::read_trusted(path).map(Some),
        }
    }

    fn read_from(path: &Path, file: File) -> Result<Self, DocumentError> {
        let name = path.display().to_string();
        let metadata = file.metadata().map_err(|error| read_error(path, &error))?;
        if !metadata.is_file() {
            return Err(DocumentError::for_file(&name, "is not a regular file"));
        }
        let mut bytes = Vec::new();
        // Reading one byte past the limit detects a file that is too large, even if it grows meanwhile.
        file.take(MAX_DOCUMENT_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| read_error(path, &error))?;
        match String::from_utf8(bytes) {
            Ok(text) => Self::from_text(&name, &text),
            Err(error) => {
                let valid_bytes = error.utf8_error().valid_up_to();
                let message = format!("is not UTF-8: the byte at offset {valid_bytes} is not valid");
                Err(DocumentError::for_file(&name, &message))
            }
        }
    }

    /// Creates a document from a text in memory.
    pub fn from_text(display_name: &str, text: &str) -> Result<Self, DocumentError> {
        if text.len() as u64 > MAX_DOCUMENT_BYTES {
            let message = format!("is larger than {MAX_DOCUMENT_BYTES} bytes, the size limit");
            return Err(DocumentError::for_file(display_name, &message));
        }
        Ok(Document { name: display_name.into(), text: text.into(), origins: None })
    }

    /// Creates the document of a tree that was merged from other documents, with the origin of each position.
    pub(crate) fn rendered(name: &str, text: String, origins: BTreeMap<(u64, u64), Origin>) -> Self {
        Document { name: name.into(), text: text.into(), origins: Some(Arc::new(origins)) }
    }

    /// Returns the position at which the value at this position was written: in this document, or in the one
    /// that it was rendered from. Line 0 means the document as a whole.
    pub fn origin(&self, line: u64, column: u64) -> Origin {
        let here = || Origin { document: self.clone(), line, column };
        let Some(origins) = self.origins.as_ref().filter(|_| line > 0) else { return here() };
        origins.range(..=(line, column)).next_back().map_or_else(here, |(_, origin)| origin.clone())
    }

    /// Returns each line of the text with the origin of the last value on it.
    pub fn lines_with_origins(&self) -> impl Iterator<Item = (&str, Origin)> {
        let number = |index: usize| index as u64 + 1;
        self.text.lines().enumerate().map(move |(index, line)| (line, self.origin(number(index), u64::MAX)))
    }

    /// Returns the document with this name: this one, or one that it was rendered from.
    pub fn find_source(&self, name: &str) -> Option<&Document> {
        let mut sources = self.origins.iter().flat_map(|origins| origins.values()).map(|one| &one.document);
        if self.name() == name && self.origins.is_none() {
            return Some(self);
        }
        sources.find(|source| source.name() == name)
    }

    /// Parses the text into a type, which should use `deny_unknown_fields`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        scan::refuse_ambiguity(&self.text).map_err(|refused| self.scan_error(refused))?;
        let parsed = serde_saphyr::from_str_with_options(&self.text, translate::options())
            .map_err(|error| translate::translate(self, &error))?;
        self.refuse_text_as_number::<T>()?;
        Ok(parsed)
    }

    /// Refuses text where a number is expected: `"5"`, `1_000` or `0x10`.
    fn refuse_text_as_number<T: DeserializeOwned>(&self) -> Result<(), DocumentError> {
        let Some((masked, found)) = self.tree().ok().and_then(|tree| number_text::mask(&self.text, &tree))
        else {
            return Ok(());
        };
        let Err(error) = serde_saphyr::from_str_with_options::<T>(&masked, translate::options()) else {
            return Ok(());
        };
        let (line, column) = error
            .without_snippet()
            .location()
            .map_or((0, 0), |location| (location.line(), location.column()));
        match found.into_iter().find(|(at, _)| *at == (line, column)) {
            Some((_, text)) => {
                let error =
                    self.error_at(line, column, &format!("expected a number, found the text `{text}`"));
                Err(error.with_suggestion("write decimal digits only, without quotes or separators"))
            }
            None => Ok(()),
        }
    }

    /// Parses the text into a tree of values with their positions.
    pub fn tree(&self) -> Result<YamlNode, DocumentError> {
        scan::scan_into_tree(&self.text, NullValues::Refused).map_err(|refused| self.scan_error(refused))
    }

    /// Parses the text into a tree in which a value may be absent or null. The caller decides what that means
    /// for each key.
    pub fn tree_with_nulls(&self) -> Result<YamlNode, DocumentError> {
        scan::scan_into_tree(&self.text, NullValues::Admitted).map_err(|refused| self.scan_error(refused))
    }

    fn scan_error(&self, refused: ScanError) -> DocumentError {
        let error = self.error_at(refused.line, refused.column, &refused.message);
        DocumentError { suggestion: refused.suggestion, ..error }
    }

    /// Returns the display name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Creates an error at a position in this document, with an excerpt. Line 0 means the file as a whole.
    pub fn error_at(&self, line: u64, column: u64, message: &str) -> DocumentError {
        let origin = self.origin(line, column);
        let Document { name, text, .. } = &origin.document;
        DocumentError::at_position(name, text, origin.line, origin.column, message)
    }
}

fn read_error(path: &Path, error: &std::io::Error) -> DocumentError {
    let name = path.display().to_string();
    match error.kind() {
        ErrorKind::NotFound => DocumentError::for_file(&name, "does not exist"),
        _ => DocumentError::for_file(&name, &format!("cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use serde::Deserialize;

    use super::*;
    use crate::{Located, LocatedMap};

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Policy {
        #[serde(default)]
        tools: LocatedMap<Rules>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Rules {
        #[serde(default)]
        allowed_paths: Option<Located<Vec<Located<String>>>>,
        #[serde(default)]
        forbidden_paths: Option<Vec<String>>,
        #[serde(default)]
        requires_approval: bool,
        #[serde(default)]
        network: Option<Network>,
        #[serde(default)]
        rate_limit_per_hour: Option<u32>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Network {
        Off,
        Loopback,
    }

    fn parse(text: &str) -> Result<Policy, DocumentError> {
        Document::from_text("tools.yaml", text)?.parse()
    }

    #[test]
    fn keys_and_values_have_positions() {
        let text = "# a comment\ntools:\n  write_file:\n    allowed_paths:\n      - \"/a/**\"\n      - /b\n    network: off\n  other: {allowed_paths: [/c]}\n";
        let policy = parse(text).unwrap();
        let tools: Vec<_> = policy.tools.iter().collect();
        let (key, rules) = tools[0];
        assert_eq!((key.value.as_str(), key.line, key.column), ("write_file", 3, 3));
        assert_eq!(rules.network, Some(Network::Off), "`off` is a word, not false");
        let paths = rules.allowed_paths.as_ref().unwrap();
        assert_eq!((paths.line, paths.column), (5, 7), "a block list begins at its first dash");
        let places: Vec<_> = paths.iter().map(|p| (p.value.as_str(), p.line, p.column)).collect();
        assert_eq!(places, [("/a/**", 5, 9), ("/b", 6, 9)]);
        let (key, rules) = tools[1];
        assert_eq!((key.value.as_str(), key.line, key.column), ("other", 8, 3));
        let paths = rules.allowed_paths.as_ref().unwrap();
        assert_eq!((paths.line, paths.column, paths[0].column), (8, 26, 27));
    }

    /// Asserts that the text is refused at this position, with this message and suggestion.
    #[track_caller]
    fn check(text: &str, place: (u64, u64), message: &str, suggestion: Option<&str>) {
        let error = parse(text).expect_err(text);
        let known = error.suggestion.as_deref();
        let fits = known.is_some_and(|s| s.contains(suggestion.unwrap_or_default())) || suggestion == known;
        assert!(error.message.contains(message) && fits && error.file == "tools.yaml", "{text}\n{error}");
        assert_eq!((error.line, error.column), place, "{text}\n{error}");
        let shown = text.lines().nth(place.0 as usize - 1).unwrap_or_default();
        assert!(error.excerpt.contains(shown.trim_end()), "{error}");
    }

    #[test]
    fn errors_have_a_position_and_a_suggestion() {
        check(
            "tools:\n  a:\n    forbiden_paths: [/x]\n",
            (3, 5),
            "unknown key `forbiden_paths`",
            Some("did you mean `forbidden_paths`?"),
        );
        check("tools:\n  a: {zebra: 1}\n", (2, 7), "unknown key `zebra`", Some("known here: allowed_paths"));
        check("tolls: {}\n", (1, 1), "unknown key `tolls`", Some("`tools`"));
        check("tools:\n  a:\n    allowed_paths: /x\n", (3, 20), "expected", None);
        check("tools:\n  a:\n    requires_approval: yes\n", (3, 24), "expected `true` or `false`", None);
        check("tools:\n  a:\n    network: of\n", (3, 14), "unknown word `of`", Some("did you mean `off`?"));
        for wrong in ["1_000", "\"5\"", "'5'", "0x10", "1e3x", "5.0.0"] {
            check(&format!("tools:\n  a:\n    rate_limit_per_hour: {wrong}\n"), (3, 26), "", None);
        }
        let typed = |value: &str| format!("tools:\n  a:\n    rate_limit_per_hour: {value}\n");
        for text in ["1_000", "\"5\"", "'5'", "0x10"] {
            check(&typed(text), (3, 26), "expected a number", Some("without quotes or separators"));
        }
        for wrong in ["-1", "lots", "5000000000"] {
            check(&typed(wrong), (3, 26), "expected a whole number from 0 to 4294967295", None);
        }
        check("tools: [a]\n", (1, 8), "expected", None);
        check("tools:\n  a: {allowed_paths: [/x}\n", (2, 22), "not valid YAML", None);
        check("tools:\n  a: \"cut", (2, 6), "not valid YAML", None);
    }

    #[test]
    fn numbers_in_quotes_are_text_where_text_is_expected() {
        let text =
            "tools:\n  a:\n    allowed_paths: [\"5\", 1_000, 0x10, '007']\n    rate_limit_per_hour: 7\n";
        let policy: Policy = Document::from_text("p.yaml", text).unwrap().parse().unwrap();
        assert!(format!("{policy:?}").contains("1_000"), "{policy:?}");
    }

    #[test]
    fn duplicate_keys_are_refused() {
        let twice = "occurs twice in this mapping, first on line";
        check("tools: {}\ntools: {}\n", (2, 1), &format!("`tools` {twice} 1"), Some("remove one"));
        check("tools:\n  a: {}\n  b: {}\n  \"a\": {}\n", (4, 3), &format!("`a` {twice} 2"), Some("merge"));
        check(
            "tools:\n  a:\n    network: off\n    'network': off\n",
            (4, 5),
            "`network` occurs",
            Some("merge"),
        );
    }

    #[test]
    fn empty_files_and_null_values_are_refused() {
        for text in ["", "\n", "# only a comment\n", "---\n", "null\n", "~\n", "--- # nothing\n...\n"] {
            let error = parse(text).expect_err(text);
            assert!(error.message.contains("the file is empty"), "{text:?}: {error}");
            assert!(error.line >= 1 && error.column >= 1);
        }
        check("tools:\n", (1, 6), "the key `tools` has no value", Some("remove it"));
        check(
            "tools:\n  a:\n    forbidden_paths:\n    requires_approval: true\n",
            (3, 20),
            "`forbidden_paths`",
            Some("[]"),
        );
        check("tools:\n  a: {forbidden_paths: null}\n", (2, 24), "has no value", Some("[]"));
        check("tools:\n  a: {forbidden_paths: [/x, ~]}\n", (2, 29), "list item has no value", Some("$HOME"));
    }

    #[test]
    fn only_plain_yaml_is_accepted() {
        check("tools: {}\n---\ntools: {}\n", (2, 1), "a second document", Some("one document"));
        check("tools: !!map {}\n", (1, 8), "tags", Some("without its tag"));
        check("tools:\n  a: !!python/object:os.system {}\n", (2, 6), "tags", Some("tag"));
        check("tools:\n  a: {forbidden_paths: [!!binary aGk=]}\n", (2, 25), "tags", Some("tag"));
        check("tools: &t {}\n", (1, 11), "anchors", Some("write"));
        check("tools:\n  a: {}\n  <<: {b: {}}\n", (3, 3), "merge keys", None);
        check("tools:\n  ? [a]\n  : {}\n", (2, 5), "a key must be a word", None);
        let deep = format!("tools: {}{}", "[".repeat(33), "]".repeat(33));
        check(&deep, (1, 39), "nested deeper than 32", None);
    }

    #[test]
    fn unquoted_star_error_suggests_quotes() {
        check("tools:\n  a:\n    forbidden_paths:\n      - **/.env\n", (4, 9), "alias", Some("quote"));
        check("tools:\n  a: {forbidden_paths: [*.md]}\n", (2, 25), "alias", Some("quote"));
    }

    #[test]
    fn alias_and_nesting_bombs_fail_quickly() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for level in 1..10 {
            let before = format!("*a{},", level - 1).repeat(9);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(',')));
        }
        let started = Instant::now();
        let error =
            Document::from_text("bomb.yaml", &bomb).unwrap().parse::<BTreeMap<String, Located<String>>>();
        assert_eq!(error.unwrap_err().line, 1);
        let deep = Document::from_text("deep.yaml", &"[".repeat(500_000)).unwrap();
        assert!(deep.parse::<Vec<String>>().is_err());
        let wide = Document::from_text("wide.yaml", &format!("[{}]", "a,".repeat(400_000))).unwrap();
        assert!(wide.parse::<Vec<String>>().unwrap_err().message.contains("more than 120000 values"));
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    }

    #[test]
    fn large_policy_is_accepted() {
        let patterns = "/a/**,".repeat(100);
        let text: String = (0..1000).map(|n| format!("t{n}: {{paths: [{patterns}]}}\n")).collect();
        let document = Document::from_text("large.yaml", &text).unwrap();
        let tools: BTreeMap<String, BTreeMap<String, Vec<String>>> = document.parse().unwrap();
        assert_eq!((tools.len(), tools["t999"]["paths"].len()), (1000, 100));
    }

    #[test]
    fn file_size_and_encoding_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let check = |content: &[u8], expect: &str| {
            let path = folder.path().join("f.yaml");
            std::fs::write(&path, content).unwrap();
            let error = Document::read(&path).unwrap_err().to_string();
            assert!(error.contains(expect) && error.starts_with(&path.display().to_string()), "{error}");
        };
        check(&vec![b'#'; MAX_DOCUMENT_BYTES as usize + 1], "larger than 1048576 bytes");
        check(b"a: \xff", "not UTF-8: the byte at offset 3");
        let missing = Document::read(&folder.path().join("none.yaml")).unwrap_err();
        assert!(missing.to_string().ends_with("none.yaml: does not exist"));
        assert!(Document::read(folder.path()).unwrap_err().message.contains("not a regular file"));
        let fits = vec![b'#'; MAX_DOCUMENT_BYTES as usize];
        std::fs::write(folder.path().join("f.yaml"), fits).unwrap();
        Document::read(&folder.path().join("f.yaml")).unwrap();
    }
}
