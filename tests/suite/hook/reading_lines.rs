//! Shell lines of a host that only read: permitted by the rules of `run_command` and `read_file`.

use serde_json::json;
use tests::{Daemon, Home};

use super::{run, run_pre_tool_use};

fn home() -> Home {
    let home = Home::initialised().without_automatic_modes();
    for folder in ["src", "secret"] {
        std::fs::create_dir_all(home.workspace().join(folder)).unwrap();
    }
    home.file("README.md", "# Hello\n");
    home.file("src/main.rs", "fn main() {}\n");
    home.file("secret/.env", "TOKEN=x\n");
    std::os::unix::fs::symlink("/etc/hostname", home.workspace().join("link")).unwrap();
    let rules = std::fs::read_to_string(home.root().join("config/governance/tools.yaml")).unwrap();
    let commands = "allowed_commands: [\"@readers\", md5sum, sha256sum]";
    assert!(rules.contains("allowed_commands: [\"@readers\"]"));
    home.configure("governance/tools.yaml", &rules.replace("allowed_commands: [\"@readers\"]", commands));
    home
}

/// Lines with the expected decision.
const LINES: [(&str, &str); 45] = [
    ("cat README.md", "allow"),
    ("cat README.md | head -5 | wc -l", "allow"),
    ("grep -n 'fn main' src/main.rs", "allow"),
    ("grep -rn main src", "allow"),
    ("ls src", "allow"),
    ("ls -la src | grep -v \"x y\"", "allow"),
    ("cat missing", "allow"),
    ("cat README.md | grep -i hello", "allow"),
    ("sha256sum README.md", "allow"),
    // Not permitted by the rules of `run_command`.
    ("git status | head -5", "ask"),
    ("pwd", "ask"),
    ("cat README.md | sh", "ask"),
    ("rm README.md", "ask"),
    // Permitted there, but only in the sandbox.
    ("jq . README.md", "ask"),
    ("diff README.md src/main.rs", "ask"),
    // Files that `read_file` may not read.
    ("cat /etc/hostname", "ask"),
    ("cat secret/.env", "ask"),
    ("cat link", "ask"),
    ("cat ../x", "ask"),
    ("grep -f/etc/hostname x README.md", "ask"),
    ("grep --file=/etc/hostname README.md", "ask"),
    ("wc --files0-from=README.md", "ask"),
    // Something forbidden is below.
    ("ls", "ask"),
    ("ls -R .", "ask"),
    ("grep -r x", "ask"),
    ("grep -r -e x", "ask"),
    // A host may run ugrep under this name, which searches the working directory here.
    ("grep x", "ask"),
    ("cat README.md | grep -r x", "ask"),
    // Options that are in no row.
    ("sha256sum -c README.md", "ask"),
    ("md5sum --check README.md", "ask"),
    ("cat --unknown README.md", "ask"),
    ("tail -f README.md", "ask"),
    ("grep -r -X egrep x", "ask"),
    ("grep --filter='*:touch made' x src/main.rs", "ask"),
    ("grep -9 x src/main.rs", "ask"),
    ("grep -r x secret", "ask"),
    ("du secret", "ask"),
    // Only a shell can interpret these.
    ("cat README.md; rm README.md", "ask"),
    ("cat README.md > x", "ask"),
    ("cat $HOME/x", "ask"),
    ("cat *.md", "ask"),
    ("cat ~/x", "ask"),
    ("A=b cat README.md", "ask"),
    ("cat README.md &", "ask"),
    ("cat README.md\nrm README.md", "ask"),
];

#[test]
fn limits_of_all_three_tools_bind_a_reading_line() {
    for (tool, beyond) in [("bash", "deny"), ("run_command", "ask"), ("read_file", "ask")] {
        let home = home();
        let file = home.root().join("config/governance/tools.yaml");
        let rules = std::fs::read_to_string(file).unwrap();
        let limit = format!("  {tool}:\n    rate_limit_per_hour: 2\n");
        let entry = format!("  {tool}:\n");
        let limited = match rules.contains(&entry) {
            true => rules.replacen(&entry, &limit, 1),
            false => rules.replacen("tools:\n", &format!("tools:\n{limit}"), 1),
        };
        home.configure("governance/tools.yaml", &limited);
        let daemon = Daemon::start_in(home);
        let decisions: Vec<String> = (0..4)
            .map(|_| {
                let line = json!({"command": "cat README.md"});
                run_pre_tool_use(daemon.home(), "Bash", &line).decision().to_owned()
            })
            .collect();
        assert_eq!(decisions, ["allow", "allow", beyond, beyond], "{tool}");
    }
}

#[test]
fn only_lines_that_read_permitted_files_are_permitted() {
    let home = home();
    let decide = |home: &Home, line: &str| {
        let reported = run_pre_tool_use(home, "Bash", &json!({"command": line}));
        (reported.decision().to_owned(), reported.reason().to_owned())
    };
    let alone: Vec<_> = LINES.iter().map(|(line, _)| decide(&home, line)).collect();
    let daemon = Daemon::start_in(home);
    for ((line, expect), alone) in LINES.iter().zip(alone) {
        let (decision, reason) = decide(daemon.home(), line);
        assert_eq!(decision, *expect, "{line}: {reason}");
        assert_eq!((decision, reason), alone, "the same without a daemon: {line}");
    }
    let (_, reason) = decide(daemon.home(), "cat README.md | head -5");
    assert!(reason.contains("run_command.allowed_commands (") && reason.contains("tools.yaml:"), "{reason}");
    for (mode, expect) in [("ALERT", "ask"), ("LOCKDOWN", "deny")] {
        daemon.home().run(&["mode", "set", mode]).must_exit(0);
        assert_eq!(decide(daemon.home(), "cat README.md").0, expect, "{mode}");
    }
}

/// A rule of the operator for `bash` and a program of the project are not overruled.
#[test]
fn rules_for_the_shell_and_a_foreign_path_still_ask() {
    let home = home();
    let cat = json!({"command": "cat README.md"});
    assert_eq!(run_pre_tool_use(&home, "Bash", &cat).decision(), "allow");
    let text = std::fs::read_to_string(home.root().join("config/governance/tools.yaml")).unwrap();
    let rules = "tools:\n  bash: {requires_approval: true}\n";
    home.configure("governance/tools.yaml", &text.replacen("tools:\n", rules, 1));
    let reported = run_pre_tool_use(&home, "Bash", &cat);
    assert!(reported.decision() == "ask" && reported.reason().contains("tools.yaml:"), "{}", reported.object);
    let rules = "tools:\n  bash: {allowed_commands: [cat, grep]}\n";
    home.configure("governance/tools.yaml", &text.replacen("tools:\n", rules, 1));
    let checked = home.run(&["check"]).must_exit(0);
    assert!(checked.stdout().contains("0 warnings"), "no false warning about a host's tool: {checked}");
    assert_eq!(
        run_pre_tool_use(&home, "Bash", &json!({"command": "cat README.md | grep x"})).decision(),
        "deny"
    );
    home.configure("governance/tools.yaml", &text);
    let table = include_str!("../../../config/hosts/claude-code.yaml");
    home.configure("hosts/claude-code.yaml", &table.replace("reading_lines: true", "reading_lines: false"));
    assert_eq!(run_pre_tool_use(&home, "Bash", &cat).decision(), "ask");
}

/// The hook judges by the PATH of the host: a `cat` of the project comes first there.
#[test]
fn program_of_the_project_is_not_taken_for_one_of_the_system() {
    let home = home();
    let bin = home.workspace().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("cat"), "#!/bin/sh\n").unwrap();
    let event = super::event(&home, "Bash", &json!({"command": "cat README.md"})).to_string();
    let path = std::env::var("PATH").unwrap();
    let with = |path: String| super::run_with(&home, &["pre-tool-use"], event.as_bytes(), &[("PATH", path)]);
    assert_eq!(with(path.clone()).decision(), "allow");
    assert_eq!(with(format!("{}:{path}", bin.display())).decision(), "ask");
    assert_eq!(run(&home, &["pre-tool-use"], event.as_bytes()).decision(), "allow");
}
