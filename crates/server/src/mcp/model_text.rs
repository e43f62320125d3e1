//! Rendering of a result for a language model: the text of the tool, or the reason why there is none. The
//! structured result, with digests, rules and receipts, is sent beside it and is not repeated here.

use serde_json::{Map, Value};
use tool::result::{ModelContent, ModelText, Truncation, text_block};
use tool::{Refusal, RefusalCode, ToolResult};

/// Renders a result as MCP content blocks.
pub(crate) fn content_blocks(result: &ToolResult) -> Vec<Value> {
    if let Some(repeat) = result.metadata.repeat.as_ref().filter(|_| result.success) {
        let ran = format!("This call already ran to completion as call {}.", repeat.of);
        return vec![text_block(format!(
            "{ran} It was not run again, and its earlier output is not stored."
        ))];
    }
    let mut blocks = match (&result.metadata.refusal, result.success) {
        (Some(refusal), false) => vec![text_block(refusal_text(refusal))],
        (_, true) => tool_blocks(result),
        (None, false) => failure_blocks(result),
    };
    let cut = result.metadata.truncated.as_ref().filter(|_| result.success);
    blocks.extend(cut.map(|cut| text_block(truncation_text(cut))));
    let edited = result.metadata.edited_arguments.as_ref().filter(|_| result.success);
    blocks.extend(edited.map(|arguments| {
        let arguments = Value::Object(arguments.clone());
        text_block(format!("The user edited the arguments before approving; the call ran with: {arguments}"))
    }));
    blocks
}

/// Renders the output of the tool. Output for a worker is wrapped in markers that the output cannot contain.
fn tool_blocks(result: &ToolResult) -> Vec<Value> {
    match &result.model_content {
        ModelContent::Blocks(blocks) => blocks.iter().map(|block| wrapped_block(result, block)).collect(),
        ModelContent::Text(ModelText(render)) => {
            let rendered = render(&result.output).unwrap_or_else(|| result.output.to_string());
            vec![text_block(wrapped(result, rendered))]
        }
        ModelContent::Json => vec![text_block(wrapped(result, result.output.to_string()))],
    }
}

fn wrapped(result: &ToolResult, text: String) -> String {
    match &result.metadata.session {
        Some(session) => session.untrusted.wrap(&text),
        None => text,
    }
}

/// Wraps the texts in a block of an upstream server: that of a text block or of an embedded resource.
fn wrapped_block(result: &ToolResult, block: &Value) -> Value {
    let mut block = block.clone();
    for pointer in ["/text", "/resource/text"] {
        if let Some(Value::String(text)) = block.pointer_mut(pointer) {
            *text = wrapped(result, std::mem::take(text));
        }
    }
    block
}

fn failure_blocks(result: &ToolResult) -> Vec<Value> {
    // The server behind the tool has worded its error for a model.
    if matches!(result.model_content, ModelContent::Blocks(_)) {
        return tool_blocks(result);
    }
    let mut blocks = vec![text_block(wrapped(result, failure_text(result)))];
    if result.output.as_object().is_some_and(|output| output.keys().any(|key| key != "outcome")) {
        let rendered = match &result.model_content {
            ModelContent::Text(ModelText(render)) => render(&result.output),
            ModelContent::Json | ModelContent::Blocks(_) => None,
        };
        let partial = rendered.unwrap_or_else(|| result.output.to_string());
        blocks.push(text_block(wrapped(result, format!("Output so far:\n{partial}"))));
    }
    blocks
}

fn failure_text(result: &ToolResult) -> String {
    let mut lines = vec![result.error.clone().unwrap_or_else(|| "The tool failed.".to_owned())];
    let failure = result.metadata.failure.as_ref();
    let hint = failure.and_then(|failure| failure.hint.as_deref()).and_then(without_operator_commands);
    lines.extend(hint);
    // A repeat gets the recorded failure again.
    if failure.is_some_and(|failure| failure.retryable) && result.metadata.repeat.is_none() {
        lines.push("The same call may succeed later.".to_owned());
    }
    lines.join("\n")
}

fn truncation_text(cut: &Truncation) -> String {
    let (returned, total, unit) = (cut.returned, cut.total, cut.unit.as_str());
    format!("[{returned} of {total} {unit} shown; {}]", cut.how_to_continue)
}

/// Formats a refusal for the model: the reason, each problem once, and the shortest way to a call that
/// passes. The rule and its file are for programs and people, who find them in `_meta`.
pub(super) fn refusal_text(refusal: &Refusal) -> String {
    if refusal.problems.is_empty() {
        return denial_text(refusal);
    }
    // The name as `tools/list` shows it.
    let mut lines = vec![format!("Invalid {} call:", refusal.tool.replace('.', "__"))];
    lines.extend(refusal.problems.iter().map(|problem| {
        let field = problem.pointer.rsplit('/').next().unwrap_or_default();
        let names_field = field.is_empty() || problem.message.contains(field);
        let place = if names_field { String::new() } else { format!("{}: ", problem.pointer) };
        format!("- {place}{}", problem.message)
    }));
    if let Some(repair) = &refusal.repair {
        lines.push(format!("Call again with: {}", compact(&repair.arguments)));
    } else if let Some(example) = &refusal.example {
        lines.push(format!("Example: {example}"));
    }
    lines.join("\n")
}

/// Formats a refusal without argument problems.
fn denial_text(refusal: &Refusal) -> String {
    if let (RefusalCode::ApprovalPending, Some(id)) = (refusal.code, &refusal.approval_id) {
        // Not in the words of a denial, after which a model gives up.
        return format!(
            "This call needs approval, and the operator was asked (approval {id}). Nothing was run yet: call again \
             with the same arguments to continue."
        );
    }
    let mut lines = vec![refusal.reason.clone()];
    // The rule is named without its file.
    let location = refusal.rule.as_ref().map(|rule| match rule.line {
        0 => format!(" ({})", rule.file),
        line => format!(" ({} line {line})", rule.file),
    });
    let hint = refusal.hint.as_deref().map(|hint| match &location {
        Some(location) => hint.replace(location, ""),
        None => hint.to_owned(),
    });
    let hint = hint.as_deref().and_then(without_operator_commands);
    lines.extend(hint.filter(|hint| !refusal.reason.contains(hint.as_str())));
    if let Some(repair) = &refusal.repair {
        lines.push(format!("Call again with: {}", compact(&repair.arguments)));
    } else if let Some(example) = refusal.example.as_ref().filter(|_| refusal.retryable) {
        let example = example.to_string();
        lines.extend((!refusal.reason.contains(&example)).then(|| format!("Example: {example}")));
    }
    match (refusal.retryable, refusal.retry_after_ms) {
        (true, Some(wait)) => lines.push(format!("Try again after {wait} ms.")),
        (true, None) => {}
        (false, _) if refusal.code == RefusalCode::Cancelled => {}
        (false, _) => lines.push("Retrying the same call will not help.".to_owned()),
    }
    lines.join("\n")
}

fn compact(arguments: &Map<String, Value>) -> Value {
    Value::Object(arguments.clone())
}

/// Removes the clauses of a hint that tell the reader to run `sinew` or to edit its configuration, which a model
/// cannot do. Returns `None` if nothing is left.
fn without_operator_commands(hint: &str) -> Option<String> {
    let is_for_operator = |text: &str| text.contains("`sinew ") || text.contains(".yaml");
    if !is_for_operator(hint) {
        return Some(hint.to_owned());
    }
    let clauses = hint.split("; ").flat_map(|clause| clause.split(", or "));
    let kept: Vec<&str> = clauses.filter(|clause| !is_for_operator(clause)).collect();
    (!kept.is_empty()).then(|| kept.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::refusal::{ArgumentProblem, Repair};
    use tool::result::ResultMetadata;
    use tool::{CallId, Failure, FailureKind, Mode, RuleRef, ToolOutput, TraceContext};

    use super::*;

    fn metadata() -> ResultMetadata {
        ResultMetadata::new(CallId::fresh(), &TraceContext::root(), Mode::Normal, "policy")
    }

    fn texts(result: &ToolResult) -> Vec<String> {
        let text = |block: &Value| block["text"].as_str().unwrap_or_default().to_owned();
        content_blocks(result).iter().map(text).collect()
    }

    fn problem(pointer: &str, message: &str) -> ArgumentProblem {
        let (pointer, message) = (pointer.into(), message.into());
        ArgumentProblem { pointer, expected: "x".into(), got: "y".into(), message }
    }

    #[test]
    fn refusal_lists_each_problem_once_and_the_repair() {
        let mut refusal = Refusal::new("write_file", RefusalCode::InvalidArguments, "`path` and more")
            .with_hint("send the call again with the problems corrected; `repair` is accepted")
            .with_rule(RuleRef { file: "tools.yaml".into(), line: 4, id: "write_file.x".into() });
        refusal.problems = vec![problem("/path", "`path` must be a string"), problem("/a/b", "is wrong")];
        refusal.example = Some(json!({"path": "a"}));
        let invalid = "Invalid write_file call:\n- `path` must be a string\n- /a/b: is wrong\n";
        assert_eq!(refusal_text(&refusal), format!("{invalid}Example: {{\"path\":\"a\"}}"));
        let arguments = json!({"path": "5"}).as_object().unwrap().clone();
        refusal.repair = Some(Repair { arguments, note: "5 as text".into() });
        assert_eq!(refusal_text(&refusal), format!("{invalid}Call again with: {{\"path\":\"5\"}}"));
    }

    #[test]
    fn denial_names_no_file_and_no_operator_command() {
        let check = |hint: &str, expect: &str| {
            let rule = RuleRef { file: "/home/u/tools.yaml".into(), line: 69, id: "forbidden_paths".into() };
            let denied = Refusal::new("t", RefusalCode::PathForbidden, "Permission denied: no");
            let text = refusal_text(&denied.with_hint(hint).with_rule(rule));
            let expect: Vec<&str> =
                ["Permission denied: no", expect].into_iter().filter(|line| !line.is_empty()).collect();
            assert_eq!(text, format!("{}\nRetrying the same call will not help.", expect.join("\n")));
        };
        check("`forbidden_paths` (/home/u/tools.yaml line 69) forbids it", "`forbidden_paths` forbids it");
        check(
            "use a path inside /w, or ask the operator to run `sinew workspace add DIR`",
            "use a path inside /w",
        );
        check("nothing was run; run `sinew doctor` to see what is missing", "nothing was run");
        check("run `sinew doctor` to see why", "");
        check("install `ruff`; or add its folder to `program_folders` in tools.yaml", "install `ruff`");
    }

    #[test]
    fn pending_approval_does_not_read_like_a_denial() {
        let mut pending =
            Refusal::new("t", RefusalCode::ApprovalPending, "Permission denied: Approval is pending");
        pending.approval_id = Some("a1".into());
        let expect = "This call needs approval, and the operator was asked (approval a1). Nothing was run yet: call again with \
            the same arguments to continue.";
        assert_eq!(refusal_text(&pending.with_hint("run `sinew approve a1`")), expect);
    }

    #[test]
    fn outcome_word_of_a_failure_is_not_repeated_as_json() {
        let mut failure = Failure::new(FailureKind::NotFound, "`r` has no commits yet");
        failure.output = Some(json!({"outcome": "unknown_revision"}));
        let result = ToolResult::failed("git_log", failure, metadata(), 0.0);
        assert_eq!(texts(&result), ["`r` has no commits yet"]);
    }

    #[test]
    fn retry_advice_is_given_only_where_it_helps() {
        let mut busy = Refusal::new("t", RefusalCode::RateLimited, "too many");
        busy.retry_after_ms = Some(20);
        assert_eq!(refusal_text(&busy), "too many\nTry again after 20 ms.");
        busy.retry_after_ms = None;
        assert_eq!(refusal_text(&busy), "too many");
    }

    #[test]
    fn failure_keeps_the_partial_output_in_the_form_of_the_tool() {
        let mut failure = Failure::new(FailureKind::TimedOut, "Command timed out").with_hint("ask for less");
        failure.output = Some(json!({"stdout": "half"}));
        let result = ToolResult::failed("t", failure, metadata(), 0.0);
        let text = "Command timed out\nask for less\nThe same call may succeed later.";
        assert_eq!(texts(&result), [text, "Output so far:\n{\"stdout\":\"half\"}"]);
        let render = ModelText(|output| Some(output["stdout"].as_str()?.to_owned()));
        assert_eq!(texts(&result.with_model_text(Some(render))), [text, "Output so far:\nhalf"]);
    }

    #[test]
    fn repeat_of_a_failure_gives_no_advice_to_retry() {
        let mut metadata = metadata();
        let repeat = json!({"of": CallId::fresh(), "outcome": "failed", "at": "2026-11-18T10:00:00Z"});
        metadata.repeat = Some(serde_json::from_value(repeat).unwrap());
        let failure = Failure::new(FailureKind::TimedOut, "Command timed out");
        assert_eq!(texts(&ToolResult::failed("t", failure, metadata, 0.0)), ["Command timed out"]);
    }

    #[test]
    fn blocks_of_an_upstream_server_pass_unchanged() {
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        let content = vec![text_block("a"), image];
        let output = ToolOutput { value: json!({"n": 1}), content: content.clone(), ..ToolOutput::default() };
        let result = ToolResult::done("t", output, metadata(), 0.0);
        assert_eq!(content_blocks(&result), content);
        let mut failure = Failure::new(FailureKind::Crashed, "the server's tool reported an error: a");
        failure.content = content.clone();
        assert_eq!(content_blocks(&ToolResult::failed("t", failure, metadata(), 0.0)), content);
    }

    #[test]
    fn truncated_output_says_how_to_continue() {
        let mut result =
            ToolResult::done("t", ToolOutput { value: json!("x"), ..ToolOutput::default() }, metadata(), 0.0);
        result.metadata.truncated = Some(Truncation {
            unit: tool::result::TruncationUnit::Bytes,
            total: 9,
            returned: 1,
            how_to_continue: "call again with offset=1".into(),
        });
        assert_eq!(texts(&result), ["\"x\"", "[1 of 9 bytes shown; call again with offset=1]"]);
    }
}
