//! A walk through every command on terminals of 50, 80 and 120 columns. No line exceeds the terminal, so nothing wraps inside
//! an id, a word or an escape sequence. `SINEW_SCREENS=save cargo xtask test walk::` renews the saved screens.

mod commands;

use std::path::Path;

use serde_json::json;
use tests::{Daemon, Home, Terminal, TerminalForm};

use self::commands::{LEFT_OUT, MEASURED, MEASURED_WITHOUT_DAEMON, SAVED, SAVED_WITHOUT_DAEMON, Words};

const WIDTHS: [u16; 3] = [50, 80, 120];
/// More rows than any command prints, so that no pager is started.
const ROWS: u16 = 2000;
/// Test cases of a policy, one of which fails.
const CASES: &str = "cases:
- {tool: read_file, arguments: {path: notes.md}, expect: allow}
- {tool: write_file, arguments: {path: /etc/hosts, content: x}, expect: allow}
";

/// Starts a daemon with calls of every outcome, an approval that waits, a named client and a worker session.
fn lived_in_daemon() -> Daemon {
    let home = Home::initialised().without_automatic_modes();
    home.file("notes.md", "a needle in a haystack\nand no needle here\n");
    let daemon = Daemon::start_in(home);
    let run = |words: &[&str]| drop(daemon.home().run(words));
    run(&["call", "write_file", "path=first.txt", "content=hello"]);
    run(&["call", "write_file", "path=second.txt", "content=hello"]);
    run(&["call", "read_file", "path=notes.md"]);
    run(&["call", "read_file", "path=/etc/shadow"]);
    run(&["call", "read_file", "pth=x"]);
    run(&["call", "read_file", "path=missing.txt"]);
    run(&["mode", "set", "ALERT", "--reason", "the walk needs calls that wait for approval"]);
    run(&["call", "write_file", "path=plan.md", "content=x", "--async"]);
    run(&["sessions", "open", "--name", "reviewer", "--allow", "read_file"]);
    daemon.home().file("cases.yaml", CASES);
    std::fs::create_dir(daemon.home().workspace().join("other-policy")).expect("a folder");
    daemon.home().file("other-policy/tools.yaml", "tools: {write_file: {requires_approval: true}}\n");
    daemon
}

#[test]
fn no_line_exceeds_the_terminal() {
    let daemon = lived_in_daemon();
    let mut agent = daemon.agent();
    let client = json!({"name": "a-client-with-a-name", "version": "1"});
    agent.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
    );
    let records = daemon.home().records();
    let refused = records.iter().find(|record| record["code"] == "path_forbidden").expect("a refused call");
    let id = refused["call_id"].as_str().unwrap().to_owned();
    let of_id: Vec<Vec<&str>> = vec![vec!["ledger", "show", &id], vec!["trace", &id]];
    let mut wide = Vec::new();
    for width in WIDTHS {
        let mut saved = String::new();
        for words in SAVED {
            let lines = walk_through(daemon.home(), width, words, &mut wide);
            saved.push_str(&screen_text(words, &lines, daemon.home()));
        }
        compare_with_saved(&width.to_string(), &saved);
    }
    // Some of these change what the saved screens show.
    let measured = MEASURED.iter().map(|words| words.to_vec());
    for words in of_id.into_iter().chain(measured) {
        for width in WIDTHS {
            walk_through(daemon.home(), width, &words, &mut wide);
        }
    }
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn no_line_exceeds_the_terminal_without_a_daemon() {
    let mut wide = Vec::new();
    for width in WIDTHS {
        let home = Home::initialised().without_automatic_modes();
        home.file("notes.md", "a needle in a haystack\n");
        let mut saved = String::new();
        for words in SAVED_WITHOUT_DAEMON {
            let lines = walk_through(&home, width, words, &mut wide);
            saved.push_str(&screen_text(words, &lines, &home));
        }
        for words in MEASURED_WITHOUT_DAEMON {
            walk_through(&home, width, words, &mut wide);
        }
        compare_with_saved(&format!("{width}-without-daemon"), &saved);
    }
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn help_of_every_command_fits_and_every_command_is_walked() {
    let home = Home::initialised();
    let pages = home.workspace().join("man1");
    home.run(&["manual", &pages.display().to_string()]).must_exit(0);
    let walked = [SAVED, MEASURED, SAVED_WITHOUT_DAEMON, MEASURED_WITHOUT_DAEMON].concat();
    let mut wide = Vec::new();
    let names = std::fs::read_dir(&pages).expect("pages").map(|page| page.expect("a page").file_name());
    for name in names {
        let name = name.to_string_lossy().into_owned();
        let Some(command) = name.strip_suffix(".1").and_then(|name| name.strip_prefix("sinew-")) else {
            continue;
        };
        let words = command_words(command, &walked);
        let Some(words) = words else { panic!("`sinew {command}` is neither walked through nor left out") };
        for width in WIDTHS {
            let mut help = words.clone();
            help.push("--help");
            walk_through(&home, width, &help, &mut wide);
        }
    }
    assert!(wide.is_empty(), "{wide:#?}");
}

/// Returns the words of the command with this manual page, whose name joins them with `-`, if it is walked through, left out,
/// or the parent of such a command.
fn command_words(page: &str, walked: &[Words]) -> Option<Vec<&'static str>> {
    let all = walked.iter().copied().chain(LEFT_OUT.iter().map(|(words, reason)| {
        assert!(!reason.is_empty());
        *words
    }));
    all.filter_map(|words| {
        (1..=words.len()).map(|length| &words[..length]).find(|head| head.join("-") == page)
    })
    .map(<[&str]>::to_vec)
    .next()
}

/// Runs a command on a terminal, adds the lines that exceed it to `wide`, and returns all lines.
fn walk_through(home: &Home, width: u16, words: &[&str], wide: &mut Vec<String>) -> Vec<String> {
    let form = TerminalForm { columns: width, rows: ROWS, variables: &[] };
    let (_, screen) = Terminal::run_in(&form, home, words).decline_until_exit();
    let lines = shown_lines(&screen);
    let is_wide = |line: &&String| line.chars().count() > usize::from(width) && !is_one_word(line);
    wide.extend(lines.iter().filter(is_wide).map(|line| format!("{width} {words:?}: {line}")));
    lines
}

fn screen_text(words: &[&str], lines: &[String], home: &Home) -> String {
    format!("$ sinew {}\n{}\n\n", words.join(" "), steady(lines, home))
}

/// Returns the lines without escape sequences, each of which must be complete.
fn shown_lines(screen: &str) -> Vec<String> {
    let mut out = String::new();
    let mut rest = screen;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).unwrap_or_else(|| panic!("{screen:?}"));
        assert!(after[..end].chars().all(|c| c.is_ascii_digit() || ";?".contains(c)), "cut: {screen:?}");
        // The live line is erased before a line that stays.
        if &after[..=end] == "2K" {
            let begin = out.rfind('\n').map_or(0, |at| at + 1);
            out.truncate(begin);
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    out.replace('\r', "").lines().map(str::to_owned).collect()
}

/// A word that nothing can break, such as a path, is printed whole.
fn is_one_word(line: &str) -> bool {
    !line.trim().contains(' ')
}

/// Replaces what differs between two runs: names of folders, ids, digests, times and numbers.
fn steady(lines: &[String], home: &Home) -> String {
    let folder = home.user_home().file_name().unwrap().to_string_lossy().into_owned();
    let workspace = format!("/{}", home.workspace().file_name().unwrap().to_string_lossy());
    let line = |line: &String| {
        // The names have the same lengths, so that they wrap alike.
        let line = line.replace(&folder, "sinew-test-000000").replace(&workspace, "/proj");
        let words = line.split(' ').map(|word| {
            let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            let is_id = bare.len() >= 12 && bare.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
            let is_id = is_id && bare.contains(|c: char| c.is_ascii_digit());
            let steady = |c: char| match c {
                'a'..='f' if is_id => '0',
                '0'..='9' => '0',
                c => c,
            };
            // A shortened path may begin within the name of the folder.
            let word = match (word.split_once('…'), word.find("/proj")) {
                (Some((before, after)), Some(_)) => {
                    let rest = after.find("/proj").and_then(|at| after.get(at..)).unwrap_or(after);
                    format!("{before}…{rest}")
                }
                _ => word.to_owned(),
            };
            word.chars().map(steady).collect::<String>()
        });
        let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        let indent = line.len() - line.trim_start().len();
        let mut text = words.join(" ");
        // Process ids and durations have as many digits as they happen to have.
        while text.contains("00") {
            text = text.replace("00", "0");
        }
        for unit in ["µs", "ms", "s", "min"] {
            for digits in ["0.0", "0"] {
                text = text.replace(&format!(" {digits} {unit}"), " N ms");
            }
        }
        text = text.replace(" N ms N ms", " N ms");
        format!("{}{text}", " ".repeat(indent)).trim_end().to_owned()
    };
    // Whether the id of a process fits on the line depends on its digits.
    let text = lines.iter().map(line).collect::<Vec<_>>().join("\n");
    text.split("pid\n").map(|part| part.trim_start_matches(' ')).collect::<Vec<_>>().join("pid ")
}

fn compare_with_saved(name: &str, screens: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("suite/command_line/screens/{name}.txt"));
    if std::env::var_os("SINEW_SCREENS").is_some_and(|wish| wish == "save") {
        std::fs::write(&path, screens).expect("save the screens");
        return;
    }
    // Paths wrap where the temporary folder has another name.
    if std::env::temp_dir() != Path::new("/tmp") || cfg!(not(target_os = "linux")) {
        return;
    }
    let saved = std::fs::read_to_string(&path).expect("there are saved screens");
    for (saved, now) in saved.split("\n\n$ ").zip(screens.split("\n\n$ ")) {
        assert_eq!(saved, now, "on {name} columns; `SINEW_SCREENS=save` renews the saved screens");
    }
    assert_eq!(saved.len(), screens.len());
}

#[test]
fn long_output_goes_through_the_pager_of_the_user() {
    let home = Home::new();
    let form = TerminalForm { columns: 80, rows: 10, variables: &[("SINEW_PAGER", "tail -n 1")] };
    let (code, screen) = Terminal::run_in(&form, &home, &["help", "exit-codes"]).wait_for_exit();
    let lines = shown_lines(&screen);
    assert_eq!((code, lines.len()), (Some(0), 1), "{lines:#?}");
    // Short output does not.
    let form = TerminalForm { rows: 60, ..form };
    let (_, screen) = Terminal::run_in(&form, &home, &["help", "exit-codes"]).wait_for_exit();
    assert!(shown_lines(&screen).len() > 8, "{screen}");
}

#[test]
fn colour_follows_the_option() {
    let home = Home::initialised();
    let piped = |words: &[&str]| home.run(words).stdout().contains('\u{1b}');
    assert!(!piped(&["mode", "get"]) && !piped(&["--color", "never", "mode", "get"]));
    assert!(piped(&["--color", "always", "mode", "get"]) && piped(&["mode", "get", "--color=always"]));
    let (_, screen) = Terminal::run(&home, &["mode", "get", "--color", "never"]).wait_for_exit();
    // Erasing the line of a wait is no colour.
    assert!(!screen.replace("\u{1b}[2K", "").contains('\u{1b}'), "{screen:?}");
}

#[test]
fn waiting_call_has_a_line_that_lives_on_a_terminal_only() {
    let daemon = lived_in_daemon();
    let words = ["call", "write_file", "path=waits.txt", "content=x"];
    let mut terminal = Terminal::run(daemon.home(), &words);
    let screen = terminal.wait_for("waits for approval");
    assert!(screen.contains("sinew approvals watch") && screen.contains("Ctrl-C cancels"), "{screen:?}");
    drop(terminal);
    let piped =
        daemon.home().run(&["call", "--deadline-ms", "1500", "write_file", "path=piped.txt", "content=x"]);
    assert!(!piped.stderr().contains("Ctrl-C") && !piped.stderr().contains('\r'), "{piped}");
}
