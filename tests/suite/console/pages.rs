//! Every page in both themes: no error, no policy violation, accessible, and hostile text stays text.

use tests::{Browser, left_out};

use super::journey::open;
use super::*;

const SCREENS: [&str; 14] = [
    "overview",
    "inbox",
    "live",
    "ledger",
    "policy/reach",
    "policy/playground",
    "policy/candidate",
    "policy/suggest",
    "policy/reload",
    "tools",
    "sessions",
    "modes",
    "health",
    "first",
];
/// Folder for the pictures of `cargo xtask docs --screenshots`.
const PICTURES: &str = "SINEW_SCREENSHOTS";

/// Waits until the screen has its data.
fn settle(browser: &mut Browser, screen: &str) {
    browser.evaluate(&format!("location.hash = '#/{screen}'"));
    browser.wait_for("document.querySelector('h1') && !document.body.innerText.includes('Loading…')");
}

fn picture(browser: &mut Browser, name: &str) {
    let Some(folder) = std::env::var_os(PICTURES) else { return };
    let file = std::path::Path::new(&folder).join(format!("{name}.png"));
    std::fs::write(&file, browser.screenshot()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// A daemon with calls of every outcome, and requests that wait.
fn busy_daemon() -> (Daemon, String) {
    let daemon = daemon_with_pin();
    std::fs::create_dir(daemon.home().workspace().join("src")).expect("a folder");
    daemon.home().file("src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n");
    let mut agent = daemon.agent();
    agent.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "review-agent", "version": "1"}}),
    );
    for n in 0..24 {
        agent.execute("read_file", &json!({"path": "src/main.rs"}));
        agent.execute("list_directory", &json!({"path": "."}));
        if n % 4 == 0 {
            agent.execute("read_file", &json!({"path": "/etc/shadow"}));
            agent.execute("search_files", &json!({"query": "main"}));
        }
    }
    agent.execute("run_command", &json!({"command": ["curl", "http://example.org"]}));
    agent.execute("delete_everything", &json!({}));
    request_approval(&mut agent, "README.md", "# A page\n\nText.\n");
    let content =
        "fn main() {\n    let name = std::env::args().nth(1);\n    println!(\"hello {name:?}\");\n}\n";
    let id = request_approval(&mut agent, "src/main.rs", content);
    (daemon, id)
}

/// Returns the id of the first call of a busy daemon that was refused.
fn first_refused_call(daemon: &Daemon) -> String {
    let records = daemon.home().complete_records();
    let refused = records.iter().find(|record| record["kind"] == "refusal").expect("a refusal");
    refused["call_id"].as_str().expect("a call id").to_owned()
}

#[test]
fn every_screen_is_accessible_and_clean_in_both_themes() {
    let Some(mut browser) = Browser::start() else { return };
    let (daemon, id) = busy_daemon();
    let console = Console::start(daemon.home());
    let axe = std::env::var_os("SINEW_AXE")
        .map(|folder| std::path::Path::new(&folder).join("node_modules/axe-core/axe.min.js"));
    let axe = axe.and_then(|file| std::fs::read_to_string(file).ok());
    if axe.is_none() {
        left_out("axe-core is not installed: `cargo xtask test` installs it with npm");
    }
    open(&mut browser, &console);
    if let Some(axe) = &axe {
        browser.evaluate(axe);
    }
    let (request, call) = (format!("inbox/{id}"), format!("call/{}", first_refused_call(&daemon)));
    let mut findings = Vec::new();
    for theme in ["light", "dark"] {
        browser.prefer_colours(theme);
        for screen in SCREENS.into_iter().chain([request.as_str(), call.as_str()]) {
            settle(&mut browser, screen);
            if screen == request {
                browser.wait_for("document.querySelector('.diff')");
                browser.evaluate("document.querySelector('.content').scrollTop = 1e6");
                browser.wait_for_text("Read to the end.");
                browser.evaluate("document.querySelector('.content').scrollTop = 0");
            }
            if screen == "policy/candidate" {
                browser.wait_for_text("decided as before");
            }
            if screen == call {
                browser.wait_for("document.querySelector('main').innerText.includes('forbidden_paths')");
            }
            let name = if screen == request {
                "request".to_owned()
            } else if screen == call {
                "call".to_owned()
            } else {
                screen.replace('/', "-")
            };
            picture(&mut browser, &format!("{name}-{theme}"));
            // A colour is measured after its transition.
            browser.wait_for("document.getAnimations().every((it) => it.playState !== 'running')");
            if axe.is_some() {
                let found = browser.evaluate(
                    "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
                     .then((it) => it.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 160)}: ${n.failureSummary}`)))",
                );
                let found = found.as_array().cloned().unwrap_or_default();
                findings.extend(found.iter().map(|it| format!("{screen} {theme}: {it}")));
            }
        }
    }
    findings.extend(browser.take_problems());
    assert!(findings.is_empty(), "{} findings: {findings:#?}", findings.len());
}

#[test]
fn narrow_page_has_no_horizontal_scroll() {
    let Some(mut browser) = Browser::start() else { return };
    let (daemon, id) = busy_daemon();
    let console = Console::start(daemon.home());
    // A page of 1280 pixels at a zoom of 200 % and of 400 %.
    for width in [640, 320] {
        let link = if width == 640 { console.link.clone() } else { format!("http://{}/", console.host()) };
        browser.set_size(width, 700);
        browser.open(&link);
        browser.wait_for("document.querySelector('.link')?.textContent.includes('live')");
        for screen in SCREENS.into_iter().chain([format!("inbox/{id}").as_str()]) {
            settle(&mut browser, screen);
            let wide = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
            assert!(
                wide.as_i64().is_some_and(|wide| wide <= 0),
                "{screen} at {width}: {wide} pixels too wide"
            );
        }
    }
}

#[test]
fn markup_of_an_agent_stays_text() {
    let Some(mut browser) = Browser::start() else { return };
    let daemon = daemon_with_pin();
    let hostile = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>\u{202e}";
    let mut agent = daemon.agent();
    agent.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": hostile, "version": hostile}}),
    );
    agent.execute(hostile, &json!({}));
    agent.execute("read_file", &json!({"path": hostile}));
    agent.execute("run_command", &json!({"command": [hostile, hostile]}));
    agent.request("sinew/session.open", &json!({"name": hostile, "allow": ["read_file"]}));
    let content =
        format!("{hostile}\n</pre></div>{{{{constructor}}}}${{alert(1)}}\njavascript:window.hacked=1\n");
    let id = request_approval(&mut agent, "<b>name<svg onload=window.hacked=1>.txt", &content);
    let console = Console::start(daemon.home());
    open(&mut browser, &console);
    for screen in ["overview", "live", "ledger", "sessions", "inbox", &format!("inbox/{id}")] {
        settle(&mut browser, screen);
        browser.wait_for("document.querySelector('main').innerText.length > 10");
        assert_eq!(browser.evaluate("window.hacked === undefined"), true, "{screen}");
        let foreign = "document.querySelectorAll('main img, main script, main b svg, main iframe').length";
        assert_eq!(browser.evaluate(foreign), 0, "{screen}");
    }
    browser.wait_for("document.querySelector('.diff')");
    let shown = browser.evaluate("document.querySelector('.sheet').textContent");
    let shown = shown.as_str().unwrap();
    for part in ["<script>window.hacked=1</script>", "\\u{202e}", "<b>name<svg onload=window.hacked=1>.txt"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let problems = browser.take_problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn page_of_another_port_gets_nothing() {
    let Some(mut browser) = Browser::start_with(&[
        "--disable-blink-features=AutomationControlled",
        "--host-resolver-rules=MAP rebound.example 127.0.0.1",
    ]) else {
        return;
    };
    let daemon = daemon_with_pin();
    let console = Console::start(daemon.home());
    open(&mut browser, &console);
    let token = browser.evaluate("sessionStorage.getItem('sinew.token')").as_str().unwrap().to_owned();
    // A development server on another port of this machine, as an agent can start one.
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = other.accept() {
            // The browser also opens connections ahead of their requests.
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let page = "<!doctype html><title>other</title>";
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                    page.len()
                );
            });
        }
    });
    for host in ["localhost", "127.0.0.1"] {
        browser.open(&format!("http://{host}:{port}/"));
        browser.wait_for(&format!("document.title === 'other' && location.hostname === '{host}'"));
        assert_eq!(browser.evaluate("sessionStorage.getItem('sinew.token')"), Value::Null);
        // Even with the token, which it does not have: the origin is another one.
        for mode in ["cors", "no-cors"] {
            let attack = format!(
                "fetch('http://localhost:{}/api/mode', {{method: 'POST', mode: '{mode}', \
                 headers: {{'content-type': 'text/plain', authorization: 'Bearer {token}'}}, \
                 body: JSON.stringify({{mode: 'LOCKDOWN', reason: 'x'}})}}).then((it) => it.status, () => 'refused')",
                console.port
            );
            let end = browser.evaluate(&attack);
            assert!(end == "refused" || end == 0, "{host} {mode}: {end}");
        }
        let framed = format!(
            "new Promise((done) => {{ const frame = document.createElement('iframe'); \
             frame.onload = () => {{ try {{ done(frame.contentDocument === null ? 'closed' : frame.contentDocument.title) }} \
             catch {{ done('closed') }} }}; frame.src = 'http://localhost:{}/'; document.body.append(frame); }})",
            console.port
        );
        assert_ne!(browser.evaluate(&framed), "Sinew console");
    }
    // A name that resolves to this machine: to the browser it is the same origin, and only the host tells.
    browser.open(&format!("http://rebound.example:{}/", console.port));
    browser.wait_for("document.body?.innerText.includes('this server answers to the name of its link only')");
    let mode = daemon.control().request("control/mode.get", &json!({}));
    assert_eq!(mode["result"]["mode"], "NORMAL", "{mode}");
}
