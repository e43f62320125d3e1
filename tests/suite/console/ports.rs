//! The port of a console: announced to the daemon, closed to every call, and on record.

use super::*;

/// Policy that lets a web tool reach servers on this machine.
const OPEN_POLICY: &str = "outbound_gateway: {allowed_domains: [\"*\"], allow_private_addresses: true}\n";

fn notes(daemon: &Daemon) -> Vec<String> {
    let records = daemon.home().complete_records().into_iter().filter(|record| record["kind"] == "note");
    let about = records.filter_map(|record| record["about"].as_str().map(str::to_owned));
    about.filter(|about| about.starts_with("console_")).collect()
}

#[test]
fn console_is_on_record_from_its_opening_to_its_end() {
    let daemon = Daemon::start();
    assert_eq!(notes(&daemon), [""; 0]);
    let console = Console::start(daemon.home());
    assert_eq!(notes(&daemon), ["console_opened"]);
    drop(console);
    tests::wait_until("the end of the console", || notes(&daemon) == ["console_opened", "console_closed"]);
}

#[test]
fn agents_cannot_open_a_console() {
    let daemon = Daemon::start();
    let refused = daemon.agent().request("control/console.open", &json!({"port": 4711}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    for port in [json!(0), json!(65536), json!(-1), json!("80")] {
        let error = daemon.control().request("control/console.open", &json!({"port": port}))["error"].clone();
        assert_eq!(error["data"]["field"], "port", "{error}");
    }
}

#[test]
fn decisions_on_the_connection_of_a_console_need_a_pin() {
    let daemon = daemon_that_asks();
    let id = request_approval(&mut daemon.agent(), "a.txt", "x");
    let mut control = daemon.control();
    let opened = control.request("control/console.open", &json!({"port": 4711}));
    assert_eq!(opened["result"]["following"], true, "{opened}");
    let again = control.request("control/console.open", &json!({"port": 4711}));
    assert_eq!(again["error"]["data"]["code"], "already_open", "{again}");
    let mut refused = |method: &str, params: Value| {
        let reply = control.request(method, &params);
        assert_eq!(reply["error"]["data"]["code"], "pin_not_set", "{method}: {reply}");
    };
    refused("control/approvals.decide", json!({"id": id, "answer": "approve"}));
    refused("control/pin.set", json!({"new": "chosen by a page"}));
    refused("control/callers.resume", json!({"caller": "process:1"}));
    refused("control/reload", json!({"accept": "x"}));
    refused("control/undo", json!({"call_id": "01a1ef3b-696d-7568-996f-322fac548d27"}));
    refused("control/recording.start", json!({"workspace": "/x", "seconds": 60, "accept": "x"}));
    let strict = control.request("control/mode.set", &json!({"mode": "LOCKDOWN", "reason": "test"}));
    assert_eq!(strict["result"]["mode"], "LOCKDOWN", "{strict}");
    let loose = control.request("control/mode.set", &json!({"mode": "RECOVERY", "reason": "test"}));
    assert_eq!(loose["error"]["data"]["code"], "pin_not_set", "{loose}");
    let denied = control.request("control/approvals.decide", &json!({"id": id, "answer": "deny"}));
    assert_eq!(denied["result"]["decided"], true, "{denied}");
    let records = daemon.home().complete_records();
    let via = |event: &str, key: &str| {
        records.iter().find(|record| record[key] == event).map(|record| record["via"].clone())
    };
    assert_eq!(via("denied", "event"), Some(json!("console")));
    assert_eq!(via("mode", "kind"), Some(json!("console")));
}

#[test]
fn no_call_reaches_the_port_of_a_console() {
    let home = Home::initialised();
    home.configure_layer("governance/safety.yaml", OPEN_POLICY);
    home.configure(
        "governance/tools.yaml",
        "tools:\n  fetch_url: {allowed_domains: [\"*\"], allowed_in_modes: [NORMAL]}\n",
    );
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let console = Console::start(daemon.home());
    for host in ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]", "127.1"] {
        let url = format!("http://{host}:{}/", console.port);
        let result = agent.execute("fetch_url", &json!({"url": url}));
        assert_eq!(result["success"], false, "{url}: {result}");
        assert!(!result["output"].to_string().contains("Sinew"), "{url}: {result}");
    }
}
