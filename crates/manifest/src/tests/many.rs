//! Tests of loading many files.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use strict_yaml::Document;

use super::{good, shown, syntax};
use crate::diagnostic::DiagnosticCode;
use crate::{ManifestLoadResult, load_all};

fn load(files: &[(&str, String)]) -> ManifestLoadResult {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.path().join(name)).collect();
    for (path, (_, text)) in paths.iter().zip(files) {
        std::fs::write(path, text).unwrap();
    }
    load_all(&paths, &Document::read, &syntax, &|name| name == "read_file")
}

fn named(id: &str) -> String {
    good("").replace("task-board", id)
}

#[test]
fn broken_file_does_not_affect_others() {
    let files = [
        ("a.yaml", named("a") + "  commands: [x]\n"),
        ("b.yaml", "tool: {id: [}".into()),
        ("c.yaml", named("c") + "  commands: [x]\n"),
        ("d.yaml", String::new()),
    ];
    let loaded = load(&files);
    assert_eq!(loaded.manifests.iter().map(|one| one.id()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(loaded.diagnostics.len(), 2, "{}", shown(&loaded.diagnostics));
    let missing = load_all(&["/no/such.yaml".into()], &Document::read, &syntax, &|_| false);
    assert_eq!((missing.manifests.len(), missing.diagnostics.len()), (0, 1));
}

#[test]
fn duplicate_id_is_refused_in_the_second_file() {
    let loaded = load(&[("a.yaml", named("same")), ("b.yaml", named("same")), ("c.yaml", named("Same"))]);
    assert_eq!(loaded.manifests.len(), 1);
    let twice: Vec<_> =
        loaded.diagnostics.iter().filter(|one| one.code == DiagnosticCode::DuplicateId).collect();
    assert_eq!(twice.len(), 2);
    assert!(twice.iter().all(|one| one.error.line == 3 && one.error.message.contains("a.yaml")), "{twice:?}");
}

#[test]
fn ids_are_compared_in_their_callable_form() {
    let loaded =
        load(&[("a.yaml", named("my srv")), ("b.yaml", named("my-srv")), ("c.yaml", named("MY.SRV"))]);
    assert_eq!(loaded.manifests.iter().map(|one| one.id()).collect::<Vec<_>>(), ["my srv"]);
    let twice = loaded.diagnostics.iter().filter(|one| one.code == DiagnosticCode::DuplicateId);
    assert_eq!(twice.count(), 2, "{}", shown(&loaded.diagnostics));
}

#[test]
fn meta_tools_nest_once_and_never_recurse() {
    let meta = |id: &str, aggregates: &str| {
        let text = named(id).replace("type: mcp", "type: meta");
        (
            format!("{id}.yaml"),
            text + &format!("  commands: [{id}_it]\n  meta_specific: {{aggregates: [{aggregates}]}}\n"),
        )
    };
    let check = |files: &[(String, String)], expect: &[&str]| {
        let files: Vec<(&str, String)> =
            files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
        let loaded = load(&files);
        assert_eq!(loaded.manifests.iter().map(|one| one.id()).collect::<Vec<_>>(), expect);
    };
    let (inner, middle, outer) = (meta("a", "read_file"), meta("b", "a_it"), meta("c", "b"));
    check(&[inner.clone(), middle.clone()], &["a", "b"]);
    check(&[inner, middle, outer], &["a", "b"]);
    check(&[meta("a", "a.a_it")], &[]);
    check(&[meta("a", "b"), meta("b", "a")], &[]);
}

#[test]
fn meta_tool_must_call_existing_tools() {
    let meta = |aggregates: &str| {
        named("health").replace("type: mcp", "type: meta")
            + &format!("  meta_specific: {{aggregates: [{aggregates}]}}\n")
    };
    let board = good("  commands: [create]\n");
    for fine in ["task-board", "task-board.create", "create", "read_file", "task-board, read_file"] {
        let loaded = load(&[("a.yaml", board.clone()), ("b.yaml", meta(fine))]);
        assert_eq!(loaded.manifests.len(), 2, "{fine}: {}", shown(&loaded.diagnostics));
    }
    let loaded = load(&[("a.yaml", board), ("b.yaml", meta("task-baord, missing"))]);
    assert_eq!(loaded.manifests.len(), 1);
    let reported = shown(&loaded.diagnostics);
    assert!(reported.contains("did you mean `task-board`?") && reported.contains("`missing`"), "{reported}");
}

// The measured time applies to an optimised build; this test checks only the order of magnitude.
#[test]
fn a_thousand_files_load_quickly() {
    let files: Vec<(String, String)> = (0..1000)
        .map(|n| (format!("{n:04}.yaml"), named(&format!("tool-{n}")) + "  commands: [one, two]\n"))
        .collect();
    let files: Vec<(&str, String)> = files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    let started = Instant::now();
    let loaded = load(&files);
    assert_eq!((loaded.manifests.len(), loaded.diagnostics.len()), (1000, 0));
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}
