//! Request to a worker and its reply. Both cross a pipe as JSON.

use serde::{Deserialize, Serialize};

/// Request for one document. The bytes of the document follow on the pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractionRequest {
    /// Requested result.
    pub purpose: ExtractionPurpose,
    /// `Content-Type` header, as received.
    pub content_type: Option<String>,
    /// Content codings in the order in which they were applied.
    pub codings: Vec<String>,
    /// Maximum number of bytes to decode.
    pub max_bytes: u64,
}

/// Result requested from a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtractionPurpose {
    /// Text of the page.
    Page {
        /// Address of the page, to which its links are relative.
        url: String,
        /// Part of the page to return.
        view: PagePart,
    },
    /// Search results listed in the page.
    Results {
        /// Search engine that produced the page.
        engine: SearchEngine,
        /// Maximum number of results.
        max: usize,
    },
    /// Check of a path against `robots.txt`.
    Robots {
        /// Path of the page, with its query.
        path: String,
    },
}

/// Part of a page to return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PagePart {
    /// Main content, without menus and similar parts.
    #[default]
    Readable,
    /// Complete text.
    Whole,
    /// Source as received.
    Source,
}

/// Search engine that produced a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchEngine {
    /// `html.duckduckgo.com`.
    DuckduckgoHtml,
    /// `lite.duckduckgo.com`.
    DuckduckgoLite,
    /// Self-hosted SearXNG instance, in JSON.
    Searxng,
    /// The Brave search service.
    Brave,
    /// The Tavily search service.
    Tavily,
}

/// Result extracted from a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtractionReply {
    /// Text of the page.
    Page(PageText),
    /// Answer of the search engine.
    Results(SearchOutcome),
    /// True if `robots.txt` allows the page.
    Robots(bool),
    /// The bytes do not match the headers.
    Undecodable(String),
}

/// Kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    /// HTML.
    Html,
    /// JSON.
    Json,
    /// Other text.
    Text,
    /// PDF, whose text is not extracted.
    Pdf,
    /// Anything else.
    Binary,
}

/// Text of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageText {
    /// Kind of the document.
    pub kind: DocumentKind,
    /// Character set of the document.
    pub charset: Option<String>,
    /// Title, if there is one.
    pub title: Option<String>,
    /// Part that was returned; a page without an article is returned whole.
    pub view: PagePart,
    /// Text; empty for documents without text.
    pub text: String,
    /// Decoded size in bytes.
    pub bytes: u64,
    /// True if the document was truncated.
    pub is_cut: bool,
    /// Note about omitted parts or a different treatment.
    pub note: Option<String>,
}

/// Answer of a search engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutcome {
    /// Results.
    Hits(Vec<WebSearchHit>),
    /// Statement that there are no results.
    Nothing,
    /// Neither, with the reason.
    Failing(SearchFailure, String),
}

/// Reason why a result page contains neither results nor a statement that there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchFailure {
    /// The engine takes the client for a robot.
    Blocked,
    /// The layout of the page has changed.
    ParseChanged,
}

/// One search result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSearchHit {
    /// Title.
    pub title: String,
    /// Address, without tracking redirects.
    pub url: String,
    /// Extract shown by the engine.
    pub snippet: String,
    /// Publication date, as written by the engine.
    pub published: Option<String>,
}
