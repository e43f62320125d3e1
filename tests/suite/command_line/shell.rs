//! Shell completion, and the help topics that belong to no command.

use tests::{Daemon, Home, SinewRun, sinew};

/// Returns the completions that fish would get.
fn completions(home: &Home, words: &[&str]) -> String {
    let mut command = sinew();
    command.args(["--", "sinew"]).args(words).env("SINEW_COMPLETE", "fish");
    command.env("SINEW_HOME", home.root()).env("HOME", home.user_home()).current_dir(home.workspace());
    let output = command.output().expect("run sinew");
    let run = SinewRun { arguments: words.join(" "), output }.must_exit(0);
    assert!(run.stderr().is_empty(), "{run}");
    run.stdout()
}

#[test]
fn tools_are_completed_without_starting_anything() {
    let home = Home::initialised();
    for words in [&["call", "read_f"][..], &["explain", "read_f"], &["tools", "show", "read_f"]] {
        assert!(
            completions(&home, words).starts_with("read_file\tRead "),
            "{words:?}: {}",
            completions(&home, words)
        );
    }
    assert!(
        !completions(&home, &["call", "read_file", "wri"]).contains("write_file"),
        "a tool is named first"
    );
    assert!(completions(&home, &["mode", "set", "LOCK"]).contains("LOCKDOWN"));
    for made in ["run", "state", "log"] {
        assert!(!home.root().join(made).exists(), "{made}: looking leaves nothing behind");
    }
    let daemon = Daemon::start_in(home);
    assert!(
        completions(daemon.home(), &["call", "write_"]).starts_with("write_file\t"),
        "as the daemon has them"
    );
}

#[test]
fn unusable_home_completes_no_tools_and_prints_nothing() {
    let home = Home::initialised();
    home.configure("governance/tools.yaml", "tools: 5\n");
    assert!(!completions(&home, &["call", "read_f"]).contains("read_file"));
}

/// An environment variable alone must not turn a command into a completion. For a hook this matters most,
/// because a host takes missing output for an approval.
#[test]
fn completion_variable_alone_changes_no_command() {
    let home = Home::initialised();
    let mut command = sinew();
    command.args(["hook", "pre-tool-use"]).env("SINEW_COMPLETE", "fish").env("SINEW_HOME", home.root());
    let output =
        command.env("HOME", home.user_home()).stdin(std::process::Stdio::null()).output().expect("run sinew");
    assert_eq!(output.status.code(), Some(2), "no input is a reason to block: {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"deny\""), "{output:?}");
}

#[test]
fn every_topic_and_every_command_has_help() {
    let home = Home::initialised();
    let reported = |words: &[&str]| home.run(words).must_exit(0).stdout();
    assert!(reported(&["help", "environment"]).contains("OTEL_EXPORTER_OTLP_ENDPOINT"));
    assert!(reported(&["help", "exit-codes"]).contains("6  the command needs a daemon"));
    let files = reported(&["help", "files"]);
    for place in ["config/sinew.yaml", "state/ledger", "run/agent.sock", "run/control.sock"] {
        assert!(files.contains(&home.root().join(place).display().to_string()), "{place}: {files}");
    }
    assert_eq!(
        reported(&["help", "mode", "set"]).trim_end(),
        reported(&["mode", "set", "--help"]).trim_end()
    );
    assert!(reported(&["help"]).contains("sinew help environment"));
    let lost = home.run(&["help", "enviroment"]).must_exit(2);
    assert!(lost.stderr().contains("sinew help environment"), "{lost}");
}
