//! What is asked of a reader, and what it answers. Both cross a pipe as JSON.

use serde::{Deserialize, Serialize};

/// One document and what is wanted of it. Its bytes follow the order on the pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What is wanted.
    pub purpose: Purpose,
    /// `Content-Type`, as sent.
    pub content_type: Option<String>,
    /// The codings that were applied to it, in their order.
    pub codings: Vec<String>,
    /// How much is decoded of it.
    pub most_bytes: u64,
}

/// What is wanted of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Its text.
    Page {
        /// Where it came from: links in it are relative to that.
        url: String,
        /// How much of it.
        view: View,
    },
    /// The results that a search engine lists in it.
    Results {
        /// Whose page it is.
        engine: Engine,
        /// How many of them.
        most: usize,
    },
    /// Whether a `robots.txt` lets us have a page.
    Robots {
        /// The path of the page, with its query.
        path: String,
    },
}

/// How much of a page is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// What it is about, without menus and the like.
    #[default]
    Readable,
    /// All its text.
    Whole,
    /// As it was sent.
    Source,
}

/// Whose results a document lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// `html.duckduckgo.com`.
    DuckduckgoHtml,
    /// `lite.duckduckgo.com`.
    DuckduckgoLite,
    /// A SearXNG of one's own, in JSON.
    Searxng,
    /// The Brave search service.
    Brave,
    /// The Tavily search service.
    Tavily,
}

/// What was made of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Its text.
    Page(PageText),
    /// What the search engine says.
    Results(Found),
    /// Whether it lets us have the page.
    Robots(bool),
    /// Its bytes are not what its headers say.
    Undecodable(String),
}

/// What kind of document it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// HTML.
    Html,
    /// JSON.
    Json,
    /// Text of any other sort.
    Text,
    /// A PDF. Recognised; its text is not read.
    Pdf,
    /// Anything else.
    Binary,
}

/// The text of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageText {
    /// What it is.
    pub kind: Kind,
    /// Its characters were written so.
    pub charset: Option<String>,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// How the text was made of it; a page without an article is given whole.
    pub view: View,
    /// Its text. Empty for what has none.
    pub text: String,
    /// How many bytes it has, decoded.
    pub bytes: u64,
    /// Whether there would have been more.
    pub is_cut: bool,
    /// What the reader had to leave out or do otherwise.
    pub note: Option<String>,
}

/// What a search engine says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Results.
    Hits(Vec<Hit>),
    /// That there are none.
    Nothing,
    /// Neither: why.
    Failing(Failing, String),
}

/// Why a page of results has none and does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failing {
    /// It takes us for a robot.
    Blocked,
    /// It looks otherwise than it used to.
    ParseChanged,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// Its title.
    pub title: String,
    /// Where it is, without redirects that track.
    pub url: String,
    /// What the engine shows of it.
    pub snippet: String,
    /// When it was published, in the engine's words.
    pub published: Option<String>,
}
