//! Approval prompts at a terminal: their content, and that only visible characters are printed.

use serde_json::json;
use tests::Terminal;

use super::*;

#[test]
fn call_without_daemon_prompts_for_itself_only() {
    let daemon = daemon_requiring_approval();
    let theirs = request_approval(&mut daemon.agent(), &json!({"path": "theirs.txt", "content": "x"}));
    let home = daemon.stop();
    let mut terminal = Terminal::run(&home, &["call", "write_file", "path=mine.txt", "content=x"]);
    let screen = terminal.wait_for("approve this call?");
    assert!(screen.contains("mine.txt") && !screen.contains("theirs.txt"), "{screen}");
    terminal.press("y\n");
    let (code, screen) = terminal.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("theirs.txt") && home.workspace().join("mine.txt").exists(), "{screen}");
    // The other request is still pending.
    let daemon = Daemon::start_in(home);
    assert_eq!(pending_approval(&mut daemon.control()), theirs);
}

#[test]
fn watch_shows_a_hostile_call_with_visible_characters_only() {
    let daemon = daemon_requiring_approval();
    let hostile = "\u{1b}[1A\u{1b}]0;title\u{7}\r\u{8}\u{9b}31m\u{202e}\u{200b}\u{e0041}\u{a0}\u{3000}";
    let content = format!("start{hostile}end\n");
    request_approval(&mut daemon.agent(), &json!({"path": format!("n{hostile}.txt"), "content": content}));
    let mut terminal = Terminal::run(daemon.home(), &["approvals", "watch"]);
    let mut screen = terminal.wait_for("q quit");
    terminal.press("x");
    screen.push_str(&terminal.wait_for("why write_file needs approval"));
    terminal.press("q");
    screen.push_str(&terminal.wait_for("q quit"));
    terminal.press("q");
    let (code, rest) = terminal.wait_for_exit();
    assert_eq!(code, Some(0), "{rest}");
    screen.push_str(&rest);
    assert!(screen.contains("start\\u{1b}[1A\\u{1b}]0;title\\u{7}"), "seen for what it is: {screen:?}");
    let left = strip_view_escapes(&screen);
    let bad: Vec<char> = left.chars().filter(|c| tool::text::is_invisible(*c)).collect();
    assert!(bad.is_empty(), "{bad:?} in {left:?}");
}

#[test]
fn init_warns_without_a_pin_and_prompts_only_if_asked() {
    let pin = |home: &Home| home.root().join("state/operator-pin");
    let home = Home::new();
    // Without `--pin` nothing is read from the terminal, so the next typed line reaches the shell.
    let (code, screen) = Terminal::run(&home, &["init"]).wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("no operator PIN is set") && screen.contains("`sinew pin set`"), "{screen}");
    assert!(!pin(&home).exists() && !screen.contains("[y/N]"), "{screen}");
    let mut terminal = Terminal::run(&home, &["init", "--pin"]);
    for prompt in ["new operator PIN", "new operator PIN again"] {
        terminal.wait_for(prompt);
        terminal.press("correct horse\n");
    }
    let (code, screen) = terminal.wait_for_exit();
    assert_eq!(code, Some(0), "{screen}");
    assert!(pin(&home).exists() && !screen.contains("horse"), "{screen}");
    let again = home.run(&["init"]).must_exit(0);
    assert!(!again.stderr().contains("no operator PIN"), "{again}");
}

/// Returns the screen without the escape sequences that the view itself writes to move, clear and colour.
fn strip_view_escapes(screen: &str) -> String {
    let mut out = String::new();
    let mut rest = screen;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = after.find(|c: char| !(c.is_ascii_digit() || ";?".contains(c)));
        match end.and_then(|end| after.split_at_checked(end + 1)) {
            Some((sequence, after)) if sequence.ends_with(['H', 'J', 'K', 'm', 'h', 'l']) => rest = after,
            _ => {
                out.push_str("\u{1b}[");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
