//! Addresses that `fetch_url` refuses, and data about its requests that is not stored.

use std::io::Write;

use serde_json::{Value, json};
use tests::{Daemon, Home, sinew};

use super::server::{Server, response};
use super::{OPEN, everything_kept, fetch, home};

fn detail(result: &Value) -> &str {
    result["metadata"]["refusal"]["detail"].as_str().unwrap_or_default()
}

/// Uses the shipped policy.
#[test]
fn this_machine_is_refused_in_every_notation() {
    let daemon = Daemon::start();
    let server = Server::saying("200 OK", "", "secret");
    let port = server.port();
    let hosts = [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "127.1",
        "１２７.０.０.１",
        "127。0。0。1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "localhost",
        "localhost.",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "[fc00::1]",
        "192.168.1.1",
    ];
    let mut agent = daemon.agent();
    for host in hosts {
        let result = agent.execute("fetch_url", &json!({"url": format!("http://{host}:{port}/")}));
        assert_eq!(result["metadata"]["refusal"]["code"], "domain_not_allowed", "{host}: {result}");
        assert_eq!(detail(&result), "private_address", "{host}");
    }
    for (url, expect) in [
        (format!("http://user:opensesame@127.0.0.1:{port}/"), "userinfo"),
        (format!("http://127.0.0.1:{port}\\@evil.org/"), "bad_url"),
        (format!("http://127.0.0.1%00.evil.org:{port}/"), "bad_url"),
        ("file:///etc/passwd".to_owned(), "scheme"),
    ] {
        assert_eq!(detail(&fetch(&daemon, &url)), expect, "{url}");
    }
    assert_eq!(server.connections(), 0, "nothing may arrive");
}

/// The second hop of a redirect is judged like the first.
#[test]
fn redirect_that_policy_forbids_is_denied_unsent() {
    let inside = Server::at("127.0.0.2", |_, stream| {
        let _ = stream.write_all(&response("200 OK", "", "secret"));
    });
    let location = format!("Location: http://127.0.0.2:{}/\r\n", inside.port());
    let endpoint = Server::saying("302 Found", &location, "");
    let daemon = Daemon::start_in(home("{allowed_domains: [\"127.0.0.1\"], allow_private_addresses: true}"));
    let result = fetch(&daemon, &endpoint.url("/"));
    assert_eq!(
        (&result["success"], &result["metadata"]["failure"]["kind"]),
        (&json!(false), &json!("denied")),
        "{result}"
    );
    assert_eq!(
        (&result["metadata"]["refusal"]["code"], detail(&result)),
        (&json!("domain_not_allowed"), "not_listed")
    );
    assert_eq!((endpoint.connections(), inside.connections()), (1, 0));
    let records = daemon.home().records();
    let failed: Vec<&Value> = records.iter().filter(|record| tests::holds(record, "outcome")).collect();
    assert_eq!(failed.len(), 1, "one end on record: {records:?}");
    assert!(failed[0].to_string().contains("denied"), "{}", failed[0]);
}

/// The hosts of a project bind redirects too.
#[test]
fn redirect_that_a_project_forbids_is_denied_unsent() {
    let inside = Server::at("127.0.0.2", |_, stream| {
        let _ = stream.write_all(&response("200 OK", "", "secret"));
    });
    let location = format!("Location: http://127.0.0.2:{}/\r\n", inside.port());
    let endpoint = Server::saying("302 Found", &location, "");
    let home = home(OPEN);
    std::fs::create_dir(home.workspace().join(".sinew")).unwrap();
    home.file(".sinew/policy.yaml", "tools: {fetch_url: {allowed_domains: [\"127.0.0.1\"]}}\n");
    let daemon = Daemon::start_in(home);
    let result = fetch(&daemon, &endpoint.url("/"));
    assert_eq!(
        (&result["metadata"]["refusal"]["code"], detail(&result)),
        (&json!("domain_not_allowed"), "not_listed"),
        "{result}"
    );
    assert_eq!((endpoint.connections(), inside.connections()), (1, 0));
}

/// Proxy variables of the environment are ignored.
#[test]
fn proxy_of_the_environment_is_not_used() {
    let proxy = Server::saying("200 OK", "", "from the proxy");
    let (server, place) = (Server::saying("200 OK", "Content-Type: text/plain\r\n", "direct"), proxy.url(""));
    let names = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    let variables: Vec<(&str, &str)> = names.into_iter().map(|name| (name, place.as_str())).collect();
    let daemon = Daemon::start_with(home(OPEN), &variables);
    assert_eq!(fetch(&daemon, &server.url("/"))["output"]["text"], "direct");
    assert_eq!(proxy.connections(), 0);
}

/// Credentials in addresses and headers are not stored.
#[test]
fn tokens_and_cookies_are_stored_nowhere() {
    let daemon = Daemon::start_in(home(OPEN));
    let server = Server::start(|request, stream| {
        let cookie = "Set-Cookie: id=cookie-5f1d; Path=/\r\nContent-Type: text/plain\r\n";
        let bytes = match request.starts_with("GET /first") {
            true => response("302 Found", &format!("Location: /second?token=onward-77aa\r\n{cookie}"), ""),
            false => response("200 OK", cookie, "fine"),
        };
        let _ = stream.write_all(&bytes);
    });
    let mut agent = daemon.agent();
    let good = agent.execute("fetch_url", &json!({"url": server.url("/first?token=query-9b3e")}));
    assert_eq!(good["output"]["text"], "fine", "{good}");
    let refused =
        agent.execute("fetch_url", &json!({"url": "http://ada:password-c41d@example.org/?token=late-2c2c"}));
    assert_eq!(detail(&refused), "userinfo", "{refused}");
    let nowhere = agent.execute("fetch_url", &json!({"url": "http://127.0.0.1:22/?token=port-88ee"}));
    assert_eq!(nowhere["success"], false);
    assert!(!server.requests().iter().any(|request| request.to_lowercase().contains("cookie")));
    let kept = everything_kept(&daemon.stop());
    for secret in ["cookie-5f1d", "onward-77aa", "query-9b3e", "password-c41d", "late-2c2c", "port-88ee"] {
        assert!(!kept.contains(secret), "{secret} is kept");
    }
}

/// Without a sandbox nothing is fetched, because the daemon has no parser outside of it.
#[test]
fn without_a_sandbox_nothing_is_fetched() {
    let home = home(OPEN);
    let server = Server::saying("200 OK", "Content-Type: text/html\r\n", "<p>x");
    let result = call_without_namespaces(&home, &json!({"url": server.url("/")}).to_string());
    assert_eq!(result["metadata"]["refusal"]["code"], "sandbox_unavailable", "{result}");
    assert_eq!(server.connections(), 0);
}

/// Calls a tool where no further user namespaces are available.
fn call_without_namespaces(home: &Home, words: &str) -> Value {
    let binary = sinew().get_program().to_owned();
    let mut command = std::process::Command::new("unshare");
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" call fetch_url --json \"$1\"";
    command.args(["--user", "--map-root-user", "sh", "-c", script]).arg(binary).arg(words);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1").env("HOME", home.user_home());
    command.env("SINEW_HOME", home.root()).current_dir(home.workspace());
    let ran = command.output().expect("unshare");
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn mode_decides_which_tools_may_use_the_network() {
    let daemon = Daemon::start_in(home(OPEN));
    let server = Server::saying("200 OK", "Content-Type: text/plain\r\n", "x");
    daemon.home().run(&["mode", "set", "LOCKDOWN", "--reason", "test"]).must_exit(0);
    for (tool, arguments) in
        [("fetch_url", json!({"url": server.url("/")})), ("web_search", json!({"query": "x"}))]
    {
        let result = daemon.agent().execute(tool, &arguments);
        assert_eq!(result["metadata"]["refusal"]["code"], "mode_denied", "{result}");
    }
    assert_eq!(server.connections(), 0);
}
