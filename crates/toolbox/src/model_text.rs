//! Texts that language models receive as outputs of the built-in tools: the content itself, without digests
//! and receipts. Programs use the JSON value, which has everything.
//!
//! A tool that is not listed here, because a model needs all of its fields, is shown as JSON.

mod files;
mod programs;
mod repositories;
mod web;

use serde_json::Value;
use tool::result::ModelText;

/// Returns the function that renders the output of a built-in tool.
pub fn renderer(tool: &str) -> Option<ModelText> {
    let render: fn(&Value) -> Option<String> = match tool {
        "read_file" => files::file_content,
        "read_output" => files::stored_output,
        "write_file" => files::written,
        "edit_file" => files::edited,
        "create_directory" => files::created_directory,
        "delete_file" => files::deleted,
        "list_directory" => files::listing,
        "search_files" => files::matches,
        "run_command" => programs::command,
        "run_tests" => programs::tests,
        "run_linter" => programs::findings,
        "read_system_logs" => programs::log_entries,
        "git_status" => repositories::status,
        "git_diff" => repositories::diff,
        "git_log" => repositories::log,
        "fetch_url" => web::page,
        "web_search" => web::results,
        _ => return None,
    };
    Some(ModelText(render))
}

/// Returns a string field.
fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// Returns a number field.
fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

/// Returns true if a field is present and true.
fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the items of a list, or none if it is absent.
fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the strings of a list.
fn texts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    items(value, key).iter().filter_map(Value::as_str)
}

/// Adds a line of the same block, with a newline before it where the text has none.
fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)] // callers write the value in place
    fn check(tool: &str, output: Value, expect: &str) {
        let ModelText(render) = renderer(tool).unwrap();
        assert_eq!(render(&output).as_deref(), Some(expect), "{tool}: {output}");
    }

    #[test]
    fn file_tools_show_the_content_itself() {
        check("read_file", json!({"content": "a\nb\n", "encoding": "utf-8", "sha256": "00"}), "a\nb\n");
        check("read_file", json!({"content": "", "encoding": "utf-8"}), "(empty)");
        check("read_file", json!({"content": "AAE=", "encoding": "base64"}), "base64:\nAAE=");
        let changed = json!({"content": "a", "encoding": "utf-8", "changed_while_read": true});
        check("read_file", changed, "a\n[the file changed while it was read]");
        let page = json!({"content": "a", "encoding": "utf-8", "next_offset": 5, "total_bytes": 9});
        check("read_output", page, "a\n[continues at offset=5 of 9 bytes]");
        check("write_file", json!({"path": "/a", "created": true, "size": 3}), "created /a (3 bytes)");
        check("write_file", json!({"path": "/a", "created": false, "size": 3}), "wrote /a (3 bytes)");
        let preview = json!({"path": "/a", "created": false, "size": 3, "preview": {"diff": "-a\n+b\n"}});
        check("write_file", preview, "dry run, nothing changed\n-a\n+b\n");
        check("edit_file", json!({"path": "/a", "replacements": 2}), "edited /a (replacements: 2)");
        check("create_directory", json!({"path": "/d", "created_dirs": ["/d"]}), "created /d");
        check("create_directory", json!({"path": "/d", "created_dirs": []}), "/d existed already");
        check("delete_file", json!({"path": "/a", "kind": "file", "entries": 1}), "deleted file /a");
        let dry = json!({"path": "/d", "kind": "directory", "entries": 3, "dry_run": true});
        check("delete_file", dry, "would delete directory /d (entries: 3)");
    }

    #[test]
    fn listings_and_matches_are_lines() {
        let entries = json!([{"name": "src", "kind": "directory"}, {"name": "a", "kind": "file", "size": 5},
            {"name": "l", "kind": "symlink", "target": "a"}, {"name": "p", "kind": "fifo"}]);
        let listing = json!({"entries": entries, "complete": true});
        check("list_directory", listing, "src/\na (5 bytes)\nl -> a\np (fifo)");
        check("list_directory", json!({"entries": [], "complete": true}), "(no entries)");
        let cut = json!({"entries": [{"name": "a", "kind": "file"}], "complete": false,
            "unreadable": ["x"], "next_cursor": "c1"});
        check(
            "list_directory",
            cut,
            "a\n[unreadable: x]\n[not everything was visited]\n[continues with cursor=c1]",
        );
        let found = json!({"matches": [{"path": "a.rs", "line": 3, "text": "let x", "before": ["b"],
            "after": ["c"]}], "files": [], "searched_files": 1, "complete": true});
        check("search_files", found, "a.rs-2-b\na.rs:3:let x\na.rs-4-c");
        let named = json!({"matches": [], "files": [{"path": "a"}, {"path": "b"}], "complete": true});
        check("search_files", named, "a\nb");
        let none = json!({"matches": [], "files": [], "searched_files": 7, "complete": true});
        check("search_files", none, "no matches (files searched: 7)");
    }

    #[test]
    fn program_output_is_text_with_the_exit_code_if_not_zero() {
        let run = |code: i64, out: &str, err: &str| {
            json!({"exit_code": code, "end": "exited", "stdout": out, "stderr": err,
                "stdout_encoding": "utf-8", "stderr_encoding": "utf-8",
                "sandbox": {"program_sha256": "00", "quarantined": []}})
        };
        check("run_command", run(0, "", ""), "exit code 0, no output");
        check("run_command", run(0, "a\n", ""), "a\n");
        check("run_command", run(1, "", "no\n"), "exit code 1\nstderr:\nno\n");
        check("run_command", run(0, "a", "w"), "a\nstderr:\nw");
        let mut denied = run(1, "", "x");
        denied["denied"] = json!([{"message": "m", "grant": "run `sinew workspace add`"}]);
        denied["stdout_spill"] = json!({"id": "s1", "bytes": 9});
        check(
            "run_command",
            denied,
            "[whole stdout: read_output id=s1]\nexit code 1\nstderr:\nx\n[denied by the sandbox: m]",
        );
        let mut killed = run(-1, "half", "");
        killed["end"] = json!("timed_out");
        check("run_command", killed, "ended by: timed_out\nhalf");
    }

    #[test]
    fn tests_and_findings_are_summed_up_first() {
        let counts = json!({"total": 3, "passed": 1, "failed": 1, "errors": 0, "skipped": 1});
        let failures = json!([{"name": "t::a", "message": "boom", "output": "trace"}]);
        let failed = json!({"outcome": "failed", "counts": counts, "failures": failures, "notice": "n",
            "output": "all of it"});
        check(
            "run_tests",
            failed,
            "failed: 1 passed, 1 failed, 0 errors, 1 skipped\nn\nFAILED t::a: boom\ntrace",
        );
        let passed = json!({"outcome": "passed", "counts": counts, "failures": [], "output": "x"});
        check("run_tests", passed, "passed: 1 passed, 1 failed, 0 errors, 1 skipped");
        let broken = json!({"outcome": "error", "counts": null, "failures": [], "output": "no module"});
        check("run_tests", broken, "error\nno module");
        let finding = json!({"file": "a.py", "line": 1, "column": 2, "code": "F401", "message": "unused"});
        check("run_linter", json!({"clean": false, "findings": [finding]}), "a.py:1:2: F401 unused");
        check("run_linter", json!({"clean": true, "findings": []}), "no findings");
        let entry = json!({"time": "T", "level": "error", "process": "p", "pid": 1, "message": "m"});
        check("read_system_logs", json!({"notice": "n", "entries": [entry]}), "n\nT error p[1]: m");
    }

    #[test]
    fn git_and_web_outputs_are_text() {
        let branch = json!({"head": "main", "upstream": "origin/main", "ahead": 1, "behind": 0});
        let entry = |path: &str, kind: &str, staged: &str, unstaged: &str| json!({"path": path, "kind": kind, "staged": staged, "unstaged": unstaged});
        let entries = json!([
            entry("a", "changed", "modified", "unmodified"),
            entry("b", "untracked", "unmodified", "added")
        ]);
        let status = json!({"branch": branch, "clean": false, "entries": entries});
        check("git_status", status, "## main...origin/main [ahead 1, behind 0]\nM  a\n?? b");
        let clean = json!({"branch": {"head": null}, "clean": true, "entries": []});
        check("git_status", clean, "## (detached)\nclean");
        check("git_diff", json!({"patch": "-a\n", "files": []}), "-a\n");
        check("git_diff", json!({"patch": "", "files": []}), "no differences");
        let commit = json!({"commit": "0123456789abcdef", "date": "D", "author": "A", "subject": "s",
            "body": "b1\nb2", "refs": ["main"]});
        check("git_log", json!({"commits": [commit]}), "0123456789ab D A (main): s\n    b1\n    b2");
        let page = json!({"url": "u", "status": 200, "title": "t", "notice": "n", "text": "body"});
        check("fetch_url", page, "200 u: t\nn\n\nbody");
        let hit = json!({"title": "t", "url": "u", "snippet": "s"});
        check("web_search", json!({"outcome": "ok", "notice": "n", "results": [hit]}), "n\n1. t\nu\ns");
        check("web_search", json!({"outcome": "empty", "results": []}), "no results");
    }
}
