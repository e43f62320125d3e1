//! Single pass over the tokens of a page, without building a tree: text, title and nesting depth. A page that
//! is nested too deeply is never passed to code that builds a tree.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// Result of the token pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenScan {
    pub(crate) text: String,
    pub(crate) title: Option<String>,
    pub(crate) depth: usize,
}

/// Scans the tokens of a page for its text, title and nesting depth.
pub(crate) fn scan_tokens(html: &str) -> TokenScan {
    let tokenizer = Tokenizer::new(TokenCollector::default(), TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(html));
    while !queue.is_empty() {
        let _ = tokenizer.feed(&queue);
    }
    tokenizer.end();
    let state = tokenizer.sink.0.into_inner();
    let title = Some(state.title.split_whitespace().collect::<Vec<_>>().join(" "));
    TokenScan {
        text: normalize_lines(&state.text),
        title: title.filter(|title| !title.is_empty()),
        depth: state.deepest,
    }
}

/// Returns the text of a short piece of HTML, such as a snippet with bold words.
pub(crate) fn plain_text(html: &str) -> String {
    scan_tokens(html).text
}

#[derive(Default)]
struct TokenCollector(RefCell<TokenScanState>);

#[derive(Default)]
struct TokenScanState {
    text: String,
    title: String,
    open: usize,
    deepest: usize,
    /// Enclosing element whose text is not shown.
    hidden: Option<&'static str>,
    in_title: bool,
}

/// Elements whose text is meant for programs and not shown to readers.
const HIDDEN_ELEMENTS: [&str; 6] = ["script", "style", "template", "noscript", "svg", "iframe"];
/// Elements without content or with an implied end tag, which therefore do not nest.
const NON_NESTING_ELEMENTS: [&str; 36] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr", "p", "li", "dt", "dd", "option", "optgroup", "tr", "td", "th", "thead", "tbody", "tfoot",
    "colgroup", "caption", "rt", "rp", "html", "head", "body", "title", "script", "style",
];
/// Elements that do not break a line.
const INLINE_ELEMENTS: [&str; 22] = [
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "em", "font", "i", "kbd", "mark", "q", "s", "small",
    "span", "strong", "sub", "sup", "time", "u", "wbr",
];

impl TokenSink for TokenCollector {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut state = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => state.tag(&tag),
            Token::CharacterTokens(text) => {
                state.characters(&text);
                TokenSinkResult::Continue
            }
            _ => TokenSinkResult::Continue,
        }
    }
}

impl TokenScanState {
    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let is_start_tag = tag.kind == TagKind::StartTag;
        if !INLINE_ELEMENTS.contains(&name) && self.hidden.is_none() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        if name == "title" && self.hidden.is_none() {
            self.in_title = is_start_tag && self.title.is_empty();
        }
        if is_start_tag && !tag.self_closing && !NON_NESTING_ELEMENTS.contains(&name) {
            self.open += 1;
            self.deepest = self.deepest.max(self.open);
        } else if !is_start_tag && !NON_NESTING_ELEMENTS.contains(&name) {
            self.open = self.open.saturating_sub(1);
        }
        match (HIDDEN_ELEMENTS.iter().find(|hidden| **hidden == name), is_start_tag, self.hidden) {
            (Some(hidden), true, None) if !tag.self_closing => self.hidden = Some(hidden),
            (Some(hidden), false, Some(hidden_element)) if *hidden == hidden_element => self.hidden = None,
            _ => {}
        }
        match (name, is_start_tag) {
            ("script", true) => TokenSinkResult::RawData(RawKind::ScriptData),
            ("style" | "iframe" | "noscript", true) => TokenSinkResult::RawData(RawKind::Rawtext),
            ("title" | "textarea", true) => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::Continue,
        }
    }

    fn characters(&mut self, text: &str) {
        match (self.in_title, self.hidden) {
            (true, _) => self.title.push_str(text),
            (false, None) => self.text.push_str(text),
            (false, Some(_)) => {}
        }
    }
}

/// Trims lines and reduces runs of empty lines to one.
fn normalize_lines(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut empty = 2;
    for line in text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")) {
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            tidied.push_str(&line);
            tidied.push('\n');
        }
    }
    tidied.truncate(tidied.trim_end().len());
    tidied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_title_are_read_without_scripts() {
        let page = "<title> A &amp;\n B </title><style>p{}</style><h1>Head</h1><p>One <b>two</b>&nbsp;three\
                    <script>if (a < b) alert('<p>no')</script><p>four<br>five<svg><title>no</title></svg>";
        let skimmed = scan_tokens(page);
        assert_eq!(skimmed.title.as_deref(), Some("A & B"));
        assert_eq!(skimmed.text, "Head\n\nOne two three\n\nfour\nfive");
        assert_eq!(plain_text("a <strong>b</strong> &lt;c&gt;"), "a b <c>");
    }

    #[test]
    fn endless_tags_are_counted_without_a_tree() {
        assert_eq!(scan_tokens(&"<div>".repeat(100_000)).depth, 100_000);
        assert!(scan_tokens(&"<p>x".repeat(10_000)).depth < 2, "a paragraph ends at the next one");
        assert_eq!(scan_tokens("<div><div></div></div><div></div>").depth, 2);
        assert!(scan_tokens(&"&lol;&amp;".repeat(10_000)).text.len() < 100_000, "entities do not grow");
    }
}
