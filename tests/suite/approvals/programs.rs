//! Cards of the tools of manifests: what is run, word by word, and that a yes is for that.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::effects::{asked, bring};
use super::*;

const COUNTER: &str = r#"
tool:
  id: counter
  type: cli
  name: Counter
  version: 1.0.0
  description: Count lines
  cli_specific: {executable: wc, install_guide: Install wc.}
  commands:
    - name: count_lines
      category: system_write
      risk_level: high
      argv: [-l, --, "{files}"]
      parameters:
        - {name: files, type: array, schema: {items: {type: string, format: path, x-sinew-access: read}}}
"#;

const TEACHER: &str = r#"
tool:
  id: teacher
  type: local
  name: Teacher
  version: 1.0.0
  description: Say what it was told
  local_specific: {entry_point: say.py, runtime: python}
  commands:
    - name: say_again
      category: system_write
      risk_level: high
      parameters:
        - {name: files, type: array, schema: {items: {type: string, format: path, x-sinew-access: read}}}
"#;

const SAY: &str = "import json, sys\njson.dump(json.load(sys.stdin), sys.stdout)\n";

#[test]
fn t155_a_card_of_a_manifests_tool_shows_what_is_run_word_by_word() {
    let home = asking_home(300);
    home.configure(
        "governance/tools.yaml",
        "tools:\n  counter.count_lines: {requires_approval: true, allowed_in_modes: [NORMAL]}\n  \
         teacher.say_again: {requires_approval: true, allowed_in_modes: [NORMAL]}\n",
    );
    let tools = home.root().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    std::fs::set_permissions(&tools, Permissions::from_mode(0o700)).unwrap();
    for (name, text) in [("counter.yaml", COUNTER), ("teacher.yaml", TEACHER), ("say.py", SAY)] {
        std::fs::write(tools.join(name), text).unwrap();
        std::fs::set_permissions(tools.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    let daemon = Daemon::start_in(home);
    let files = ["a b.txt", "c.txt"].map(|name| daemon.home().file(name, "1\n2\n").display().to_string());
    let arguments = json!({"files": ["./a b.txt", "c.txt"]});
    let pending =
        daemon.agent().execute_with("counter.count_lines", &arguments, &json!({"approval": "async"}));
    if code(&pending) == "sandbox_unavailable" {
        eprintln!("skipped: no sandbox on this machine");
        return;
    }
    let (id, facts) = asked(&daemon, "counter.count_lines", &arguments);
    let has =
        |facts: &[String], line: &str| assert!(facts.iter().any(|fact| fact == line), "{line}: {facts:?}");
    has(&facts, &format!("argv {}", json!(["wc", "-l", "--", files[0], files[1]])));
    has(&facts, &format!("runs in {}", daemon.home().workspace().display()));
    has(&facts, "stdin nothing");
    assert!(
        facts.iter().any(|fact| fact.starts_with("program /") && fact.contains("/wc (sha256 ")),
        "{facts:?}"
    );
    assert!(facts.iter().any(|fact| fact.starts_with("sees the variables PATH, HOME")), "{facts:?}");
    decide(&mut daemon.control(), &id, "approve");
    let done = bring(&daemon, "counter.count_lines", &arguments, &id);
    let said = done["output"]["stdout"].as_str().unwrap_or_else(|| panic!("{done}"));
    assert!(
        said.contains("4 total") && said.contains("a b.txt") && said.contains("c.txt"),
        "every file: {said}"
    );

    let (id, facts) = asked(&daemon, "teacher.say_again", &arguments);
    let input = json!({"command": "say_again", "arguments": {"files": files}});
    has(&facts, &format!("stdin {input}"));
    assert!(
        facts.iter().any(|fact| fact.starts_with("argv [\"python3\",\"-I\",\"-c\",\"(the script: ")),
        "{facts:?}"
    );
    decide(&mut daemon.control(), &id, "approve");
    let done = bring(&daemon, "teacher.say_again", &arguments, &id);
    assert_eq!(done["output"], input, "what was shown is what it was told: {done}");

    // A manifest that is another by now is another tool, also once it was accepted.
    let (id, _) = asked(&daemon, "counter.count_lines", &arguments);
    decide(&mut daemon.control(), &id, "approve");
    let changed = COUNTER.replace("Count lines", "Count all lines");
    std::fs::write(daemon.home().root().join("tools/counter.yaml"), changed).unwrap();
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let refused = bring(&daemon, "counter.count_lines", &arguments, &id);
    assert_eq!(detail(&refused), "approval_mismatch", "{refused}");
}
