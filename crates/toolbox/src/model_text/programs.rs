//! Outputs of tools that run programs or read their logs.

use serde_json::Value;
use tool::text::program_output;

use super::{flag, items, number, push_line, text};

pub(super) fn command(output: &Value) -> Option<String> {
    let end = match (text(output, "end")?, output.get("exit_code")?.as_i64()?) {
        ("exited", 0) => None,
        ("exited" | "signalled", code) => Some(format!("exit code {code}")),
        (end, _) => Some(format!("ended by: {end}")),
    };
    let stream = |name: &str| {
        let content = text(output, name)?;
        let is_base64 = text(output, &format!("{name}_encoding")) == Some("base64") && !content.is_empty();
        Some(if is_base64 { format!("base64:\n{content}") } else { content.to_owned() })
    };
    let (stdout, stderr) = (stream("stdout")?, stream("stderr")?);
    let mut shown = String::new();
    // First, because some hosts show a model only the start of a long result.
    for name in ["stdout", "stderr"] {
        if let Some(id) = output.get(format!("{name}_spill")).and_then(|spill| text(spill, "id")) {
            push_line(&mut shown, &format!("[whole {name}: read_output id={id}]"));
        }
    }
    push_line(&mut shown, &program_output(end.as_deref(), &stdout, &stderr));
    // How to grant an operation is for the operator, who finds it in the structured output.
    for denial in items(output, "denied") {
        push_line(&mut shown, &format!("[denied by the sandbox: {}]", text(denial, "message")?));
    }
    if let Some(note) = text(output, "note").filter(|_| items(output, "denied").is_empty()) {
        push_line(&mut shown, &format!("[{note}]"));
    }
    let quarantined = output.get("sandbox").map(|sandbox| items(sandbox, "quarantined")).unwrap_or_default();
    push_quarantined(&mut shown, quarantined);
    Some(shown)
}

fn push_quarantined(shown: &mut String, files: &[Value]) {
    for path in files.iter().filter_map(|file| text(file, "path")) {
        push_line(shown, &format!("[moved to quarantine, because other programs would run it: {path}]"));
    }
}

pub(super) fn tests(output: &Value) -> Option<String> {
    let mut shown = text(output, "outcome")?.to_owned();
    if let Some(counts) = output.get("counts").filter(|counts| !counts.is_null()) {
        let count = |key: &str| number(counts, key).unwrap_or(0);
        let (passed, failed) = (count("passed"), count("failed"));
        let (errors, skipped) = (count("errors"), count("skipped"));
        shown.push_str(&format!(": {passed} passed, {failed} failed, {errors} errors, {skipped} skipped"));
    }
    let failures = items(output, "failures");
    let is_unexplained = failures.is_empty() && text(output, "outcome") != Some("passed");
    if is_unexplained || !failures.is_empty() {
        push_notice(&mut shown, output);
    }
    for failure in failures {
        push_line(&mut shown, &format!("FAILED {}: {}", text(failure, "name")?, text(failure, "message")?));
        push_line(&mut shown, text(failure, "output").unwrap_or_default());
    }
    if is_unexplained {
        push_line(&mut shown, text(output, "output").unwrap_or_default());
    }
    push_quarantined(&mut shown, items(output, "quarantined"));
    Some(shown)
}

pub(super) fn findings(output: &Value) -> Option<String> {
    let mut shown = String::new();
    let findings = output.get("findings")?.as_array()?;
    if !findings.is_empty() {
        push_notice(&mut shown, output);
    }
    for finding in findings {
        let line_and_column =
            ["line", "column"].map(|key| number(finding, key).map(|number| format!(":{number}")));
        let line_and_column = line_and_column.into_iter().flatten().collect::<String>();
        let code = text(finding, "code").map(|code| format!("{code} ")).unwrap_or_default();
        let (file, message) = (text(finding, "file")?, text(finding, "message")?);
        push_line(&mut shown, &format!("{file}{line_and_column}: {code}{message}"));
    }
    if flag(output, "clean") {
        shown.push_str("no findings");
    }
    if let Some(note) = text(output, "note") {
        push_line(&mut shown, &format!("[{note}]"));
    }
    Some(shown)
}

pub(super) fn log_entries(output: &Value) -> Option<String> {
    let mut shown = String::new();
    let entries = output.get("entries")?.as_array()?;
    if entries.is_empty() {
        shown.push_str("no entries");
    } else {
        push_notice(&mut shown, output);
    }
    for entry in entries {
        let pid = entry.get("pid").and_then(Value::as_i64).map(|pid| format!("[{pid}]"));
        let process = text(entry, "process").map(|name| format!("{name}{}:", pid.unwrap_or_default()));
        let parts = [text(entry, "time"), text(entry, "level"), process.as_deref(), text(entry, "message")];
        push_line(&mut shown, &parts.into_iter().flatten().collect::<Vec<_>>().join(" "));
    }
    if let Some(limit) = text(output, "stopped_by") {
        push_line(&mut shown, &format!("[the search was ended by its limit of {limit}]"));
    }
    if let Some(note) = text(output, "note") {
        push_line(&mut shown, &format!("[{note}]"));
    }
    Some(shown)
}

/// Adds the notice that the following text was written by other programs.
fn push_notice(shown: &mut String, output: &Value) {
    if let Some(notice) = text(output, "notice") {
        push_line(shown, notice);
    }
}
