//! Reader of pages from the network: a reply for every document, within the limit of its text.

#![no_main]

use web_content::{ExtractionPurpose, ExtractionReply, ExtractionRequest, PagePart, SearchEngine};

const MOST: u64 = 16 * 1024;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((choice, document)) = data.split_first() else { return };
    let url = "https://example.org/a/b".to_owned();
    let purpose = match choice % 6 {
        0 => ExtractionPurpose::Page { url, view: PagePart::Readable },
        1 => ExtractionPurpose::Page { url, view: PagePart::Whole },
        2 => ExtractionPurpose::Page { url, view: PagePart::Source },
        3 => ExtractionPurpose::Results { engine: SearchEngine::DuckduckgoHtml, most: 5 },
        4 => ExtractionPurpose::Results { engine: SearchEngine::Searxng, most: 5 },
        _ => ExtractionPurpose::Robots { path: "/a?b".to_owned() },
    };
    let codings = [vec![], vec!["gzip"], vec!["br"], vec!["zstd"], vec!["deflate"]];
    let codings = codings[usize::from(choice / 6) % 5].iter().map(|name| (*name).to_owned()).collect();
    let content_type = Some("text/html; charset=utf-8".to_owned()).filter(|_| choice & 128 == 0);
    let request = ExtractionRequest { purpose, content_type, codings, most_bytes: MOST };
    let sent = web_content::write_request(&request, document).expect("a request");
    let mut reply = Vec::new();
    web_content::serve(sent.as_slice(), &mut reply).expect("a reply");
    if let ExtractionReply::Results(found) = web_content::read_reply(&reply).expect("a reply that parses") {
        drop(found);
    }
});
