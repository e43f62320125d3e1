//! Machines without user namespaces: nothing runs with less isolation than the policy requires.

use std::process::Command;

use serde_json::Value;
use tests::{Home, sinew};

use super::{home, rules};

/// Calls a tool where no further user namespaces are available.
fn call_without_namespaces(home: &Home, words: &str) -> Value {
    let binary = sinew().get_program().to_owned();
    let mut command = Command::new("unshare");
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" call run_command --json \"$1\"";
    command.args(["--user", "--map-root-user", "sh", "-c", script]).arg(binary).arg(words);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1").env("HOME", home.user_home());
    command.env("SINEW_HOME", home.root()).env("SINEW_CANARY", "canary").current_dir(home.workspace());
    let ran = command.output().expect("unshare");
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn without_namespaces_nothing_runs_unless_policy_accepts() {
    let home = home("    min_isolation: full\n");
    let touch = r#"{"command": ["touch", "made"]}"#;
    let refused = call_without_namespaces(&home, touch);
    assert_eq!(refused["metadata"]["refusal"]["code"], "sandbox_unavailable", "{refused}");
    assert!(!home.workspace().join("made").exists(), "nothing ran");

    home.configure("governance/tools.yaml", &rules("    min_isolation: reduced\n"));
    let ran = call_without_namespaces(&home, touch);
    assert_eq!(ran["output"]["exit_code"], 0, "{ran}");
    assert_eq!(ran["metadata"]["sandbox"]["tier"], "reduced", "and it says so");
    assert!(home.workspace().join("made").exists());

    std::fs::write(home.user_home().join("note"), "note").expect("a note");
    let outside = format!(r#"{{"command": ["cat", "{}"]}}"#, home.user_home().join("note").display());
    let denied = call_without_namespaces(&home, &outside);
    assert_eq!(denied["output"]["exit_code"], 1, "{denied}");
    // The reduced tier shows the process list of the machine, but not the content of its entries.
    let looks = r#"{"command": ["sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null | grep -c canary"]}"#;
    let text = call_without_namespaces(&home, looks);
    assert_eq!(text["output"]["stdout"], "0\n", "{text}");

    // Without mounts a name in a granted folder cannot be hidden or protected, so nothing runs where that is
    // required.
    for name in [".env", ".bashrc"] {
        std::fs::write(home.workspace().join(name), "CANARY").expect("a file");
        let refused = call_without_namespaces(&home, r#"{"command": ["cat", ".env"]}"#);
        assert_eq!(refused["success"], false, "{refused}");
        assert!(refused["error"].as_str().unwrap_or_default().contains("full tier"), "{refused}");
        assert!(!refused.to_string().contains("CANARY"), "{refused}");
        std::fs::remove_file(home.workspace().join(name)).expect("a file");
    }
    let leave = r#"{"command": ["sh", "-c", "setsid sleep 61 & echo done"]}"#;
    let left = call_without_namespaces(&home, leave);
    assert_eq!(left["output"]["stdout"], "done\n", "{left}");
}
