//! Approval requests as the operator sees them: every line consists of visible characters.

#![no_main]

use approvals::{ApprovalRequest, escape_for_display};
use serde_json::json;
use tool::text::is_invisible;

fn is_shown(text: &str) -> bool {
    text.chars().all(|c| c == ' ' || !is_invisible(c))
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    let shown = escape_for_display(text);
    assert!(is_shown(&shown), "{shown:?}");
    let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
    // Two texts that look the same would let one be approved for the other.
    assert_eq!(
        first == second,
        escape_for_display(first) == escape_for_display(second),
        "{first:?} {second:?}"
    );
    let fact = json!([{"label": "writes", "text": text}, {"label": first, "text": second}]);
    let request: ApprovalRequest = serde_json::from_value(json!({
        "id": "a", "tool": "t", "summary": text, "effect": fact, "changes": [], "arguments": fact,
        "asked_by": [], "caller": first, "session": second, "call_id": "01890000-0000-7000-8000-000000000000",
        "trace_id": "0", "risk": "high", "mode": "NORMAL", "masked": 0,
        "requested_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:01:00Z",
    }))
    .expect("a request");
    for line in request.lines() {
        assert!(is_shown(&line.text), "{:?}", line.text);
    }
});
