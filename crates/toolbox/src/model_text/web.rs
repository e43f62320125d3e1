//! Outputs of the web tools. They begin with the notice that the text is not from the user.

use serde_json::Value;

use super::{flag, number, push_line, text};

pub(super) fn page(output: &Value) -> Option<String> {
    let (status, url, body) = (number(output, "status")?, text(output, "url")?, text(output, "text")?);
    let title = text(output, "title").map(|title| format!(": {title}")).unwrap_or_default();
    let mut shown = format!("{status} {url}{title}");
    push_line(&mut shown, text(output, "notice").unwrap_or_default());
    shown.push_str("\n\n");
    shown.push_str(body);
    if flag(output, "source_cut") {
        push_line(&mut shown, "[the page was cut at the size limit]");
    }
    if let Some(note) = text(output, "note") {
        push_line(&mut shown, &format!("[{note}]"));
    }
    Some(shown)
}

pub(super) fn results(output: &Value) -> Option<String> {
    let results = output.get("results")?.as_array()?;
    if results.is_empty() {
        return Some(match text(output, "outcome")? {
            "empty" => "no results".to_owned(),
            outcome => format!("no provider answered ({outcome}); this does not mean that there are none"),
        });
    }
    let mut shown = text(output, "notice").unwrap_or_default().to_owned();
    for (index, result) in results.iter().enumerate() {
        push_line(&mut shown, &format!("{}. {}", index + 1, text(result, "title")?));
        push_line(&mut shown, text(result, "url")?);
        push_line(&mut shown, text(result, "snippet").unwrap_or_default());
    }
    Some(shown)
}
