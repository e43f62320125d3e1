//! Requests that must have no effect: from other sites, without a session, and without a PIN.

use super::*;

#[test]
fn foreign_hosts_are_misdirected() {
    let daemon = Daemon::start();
    let console = Console::start(daemon.home());
    let (ip, six) = (format!("127.0.0.1:{}", console.port), format!("[::1]:{}", console.port));
    // A name that an attacker resolves to this machine: its requests have no other mark.
    for host in ["evil.example", &format!("evil.example:{}", console.port), "localhost", &ip, &six, ""] {
        for path in ["/", "/app.js", "/api/open"] {
            let method = if path.starts_with("/api") { "POST" } else { "GET" };
            let reply = console.send(method, path, &[("host", host)], "{}");
            // A request without a host is no HTTP/1.1.
            let expect = if host.is_empty() { [400, 421] } else { [421, 421] };
            assert!(expect.contains(&reply.status), "{host} {path}: {reply:?}");
            assert!(!reply.body.contains("Sinew console"), "{reply:?}");
        }
    }
}

#[test]
fn requests_of_other_pages_are_refused() {
    let daemon = daemon_with_pin();
    let console = Console::start(daemon.home());
    let token = console.open();
    let bearer = format!("Bearer {token}");
    let check = |header: (&str, &str), status: u16| {
        let reply = console.send("POST", "/api/status", &[("authorization", &bearer), header], "{}");
        assert_eq!(reply.status, status, "{header:?}: {reply:?}");
    };
    check(("accept", "*/*"), 200);
    // A development server of an agent on another port of this machine: same site, other origin.
    for origin in ["http://localhost:3000", "http://127.0.0.1:3000", "http://evil.example", "null", ""] {
        check(("origin", origin), 403);
    }
    for site in ["same-site", "cross-site", "none", ""] {
        check(("sec-fetch-site", site), 403);
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
        check(("content-type", kind), 415);
    }
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let reply = console.send(method, "/api/status", &[("authorization", &bearer)], "{}");
        assert_eq!(reply.status, 405, "{method}: {reply:?}");
        assert!(!reply.head.contains("access-control-"), "no other origin is admitted: {reply:?}");
    }
}

#[test]
fn every_response_keeps_other_sites_out() {
    let daemon = Daemon::start();
    let console = Console::start(daemon.home());
    for (method, path, host) in [
        ("GET", "/", ""),
        ("GET", "/app.js", ""),
        ("GET", "/none", ""),
        ("POST", "/api/open", ""),
        ("GET", "/", "x"),
    ] {
        let headers: &[(&str, &str)] = if host.is_empty() { &[] } else { &[("host", host)] };
        let reply = console.send(method, path, headers, "{}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'; trusted-types 'none'",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "cache-control: no-store",
            "referrer-policy: no-referrer",
        ] {
            assert!(reply.head.contains(header), "{path}: {header}: {reply:?}");
        }
        assert!(!reply.head.contains("set-cookie") && !reply.head.contains("access-control"), "{reply:?}");
    }
    let embed =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
    assert_eq!(console.send("GET", "/", &embed, "").status, 403, "no page embeds it");
    let script =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")];
    assert_eq!(console.send("GET", "/app.js", &script, "").status, 403);
}

#[test]
fn link_works_once_and_a_session_needs_its_token() {
    let daemon = Daemon::start();
    let mut console = Console::start(daemon.home());
    let first = console.code();
    let open = |console: &Console, code: &str| {
        console.send("POST", "/api/open", &[], &json!({"code": code}).to_string())
    };
    assert_eq!(open(&console, "0".repeat(64).as_str()).code(), "code_invalid");
    let token = open(&console, &first).json()["result"]["token"].as_str().expect("a token").to_owned();
    assert_eq!(open(&console, &first).code(), "code_invalid", "it was used");
    assert_eq!(console.call(&token, "status", &json!({})).status, 200);
    for wrong in ["", "x", &first, &format!("{token}0"), &"0".repeat(64)] {
        assert_eq!(console.call(wrong, "status", &json!({})).status, 401, "{wrong}");
    }
    let none = console.send("POST", "/api/status", &[], "{}");
    assert_eq!((none.status, none.code().as_str()), (401, "no_session"));
    let in_url = console.send("POST", &format!("/api/status?token={token}"), &[], "{}");
    assert_eq!(in_url.status, 401, "a token in a URL is none");
    // A new link voids the one before.
    let (second, third) = (code_of(&console.new_link()), code_of(&console.new_link()));
    assert_eq!(open(&console, &second).code(), "code_invalid");
    let other = open(&console, &third).json()["result"]["token"].as_str().expect("a token").to_owned();
    assert_eq!(console.call(&token, "close", &json!({})).status, 200);
    assert_eq!(console.call(&token, "status", &json!({})).status, 401, "the session was closed");
    assert_eq!(console.call(&other, "status", &json!({})).status, 200, "another tab has its own");
}

#[test]
fn without_a_pin_the_console_loosens_nothing() {
    let daemon = daemon_that_asks();
    let console = Console::start(daemon.home());
    let token = console.open();
    let id = request_approval(&mut daemon.agent(), "a.txt", "x");
    let page = console.call(&token, "request", &json!({"id": id})).json()["result"].clone();
    assert_eq!(page["can_approve"], false, "{page}");
    for pin in ["", "guess-it"] {
        let reply = console.call(&token, "approve", &json!({"id": id, "pin": pin}));
        let expect = if pin.is_empty() { "pin_needed" } else { "pin_not_set" };
        assert_eq!(reply.code(), expect);
    }
    let edit = json!({"id": id, "pin": "guess-it", "arguments": "{\"path\":\"b.txt\",\"content\":\"y\"}"});
    assert_eq!(console.call(&token, "edit", &edit).code(), "pin_not_set");
    assert_eq!(state_of(&daemon, &id).as_deref(), Some("pending"));
    // Locking down and denying need a session only; leaving LOCKDOWN does not work.
    let mode = |mode: &str, pin: &str| {
        console.call(&token, "mode", &json!({"mode": mode, "reason": "test", "pin": pin}))
    };
    assert_eq!(
        console.call(&token, "deny", &json!({"id": id, "message": "no"})).json()["result"]["decided"],
        true
    );
    assert_eq!(state_of(&daemon, &id), None);
    assert_eq!(mode("LOCKDOWN", "").json()["result"]["mode"], "LOCKDOWN");
    assert_eq!(mode("RECOVERY", "").code(), "pin_needed");
    assert_eq!(mode("RECOVERY", "guess-it").code(), "pin_not_set");
    let status = daemon.control().request("control/mode.get", &json!({}));
    assert_eq!(status["result"]["mode"], "LOCKDOWN");
}

#[test]
fn approval_needs_the_right_pin_each_time() {
    let daemon = daemon_with_pin();
    let console = Console::start(daemon.home());
    let token = console.open();
    let mut agent = daemon.agent();
    let (first, second) =
        (request_approval(&mut agent, "a.txt", "x"), request_approval(&mut agent, "b.txt", "x"));
    let approve = |id: &str, pin: &str| console.call(&token, "approve", &json!({"id": id, "pin": pin}));
    assert_eq!(approve(&first, "").code(), "pin_needed");
    assert_eq!(approve(&first, "wrong-horse").code(), "pin_wrong");
    assert_eq!(state_of(&daemon, &first).as_deref(), Some("pending"));
    tests::wait_until("the delay after a wrong PIN", || {
        approve(&first, PIN).json()["result"]["decided"] == true
    });
    assert_eq!(approve(&second, "").code(), "pin_needed", "the PIN of the first is not kept");
    assert_eq!(approve(&first, PIN).code(), "already_decided");
    let unknown = json!({"id": second, "pin": PIN, "force": true});
    assert_eq!(console.call(&token, "approve", &unknown).code(), "invalid");
    // Only what the daemon decided counts, and the record says through which client.
    let granted = daemon.home().complete_records().into_iter().find(|record| record["event"] == "granted");
    let granted = granted.expect("a record");
    assert_eq!((&granted["id"], &granted["via"]), (&json!(first), &json!("console")));
}

#[test]
fn long_bodies_and_foreign_requests_are_refused() {
    let daemon = daemon_with_pin();
    let console = Console::start(daemon.home());
    let token = console.open();
    let id = request_approval(&mut daemon.agent(), "a.txt", "x");
    let arguments = json!({"path": "a.txt", "content": "x".repeat(10_000_000)}).to_string();
    let reply = console.call(&token, "edit", &json!({"id": id, "pin": PIN, "arguments": arguments}));
    assert_eq!(reply.status, 413, "{:.200}", reply.body);
    assert_eq!(
        console.send("POST", "/api/open", &[], &"x".repeat(2_000_000)).status,
        413,
        "before a session"
    );
    // The console is no way around the sockets: it has no entry that calls a tool or stops the daemon.
    for name in ["execute", "control/execute", "shutdown", "control/approvals.decide", "../open", "pin.set"] {
        assert_eq!(console.call(&token, name, &json!({})).code(), "not_found", "{name}");
    }
    let filter = json!({"filter": {"call_id": "x", "idempotency_key": "y"}, "limit": 1});
    assert_eq!(console.call(&token, "ledger", &filter).code(), "invalid");
    let escape = json!({"file": "../sinew.yaml", "text": "x: 1", "days": 1});
    assert_eq!(console.call(&token, "replay", &escape).code(), "invalid");
    assert_eq!(state_of(&daemon, &id).as_deref(), Some("pending"));
}

#[test]
fn code_is_in_no_command_line_and_in_no_readable_file() {
    use std::os::unix::fs::PermissionsExt;
    let daemon = Daemon::start();
    // Takes the place of the browser: `xdg-open` of this test.
    let folder = daemon.home().workspace().join("bin");
    std::fs::create_dir(&folder).expect("a folder");
    let seen = daemon.home().workspace().join("argv");
    let script = format!("#!/bin/sh\necho \"$@\" > {0}.part\nmv {0}.part {0}\n", seen.display());
    for name in ["xdg-open", "open"] {
        std::fs::write(folder.join(name), &script).expect("a script");
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let mut command = sinew();
    command.arg("console").env("SINEW_HOME", daemon.home().root()).env("HOME", daemon.home().user_home());
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().expect("the console starts");
    let link = read_link(&mut BufReader::new(process.stdout.take().expect("a pipe")));
    let file = tests::wait_for("the browser", || std::fs::read_to_string(&seen).ok());
    let code = code_of(&link);
    assert!(!file.contains(&code), "{file}");
    let facts = std::fs::metadata(file.trim()).expect("a file");
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(file.trim()).expect("its text").contains(&link));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(process.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("stop it");
    assert!(process.wait().expect("its end").success());
    assert!(!std::path::Path::new(file.trim()).exists(), "it is removed with the console");
}
