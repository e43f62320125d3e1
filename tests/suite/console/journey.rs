//! The work of an operator in a real browser, by keyboard alone: see a call, read a request to its end, approve, deny,
//! edit, cancel, lock down, find a refusal and its rule, and replay another policy.

use tests::Browser;

use super::*;

/// Opens the console in the browser and waits for its live data.
pub(super) fn open(browser: &mut Browser, console: &Console) {
    browser.open(&console.link);
    browser.wait_for("document.querySelector('.link')?.textContent.includes('live')");
}

fn go(browser: &mut Browser, key: &str, title: &str) {
    browser.evaluate("document.activeElement.blur()");
    browser.press("g");
    browser.press(key);
    browser.wait_for(&format!("document.querySelector('h1')?.textContent === {}", json!(title)));
}

/// Submits the open dialog with the Enter key. A dialog ignores keys for its first moments.
fn submit(browser: &mut Browser) {
    browser.wait_for("(window.dialogAge ??= performance.now(), performance.now() - window.dialogAge > 450)");
    browser.evaluate("delete window.dialogAge");
    browser.press("Enter");
}

fn written(daemon: &Daemon, name: &str) -> Option<String> {
    std::fs::read_to_string(daemon.home().workspace().join(name)).ok()
}

fn no_problems(browser: &mut Browser) {
    let problems = browser.take_problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Watches a harmless call.
fn sees_a_call_live(browser: &mut Browser, daemon: &Daemon) {
    go(browser, "v", "Live");
    daemon.agent().execute("read_file", &json!({"path": "notes.txt"}));
    browser.wait_for("document.querySelector('.feed')?.innerText.includes('read_file')");
}

/// Approves a request, which is possible only after its end was on the screen.
fn approves_a_request(browser: &mut Browser, daemon: &Daemon) {
    go(browser, "i", "Inbox");
    let long: String = (0..400).map(|n| format!("line {n}\n")).collect();
    let mut agent = daemon.agent();
    let approved = std::thread::spawn(move || {
        agent.execute("write_file", &json!({"path": "notes.txt", "content": long}))
    });
    browser.wait_for("document.querySelectorAll('.requests li').length === 1");
    browser.press("j");
    browser.wait_for("document.querySelector('.sheet .content')");
    browser.wait_for_text("scroll to the end to approve");
    browser.press("Shift+A");
    browser.wait_for_text("Read the request to its end first");
    assert_eq!(browser.evaluate("document.querySelector('dialog') === null"), true);
    browser.tab_to("The whole request");
    for part in ["notes.txt", "write_file.requires_approval", "line 399"] {
        assert!(
            browser.evaluate("document.querySelector('.sheet').textContent").as_str().unwrap().contains(part),
            "{part}"
        );
    }
    browser.press("End");
    browser.wait_for_text("Read to the end.");
    browser.press("Shift+A");
    browser.wait_for("document.querySelector('dialog[open] input[name=pin]')");
    // The first field of the dialog is the scope; the PIN is typed where a person would type it.
    while browser.evaluate("document.activeElement.name") != "pin" {
        browser.press("Tab");
    }
    browser.type_text(PIN);
    submit(browser);
    browser.wait_for("!document.querySelector('dialog')");
    let done = approved.join().unwrap();
    assert_eq!(done["success"], true, "{done}");
    assert!(written(daemon, "notes.txt").unwrap().ends_with("line 399\n"));
}

/// Denies a request with a message for the model.
fn denies_with_a_message(browser: &mut Browser, daemon: &Daemon) {
    let mut agent = daemon.agent();
    let denied =
        std::thread::spawn(move || agent.execute("write_file", &json!({"path": "b.txt", "content": "b"})));
    browser.wait_for("document.querySelectorAll('.requests li').length === 1 && document.querySelector('.requests li').innerText.includes('b.txt')");
    browser.evaluate("document.activeElement.blur()");
    browser.press("j");
    browser.wait_for("document.querySelector('.sheet h2')?.textContent.includes('b.txt')");
    browser.press("d");
    browser.wait_for("document.activeElement.tagName === 'TEXTAREA'");
    browser.type_text("use the staging folder");
    browser.press("Tab");
    while browser.evaluate("document.activeElement.name") != "go" {
        browser.press("Tab");
    }
    submit(browser);
    let denied = denied.join().unwrap();
    assert!(denied.to_string().contains("use the staging folder"), "{denied}");
}

/// Edits a request: the edited call is judged first, and asks again.
fn edits_a_request(browser: &mut Browser, daemon: &Daemon) {
    let mut agent = daemon.agent();
    let edited =
        std::thread::spawn(move || agent.execute("write_file", &json!({"path": "c.txt", "content": "c"})));
    browser.wait_for("document.querySelector('.requests')?.innerText.includes('c.txt')");
    browser.evaluate("document.activeElement.blur()");
    browser.press("j");
    browser.wait_for("document.querySelector('.sheet h2')?.textContent.includes('c.txt')");
    browser.press("e");
    browser.wait_for("document.activeElement.className === 'code'");
    browser.press("Control+a");
    browser.evaluate("document.activeElement.select()");
    browser.type_text("{\"path\": \"/etc/passwd\", \"content\": \"x\"}");
    browser.tab_to("Judge");
    browser.press("Enter");
    browser.wait_for("document.querySelector('.verdict')?.textContent === 'deny'");
    browser.evaluate("document.querySelector('dialog textarea.code').focus()");
    browser.evaluate("document.activeElement.select()");
    browser.type_text("{\"path\": \"d.txt\", \"content\": \"edited\"}");
    browser.tab_to("Judge");
    browser.press("Enter");
    browser.wait_for("document.querySelector('.verdict')?.textContent === 'ask'");
    while browser.evaluate("document.activeElement.name") != "pin" {
        browser.press("Tab");
    }
    browser.type_text(PIN);
    submit(browser);
    browser.wait_for("document.querySelector('.sheet h2')?.textContent.includes('d.txt')");
    browser.tab_to("The whole request");
    browser.press("End");
    browser.wait_for_text("Read to the end.");
    browser.press("Shift+A");
    browser.wait_for("document.querySelector('dialog[open] input[name=pin]')");
    while browser.evaluate("document.activeElement.name") != "pin" {
        browser.press("Tab");
    }
    browser.type_text(PIN);
    submit(browser);
    let edited = edited.join().unwrap();
    assert_eq!(
        (edited["success"].clone(), written(daemon, "d.txt").as_deref()),
        (json!(true), Some("edited")),
        "{edited}"
    );
    assert_eq!(written(daemon, "c.txt"), None);
}

/// Cancels a call that waits.
fn cancels_a_call(browser: &mut Browser, daemon: &Daemon) {
    let mut agent = daemon.agent();
    let cancelled =
        std::thread::spawn(move || agent.execute("write_file", &json!({"path": "e.txt", "content": "e"})));
    go(browser, "v", "Live");
    browser.wait_for("document.querySelector('td button')");
    browser.tab_to("Cancel write_file");
    browser.press("Enter");
    assert_eq!(cancelled.join().unwrap()["success"], false);
}

/// Finds a refusal and its rule.
fn finds_a_refusal(browser: &mut Browser, daemon: &Daemon) {
    daemon.agent().execute("read_file", &json!({"path": "/etc/shadow"}));
    browser.evaluate("location.hash = '#/ledger?kind=refusal&tool=read_file'");
    browser.wait_for("document.querySelector('.vlist')?.innerText.includes('path forbidden')");
    browser.tab_to("Records, newest first");
    browser.press("Enter");
    browser.wait_for("document.querySelector('h1')?.textContent === 'Call'");
    browser.wait_for("document.querySelector('main').innerText.includes('forbidden_paths')");
}

#[test]
fn operator_works_by_keyboard_alone() {
    let Some(mut browser) = Browser::start() else { return };
    let daemon = daemon_with_pin();
    daemon.home().file("notes.txt", "one\ntwo\n");
    let console = Console::start(daemon.home());
    open(&mut browser, &console);
    assert_eq!(browser.evaluate("location.hash"), "#/overview", "the code has left the address");
    assert_eq!(browser.evaluate("document.cookie"), "");
    sees_a_call_live(&mut browser, &daemon);
    approves_a_request(&mut browser, &daemon);
    denies_with_a_message(&mut browser, &daemon);
    edits_a_request(&mut browser, &daemon);
    cancels_a_call(&mut browser, &daemon);
    finds_a_refusal(&mut browser, &daemon);

    // Lock down, and see it in the header.
    browser.tab_to("LOCKDOWN");
    browser.press("Enter");
    browser.wait_for("document.querySelector('dialog[open]')");
    submit(&mut browser);
    browser.wait_for("document.querySelector('header.top .mode')?.textContent === 'LOCKDOWN'");
    let status = daemon.control().request("control/status", &json!({}));
    assert_eq!(status["result"]["mode"], "LOCKDOWN", "{status}");
    no_problems(&mut browser);
}

#[test]
fn stricter_policy_is_replayed_as_it_is_typed() {
    let Some(mut browser) = Browser::start() else { return };
    let daemon = daemon_with_pin();
    daemon.home().file("notes.txt", "one\n");
    for _ in 0..3 {
        daemon.agent().execute("read_file", &json!({"path": "notes.txt"}));
    }
    let console = Console::start(daemon.home());
    open(&mut browser, &console);
    browser.evaluate("location.hash = '#/policy/candidate'");
    browser.wait_for("document.querySelector('textarea.editor')?.value.includes('write_file')");
    browser.wait_for_text("No recorded call would be decided differently");
    browser.tab_to("Text of tools.yaml");
    browser.press("Control+a");
    browser.evaluate("document.activeElement.select()");
    browser.type_text(
        "tools:\n  read_file: {allowed_in_modes: [RECOVERY]}\n  write_file: {requires_approval: true}\n",
    );
    browser.wait_for("document.querySelector('.group')?.innerText.includes('read_file')");
    let group = browser.evaluate("document.querySelector('.group summary').innerText");
    assert!(group.as_str().unwrap().contains("allow") && group.as_str().unwrap().contains("deny"), "{group}");
    // A mistake is named with its place.
    browser.evaluate("document.querySelector('textarea.editor').select()");
    browser.type_text("tools: {read_fiel: {}}\n");
    browser.wait_for("document.querySelector('.failure')");
    no_problems(&mut browser);
}

#[test]
fn page_follows_the_daemon_through_a_restart() {
    let Some(mut browser) = Browser::start() else { return };
    let daemon = daemon_with_pin();
    let console = Console::start(daemon.home());
    open(&mut browser, &console);
    let home = daemon.stop();
    browser.wait_for_text("daemon not reachable");
    let daemon = Daemon::start_in(home);
    browser.wait_for("document.querySelector('.link')?.textContent.includes('live')");
    daemon.agent().execute("list_directory", &json!({"path": "."}));
    browser.evaluate("location.hash = '#/live'");
    browser.wait_for("document.querySelector('.feed')?.innerText.includes('list_directory')");
    // The console announced its port again, so a decision through it is still known as one.
    let opened = daemon.home().complete_records().iter().filter(|it| it["about"] == "console_opened").count();
    assert_eq!(opened, 2);
}

#[test]
fn browser_that_a_program_controls_approves_nothing() {
    let Some(mut browser) = Browser::start_with(&[]) else { return };
    let daemon = daemon_with_pin();
    let id = request_approval(&mut daemon.agent(), "a.txt", "x");
    let console = Console::start_with(daemon.home(), &["--open", &id]);
    browser.open(&console.link);
    // `--open` shows the request first.
    browser.wait_for("document.querySelector('.sheet h2')?.textContent.includes('a.txt')");
    assert_eq!(browser.evaluate("navigator.webdriver"), true);
    browser.wait_for_text("this browser is controlled by a program");
    assert_eq!(browser.evaluate("document.querySelector('.answers .primary').disabled"), true);
    assert_eq!(state_of(&daemon, &id).as_deref(), Some("pending"));
}
