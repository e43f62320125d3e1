//! Tools of manifests in the pipeline: checked, validated, sandboxed, and pinned to the accepted version.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Daemon, Home, wait_for};

const FINDER: &str = r#"
tool:
  id: finder
  type: cli
  name: Finder
  version: 1.0.0
  description: Find text
  cli_specific: {executable: grep, install_guide: Install grep.}
  commands:
    - name: find_text
      category: read_only
      risk_level: low
      argv: [-n, [-i, "{ignore_case}"], -e, "{pattern}", --, "{path}"]
      parameters:
        - {name: pattern, type: string}
        - {name: path, type: string, format: path}
        - {name: ignore_case, type: boolean, default: false}
"#;

const WRITER: &str = r#"
tool:
  schema_version: 2.0
  id: note-writer
  type: local
  name: Notes
  version: 1.0.0
  description: Write a note
  knowledge_strategy: executable
  local_specific: {entry_point: write.py, runtime: python}
  commands:
    - name: write_note
      parameters: [{name: folder, type: string, format: path}, {name: text, type: string}]
    - name: look
      category: read_only
      parameters: [{name: folder, type: string, format: path}, {name: text, type: string}]
  executable_knowledge:
    validators:
      - id: short-notes
        validates: write_note
        language: javascript
        checks: [{required_fields: [text]}]
        function: |
          function shortNotes(args) {
            return args.text.length <= 20
              ? { valid: true, errors: [] }
              : { valid: false, errors: ["text must have at most 20 characters"] };
          }
          module.exports = { shortNotes };
  anti_patterns:
    - pattern: essay
      description: A whole essay in a note
      wrong: 'write_note({text: "Once upon a time, ..."})'
      correct: 'write_note({text: "Buy milk"})'
      rationale: Notes are short
"#;

const WRITE: &str = "import json, sys\n\
    call = json.load(sys.stdin)['arguments']\n\
    open(call['folder'] + '/note.txt', 'w').write(call['text'])\n\
    json.dump({'written': len(call['text'])}, sys.stdout)\n";

pub(super) fn put(home: &Home, name: &str, text: &str) {
    let folder = home.root().join("tools");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
    std::fs::set_permissions(folder.join(name), Permissions::from_mode(0o600)).unwrap();
}

/// Daemon whose home has these manifests and files beside them.
fn daemon(files: &[(&str, &str)]) -> Daemon {
    let home = Home::initialised();
    files.iter().for_each(|(name, text)| put(&home, name, text));
    Daemon::start_in(home)
}

pub(super) fn code(result: &Value) -> &str {
    result["metadata"]["refusal"]["code"].as_str().unwrap_or("none")
}

#[test]
fn program_gets_each_argument_as_one_word() {
    let daemon = daemon(&[("finder.yaml", FINDER)]);
    let file = daemon.home().file("a b.txt", "One\ntwo; rm -rf /\n").display().to_string();
    let mut agent = daemon.agent();
    let found = agent.execute("finder.find_text", &json!({"pattern": "two; rm", "path": file}));
    assert_eq!(found["output"]["stdout"], "2:two; rm -rf /\n", "{found}");
    assert_eq!(found["metadata"]["sandbox"]["tier"], "full", "{found}");
    let found = agent.execute("find_text", &json!({"pattern": "ONE", "path": file, "ignore_case": true}));
    assert_eq!(found["output"]["stdout"], "1:One\n", "by its plain name: {found}");
    let refused = agent.execute("find_text", &json!({"pattern": "--include=x", "path": file}));
    assert_eq!(code(&refused), "validator_rejected", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("taken for an option"), "{refused}");
    let refused = agent.execute("find_text", &json!({"pattern": "root", "path": "/etc/shadow"}));
    assert!(code(&refused).starts_with("path_"), "its paths are under the rules: {refused}");
}

/// Each declared path is under the rules, whatever the argument is called, also inside a list.
#[test]
fn path_arguments_of_any_name_are_governed() {
    let sources = "{name: sources, type: array, schema: {items: {type: string, format: path}}}";
    let other = FINDER.replace("\"{path}\"", "\"{file_path}\", \"{destination}\", \"{sources}\"").replace(
        "{name: path, type: string, format: path}",
        &format!(
            "{{name: file_path, type: string, format: path}}\n        \
             - {{name: destination, type: string, format: path}}\n        - {sources}"
        ),
    );
    let daemon = daemon(&[("finder.yaml", &other)]);
    let inside = daemon.home().file("a.txt", "root\n").display().to_string();
    let mut agent = daemon.agent();
    let mut find = |key: &str, path: &str| {
        let mut call =
            json!({"pattern": "root", "file_path": inside, "destination": inside, "sources": [inside]});
        call[key] = if key == "sources" { json!([inside, path]) } else { json!(path) };
        agent.execute("find_text", &call)
    };
    for key in ["file_path", "destination", "sources"] {
        let found = find(key, &inside);
        assert_eq!(found["output"]["exit_code"], 0, "{key}: {found}");
        for outside in ["/etc/passwd", "../secret.txt", "/proc/self/environ", "/etc/not-there"] {
            let refused = find(key, outside);
            assert!(code(&refused).starts_with("path_"), "{key} {outside}: {refused}");
        }
    }
}

/// No policy file names the tool and no mode requires approval: the definition alone does.
#[test]
fn definition_alone_can_require_approval() {
    let asking = FINDER.replace("risk_level: low\n", "risk_level: low\n      requires_approval: true\n");
    let daemon = daemon(&[("finder.yaml", &asking)]);
    let file = daemon.home().file("a.txt", "One\n").display().to_string();
    let arguments = json!({"pattern": "One", "path": file});
    let mut agent = daemon.agent();
    let asked = agent.execute_with("find_text", &arguments, &json!({"approval": "async"}));
    assert_eq!(code(&asked), "approval_pending", "{asked}");
    let id = asked["metadata"]["refusal"]["approval_id"].as_str().expect("an id").to_owned();
    daemon.home().run(&["approve", &id]).must_exit(0);
    let found = agent.execute_with("find_text", &arguments, &json!({"approval_id": id}));
    assert_eq!(found["output"]["stdout"], "1:One\n", "{found}");
}

#[test]
fn validator_refuses_before_the_tool_runs() {
    let daemon = daemon(&[("notes.yaml", WRITER), ("write.py", WRITE)]);
    let folder = daemon.home().workspace();
    let note = folder.join("note.txt");
    let mut agent = daemon.agent();
    let call = |text: &str| json!({"folder": folder.display().to_string(), "text": text});
    let refused = agent.execute("write_note", &call("much too long for a note, really"));
    assert_eq!(code(&refused), "validator_rejected", "{refused}");
    let reported = refused["error"].as_str().unwrap();
    assert!(
        reported.contains("at most 20 characters")
            && reported.contains("`essay`")
            && reported.contains("Buy milk"),
        "{reported}"
    );
    assert!(!note.exists(), "it ran");
    let done = agent.execute("write_note", &call("Buy milk"));
    assert_eq!(done["output"], json!({"written": 8}), "{done}");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "Buy milk");
    let explained = agent
        .request("sinew/explain", &json!({"tool_name": "write_note", "arguments": call(&"x".repeat(21))}));
    assert_eq!(explained["result"]["verdict"], "deny", "explained as it would happen: {explained}");
}

/// A manifest that was added while no daemon ran is not accepted either.
#[test]
fn tool_added_while_stopped_waits_for_acceptance() {
    let home = daemon(&[]).stop();
    put(&home, "finder.yaml", FINDER);
    let file = home.file("a.txt", "One\n").display().to_string();
    let daemon = Daemon::start_in(home);
    let call = json!({"pattern": "One", "path": file});
    assert_eq!(code(&daemon.agent().execute("find_text", &call)), "unknown_tool");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let found = daemon.agent().execute("find_text", &call);
    assert_eq!(found["output"]["stdout"], "1:One\n", "{found}");
}

/// The sandbox enforces that a tool declared read-only cannot write.
#[test]
fn read_only_tool_cannot_write() {
    let daemon = daemon(&[("notes.yaml", WRITER), ("write.py", WRITE)]);
    let folder = daemon.home().workspace();
    let call = json!({"folder": folder.display().to_string(), "text": "x"});
    let failed = daemon.agent().execute("note-writer.look", &call);
    assert_eq!(failed["success"], false, "{failed}");
    assert!(!folder.join("note.txt").exists());
}

#[test]
fn unusable_tool_is_listed_and_reports_why() {
    let bare = FINDER.replace("  cli_specific: {executable: grep, install_guide: Install grep.}\n", "");
    let absent = FINDER.replace("id: finder", "id: absent").replace("grep,", "no-such-program,");
    let daemon = daemon(&[("bare.yaml", &bare), ("absent.yaml", &absent), ("broken.yaml", "tool: {id: [}")]);
    let file = daemon.home().file("a.txt", "x").display().to_string();
    let mut agent = daemon.agent();
    let call = json!({"pattern": "x", "path": file});
    let bare = agent.execute("finder.find_text", &call);
    assert!(bare["error"].as_str().unwrap().contains("does not state how the tool runs"), "{bare}");
    let absent = agent.execute("absent.find_text", &call);
    assert_eq!(absent["metadata"]["failure"]["hint"], "Install grep.", "{absent}");
    let listed = agent.request("sinew/tools", &json!({}));
    assert!(listed.to_string().contains("absent"), "{listed}");
    let ambiguous = agent.execute("find_text", &call);
    assert_eq!(code(&ambiguous), "unknown_tool", "two have that name, so none has: {ambiguous}");
}

#[test]
fn manifest_that_others_can_change_is_not_loaded() {
    let home = Home::initialised();
    put(&home, "finder.yaml", FINDER);
    std::fs::set_permissions(home.root().join("tools/finder.yaml"), Permissions::from_mode(0o666)).unwrap();
    std::fs::create_dir(home.workspace().join("tools")).unwrap();
    home.file("tools/notes.yaml", WRITER);
    home.file("notes.yaml", WRITER);
    let daemon = Daemon::start_in(home);
    for tool in ["finder.find_text", "note-writer.write_note"] {
        let result = daemon.agent().execute(tool, &json!({}));
        assert_eq!(code(&result), "unknown_tool", "{result}");
    }
}

/// The built-in tools keep their names.
#[test]
fn nothing_shadows_a_built_in_tool() {
    let shadow = FINDER.replace("name: find_text", "name: read_file");
    let daemon = daemon(&[("finder.yaml", &shadow)]);
    let file = daemon.home().file("a.txt", "content").display().to_string();
    let read = daemon.agent().execute("read_file", &json!({"path": file}));
    assert_eq!(read["output"]["content"], "content", "{read}");
}

/// A lookalike of a tool name is not registered: registered names are lower-case ASCII.
#[test]
fn manifest_names_cannot_imitate_others() {
    for like in ["re\u{430}d_file", "\u{ff52}ead_file", "Read_File", "read_f\u{131}le"] {
        let shadow = FINDER.replace("name: find_text", &format!("name: \"{like}\""));
        let daemon = daemon(&[("finder.yaml", &shadow)]);
        let file = daemon.home().file("a.txt", "content").display().to_string();
        let mut agent = daemon.agent();
        let read = agent.execute("read_file", &json!({"path": file}));
        assert_eq!(read["output"]["content"], "content", "{like}: {read}");
        let listed = agent.request("sinew/tools", &json!({}));
        let names =
            listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        let odd: Vec<&str> = names.filter(|name| !name.is_ascii() || *name != name.to_lowercase()).collect();
        assert!(odd.is_empty(), "{like}: {odd:?}");
        if !like.is_ascii() {
            assert_eq!(code(&agent.execute(like, &json!({"path": file}))), "unknown_tool", "{like}");
        }
    }
}

/// A validator gets a copy of the arguments, so its changes have no effect.
#[test]
fn validator_that_changes_its_arguments_changes_nothing() {
    let meddling = WRITER.replace(
        "return args.text.length <= 20",
        "args.text = 'mine'; args.folder = '/etc'; delete args.text; return true",
    );
    assert_ne!(meddling, WRITER);
    let daemon = daemon(&[("notes.yaml", &meddling), ("write.py", WRITE)]);
    let folder = daemon.home().workspace();
    let done = daemon
        .agent()
        .execute("write_note", &json!({"folder": folder.display().to_string(), "text": "Buy milk"}));
    assert_eq!(done["output"], json!({"written": 8}), "{done}");
    assert_eq!(std::fs::read_to_string(folder.join("note.txt")).unwrap(), "Buy milk");
}

/// The speed of the machine is unknown, so each round counts further than the one before.
#[test]
fn slow_validator_is_logged_with_its_time() {
    let counting = WRITER
        .replace("return args.text.length <= 20", "for (let i = 0; i < Number(args.text); i++); return true");
    assert_ne!(counting, WRITER);
    let daemon = daemon(&[("notes.yaml", &counting), ("write.py", WRITE)]);
    let folder = daemon.home().workspace().display().to_string();
    let mut agent = daemon.agent();
    for count in (0..8).map(|power| 500_000_u64 << power) {
        let done = agent.execute("write_note", &json!({"folder": folder, "text": count.to_string()}));
        if code(&done) == "validator_rejected" {
            break;
        }
    }
    let log = wait_for("a line in the log", || {
        let reported = daemon.home().run(&["logs", "--json"]).to_string();
        let line = reported.lines().find(|line| line.contains("longer than its target of 50 ms"))?;
        Some(line.to_owned())
    });
    assert!(log.contains("short-notes") && log.contains("took_ms"), "{log}");
}

#[test]
fn changed_manifest_waits_for_acceptance() {
    let daemon = daemon(&[("notes.yaml", WRITER), ("write.py", WRITE)]);
    let folder = daemon.home().workspace();
    let long = json!({"folder": folder.display().to_string(), "text": "much too long for a note, really"});
    // The validator is turned off; nothing that a caller sees has changed.
    put(daemon.home(), "notes.yaml", &WRITER.replace("args.text.length <= 20", "true"));
    let waiting = daemon.control().request("control/reload", &json!({}));
    assert_eq!(waiting["result"]["result"], "waiting", "{waiting}");
    assert!(waiting.to_string().contains("write_note is redefined"), "{waiting}");
    let refused = daemon.agent().execute("write_note", &long);
    assert_eq!(code(&refused), "validator_rejected", "the old one holds: {refused}");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let done = daemon.agent().execute("write_note", &long);
    assert_eq!(done["success"], true, "{done}");
}

#[test]
fn changed_script_is_not_run_before_acceptance() {
    let daemon = daemon(&[("notes.yaml", WRITER), ("write.py", WRITE)]);
    let folder = daemon.home().workspace();
    let call = json!({"folder": folder.display().to_string(), "text": "Buy milk"});
    put(daemon.home(), "write.py", "print('{\"mine\": true}')\n");
    let done = daemon.agent().execute("write_note", &call);
    assert_eq!(done["output"], json!({"written": 8}), "what was accepted ran: {done}");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let done = daemon.agent().execute("write_note", &call);
    assert_eq!(done["output"], json!({"mine": true}), "{done}");
}

#[test]
fn shipped_scripts_do_what_their_examples_say() {
    let home = Home::initialised();
    for (name, text) in super::check::SHIPPED {
        put(&home, name, text);
    }
    std::fs::create_dir_all(home.root().join("tools/scripts")).unwrap();
    put(&home, "scripts/text_statistics.py", include_str!("../../../tools/scripts/text_statistics.py"));
    put(&home, "scripts/sort_json.js", include_str!("../../../tools/scripts/sort_json.js"));
    std::fs::set_permissions(home.root().join("tools/scripts"), Permissions::from_mode(0o700)).unwrap();
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let counted = agent.execute("count_text", &json!({"text": "one two two", "top": 1}));
    assert_eq!(counted["output"]["commonest"], json!([{"word": "two", "count": 2}]), "{counted}");
    let neither = agent.execute("count_text", &json!({}));
    assert_eq!(code(&neither), "validator_rejected", "{neither}");
    if std::path::Path::new("/usr/bin/node").exists() {
        let sorted = agent.execute("sort_list", &json!({"list": ["b", "a"]}));
        assert_eq!(
            sorted["output"],
            json!({"value": ["a", "b"], "count": 2}),
            "its processor counted: {sorted}"
        );
    } else {
        eprintln!("node is not on this machine: its script was not run");
    }
}

/// A library that an agent writes into a workspace must not run as part of an accepted script.
#[test]
fn script_loads_no_code_from_a_workspace() {
    const PYTHON: &str = "import json, sys, colorsys\nprint(json.dumps({'from': colorsys.__file__}))\n";
    const NODE: &str = "let found = 'nothing'; try { found = require('planted') } catch {}\n\
                        console.log(JSON.stringify({from: found}))\n";
    let manifest = |id: &str, runtime: &str, file: &str| {
        format!(
            "tool:\n  schema_version: 2.0\n  id: {id}\n  type: local\n  name: {id}\n  version: 1.0.0\n  description: Says where its code is from\n  \
             local_specific: {{entry_point: {file}, runtime: {runtime}}}\n  commands:\n    - name: {id}_from\n      \
             description: Where from\n      category: read_only\n      risk_level: low\n"
        )
    };
    let (snake, hexagon) = (manifest("snake", "python", "s.py"), manifest("hexagon", "node", "h.js"));
    let daemon =
        daemon(&[("snake.yaml", &snake), ("s.py", PYTHON), ("hexagon.yaml", &hexagon), ("h.js", NODE)]);
    let work = daemon.home().workspace();
    std::fs::create_dir_all(work.join("node_modules/planted")).unwrap();
    daemon.home().file("colorsys.py", "__file__ = 'the workspace'\n");
    daemon.home().file("node_modules/planted/index.js", "module.exports = 'the workspace'\n");
    let result = daemon.agent().execute("snake_from", &json!({}));
    assert!(result["output"]["from"].as_str().is_some_and(|from| from.ends_with("colorsys.py")), "{result}");
    if std::path::Path::new("/usr/bin/node").exists() {
        let text = daemon.agent().execute("hexagon_from", &json!({}));
        assert_eq!(text["output"]["from"], "nothing", "{text}");
    }
}
