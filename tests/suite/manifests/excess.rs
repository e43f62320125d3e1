//! Input that expands or is reinterpreted: small messages that decode to many values, and values that would
//! become references or options, from callers, servers and manifests.

use std::io::Write;

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::run::{code, put};
use crate::web::server::Server;

const RUDE: &str = include_str!("rude.py");

/// Results of two calls to a server that misbehaves in this way.
fn twice(how: &str) -> [Value; 2] {
    let home = Home::initialised().without_automatic_modes();
    let script = home.file("rude.py", RUDE).display().to_string();
    let manifest = format!(
        "tool:\n  id: rude\n  type: mcp\n  name: Rude\n  version: 1.0.0\n  description: d\n  mcp_specific: {{server_command: \
         python3 {script} {how}, transport: stdio}}\n  commands:\n    - {{name: do, category: read_only, risk_level: low}}\n"
    );
    put(&home, "rude.yaml", &manifest);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    [(), ()].map(|()| agent.execute("rude.do", &json!({})))
}

#[test]
fn small_server_message_cannot_expand_beyond_the_limit() {
    for asked in twice("zeros") {
        assert_eq!(asked["metadata"]["failure"]["kind"], "too_large", "{asked}");
        assert!(asked["error"].as_str().unwrap().contains("values"), "{asked}");
    }
    for asked in twice("definitions") {
        assert_eq!(asked["metadata"]["failure"]["kind"], "too_large", "{asked}");
    }
    for how in ["names", "notices"] {
        for asked in twice(how) {
            assert_eq!(asked["output"]["text"], "done", "{how}: {asked}");
        }
    }
}

#[test]
fn server_cannot_answer_a_request_in_advance() {
    for asked in twice("ahead") {
        assert_eq!(asked["output"]["text"], "this", "{asked}");
    }
}

/// A helper may refer to the result of a step; a value from the caller may not.
#[test]
fn callers_own_value_is_never_a_reference() {
    let meta = "
tool:
  schema_version: 2.0
  id: both
  type: meta
  name: n
  version: 1.0.0
  description: d
  meta_specific: {aggregates: [list_directory], orchestration: helpers.plan}
  commands:
    - name: list_twice
      category: read_only
      risk_level: low
      parameters:
        - {name: folder, type: string, format: path}
        - {name: tags, type: array, required: false}
  executable_knowledge:
    helpers:
      - id: plan
        runtime: isolated_vm
        language: javascript
        function: |
          function plan(args) {
            return { steps: [ { id: 'one', tool: 'list_directory', arguments: { path: args.folder } } ],
                     output: { tags: args.tags, own: { $from: 'one.success' } } };
          }
          module.exports = { plan };
";
    let home = Home::initialised().without_automatic_modes();
    put(&home, "both.yaml", meta);
    let daemon = Daemon::start_in(home);
    let folder = daemon.home().workspace().display().to_string();
    let ask =
        |tags: Value| daemon.agent().execute("both.list_twice", &json!({"folder": folder, "tags": tags}));
    let plain = ask(json!(["$from", {"from": 1}]));
    assert_eq!(plain["output"], json!({"tags": ["$from", {"from": 1}], "own": true}), "{plain}");
    let refused = ask(json!(vec![json!({"$from": "one.output"}); 1000]));
    assert_eq!(code(&refused), "validator_rejected", "{refused}");
    assert!(
        refused["error"].as_str().unwrap().contains("'tags' must not contain the key '$from'"),
        "{refused}"
    );
}

/// A processor must not turn a checked argument into an option, because then the checked value is not the
/// value that is run.
#[test]
fn processor_cannot_turn_an_argument_into_an_option() {
    let sorter = "
tool:
  schema_version: 2.0
  id: sorter
  type: cli
  name: n
  version: 1.0.0
  description: d
  cli_specific: {executable: echo}
  commands:
    - name: say_it
      category: read_only
      risk_level: low
      process_input: trim
      parameters: [{name: word, type: string}]
      argv: ['{word}']
    - name: say_both
      category: read_only
      risk_level: low
      parameters: [{name: first, type: string, required: false}, {name: second, type: array}]
      argv: [[--, '{first}'], '{second}']
  executable_knowledge:
    processors:
      - id: trim
        language: javascript
        function: |
          function trim(args) { return { word: args.word.trim() }; }
          module.exports = { trim };
";
    let home = Home::initialised().without_automatic_modes();
    put(&home, "sorter.yaml", sorter);
    let daemon = Daemon::start_in(home);
    let result = daemon.agent().execute("say_it", &json!({"word": " a "}));
    assert_eq!(result["output"]["stdout"], "a\n", "{result}");
    let option = daemon.agent().execute("say_it", &json!({"word": " --version"}));
    assert!(option["error"].as_str().unwrap().contains("would be parsed as an option"), "{option}");
    let left_out = daemon.agent().execute("say_both", &json!({"second": ["--version"]}));
    assert_eq!(code(&left_out), "validator_rejected", "{left_out}");
}

/// HTTP server that keeps the response stream of a call open.
fn open_ended() -> Server {
    Server::start(|request, stream| {
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let result = match asked["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}})
            }
            Some("tools/list") => json!({"tools": [{"name": "do", "inputSchema": {}}]}),
            _ => json!({"content": [{"type": "text", "text": "done"}]}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let _ = stream.write_all(format!("{head}: hello\n\ndata: {answer}\n\n").as_bytes());
        // Writes until the client closes the connection; nothing here ends the stream.
        while asked["method"] == "tools/call" && stream.write_all(b": still here\n\n").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    })
}

fn at(url: &str) -> String {
    format!(
        "tool:\n  id: far\n  type: mcp\n  name: Far\n  version: 1.0.0\n  description: d\n  mcp_specific: {{transport: \
         streamable_http, url: \"{url}\"}}\n  commands:\n    - {{name: do, category: read_only, risk_level: low}}\n"
    )
}

#[test]
fn answer_ends_a_stream_that_stays_open() {
    let server = open_ended();
    let home = crate::web::home(crate::web::OPEN);
    put(&home, "far.yaml", &at(&server.url("/mcp")));
    let daemon = Daemon::start_in(home);
    let asked = daemon.agent().execute("far.do", &json!({}));
    assert_eq!(asked["output"]["text"], "done", "{asked}");
}

/// A manifest is not policy. It reaches this machine only if the policy of its tool names the host.
#[test]
fn manifest_opens_no_access_to_this_machine() {
    let server = open_ended();
    let asked = |url: String, policy: &str| {
        let home = Home::initialised().without_automatic_modes();
        let file = home.root().join("config/governance/tools.yaml");
        let shipped = std::fs::read_to_string(file).unwrap();
        let (before, after) = shipped.split_once("\ntools:\n").unwrap();
        home.configure("governance/tools.yaml", &format!("{before}\ntools:\n{policy}{after}"));
        put(&home, "far.yaml", &at(&url));
        Daemon::start_in(home).agent().execute("far.do", &json!({}))
    };
    let port = server.port();
    for host in ["127.0.0.1", "0x7f.1", "localhost", "[::ffff:127.0.0.1]"] {
        let refused = asked(format!("http://{host}:{port}/mcp"), "");
        assert_eq!(code(&refused), "domain_not_allowed", "{host}: {refused}");
    }
    let widely = asked(server.url("/mcp"), "  far.do: {allowed_domains: ['*']}\n");
    assert_eq!(code(&widely), "domain_not_allowed", "{widely}");
    assert_eq!(server.connections(), 0);
    let named = asked(server.url("/mcp"), "  far.do: {allowed_domains: [127.0.0.1]}\n");
    assert_eq!(named["output"]["text"], "done", "{named}");
}

#[test]
fn too_many_manifests_are_refused_with_their_count() {
    let home = Home::initialised();
    let folder = home.root().join("tools");
    std::fs::create_dir_all(&folder).expect("a folder");
    for number in 0..20_001 {
        std::fs::File::create(folder.join(format!("{number}.yaml"))).expect("a file");
    }
    let begun = std::time::Instant::now();
    // `check` and `serve` agree.
    for words in [&["check"][..], &["serve"]] {
        let refused = home.run(words).must_exit(7);
        let message = refused.stderr() + &refused.stdout();
        assert!(message.contains("has 20001 manifests, and at most 20000 are loaded"), "{refused}");
        assert!(message.contains("limits.max_manifests"), "{refused}");
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("readable");
    for number in 3..20_001 {
        std::fs::remove_file(folder.join(format!("{number}.yaml"))).expect("removed");
    }
    home.configure("sinew.yaml", &settings.replace("max_manifests: 20000", "max_manifests: 2"));
    let refused = home.run(&["check"]).must_exit(7);
    assert!((refused.stderr() + &refused.stdout()).contains("has 3 manifests, and at most 2"), "{refused}");
}
