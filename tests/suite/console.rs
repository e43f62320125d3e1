//! The web console: attacks on its endpoint over HTTP, and the work of the operator in a real browser.

mod attacks;
#[cfg(target_os = "linux")]
mod journey;
#[cfg(target_os = "linux")]
mod pages;
mod ports;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Client, Daemon, Home, sinew};

const PIN: &str = "correct-horse";
/// Time limit of every read, so that a missing response fails the test.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Running `sinew console --no-open`.
struct Console {
    process: Child,
    lines: BufReader<ChildStdout>,
    input: ChildStdin,
    link: String,
    port: u16,
}

impl Console {
    fn start(home: &Home) -> Console {
        Console::start_with(home, &[])
    }

    fn start_with(home: &Home, words: &[&str]) -> Console {
        let mut command = sinew();
        command.args(["console", "--no-open"]).args(words);
        command.env("SINEW_HOME", home.root()).env("HOME", home.user_home()).current_dir(home.workspace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the console starts");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe"));
        let input = process.stdin.take().expect("a pipe");
        let link = read_link(&mut lines);
        let port = link.strip_prefix("http://localhost:").and_then(|rest| rest.split('/').next());
        let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{link}"));
        Console { process, lines, input, link, port }
    }

    /// Returns a new link, as a person gets it with the Enter key.
    fn new_link(&mut self) -> String {
        self.input.write_all(b"\n").expect("press Enter");
        read_link(&mut self.lines)
    }

    fn code(&self) -> String {
        code_of(&self.link)
    }

    fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Sends a request with the headers that a browser sends for a script of the page. A header that is given replaces
    /// the usual one, and an empty one removes it.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> HttpReply {
        let (host, origin, length) = (self.host(), format!("http://{}", self.host()), body.len().to_string());
        let usual = [
            ("host", host.as_str()),
            ("origin", &origin),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/json"),
            ("content-length", &length),
        ];
        let given = |name: &str| headers.iter().any(|(known, _)| *known == name);
        let kept = usual.iter().filter(|(name, _)| !given(name));
        let kept = kept.chain(headers.iter().filter(|(_, value)| !value.is_empty()));
        let head: String = kept.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        // A server that refuses the head may close the connection before it has the body.
        let _ = write!(stream, "{method} {path} HTTP/1.1\r\n{head}connection: close\r\n\r\n{body}");
        HttpReply::read(stream)
    }

    /// Exchanges the code of the link for a token.
    fn open(&self) -> String {
        let reply = self.send("POST", "/api/open", &[], &json!({"code": self.code()}).to_string());
        reply.json()["result"]["token"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned()
    }

    /// Sends a request of an open page.
    fn call(&self, token: &str, name: &str, params: &Value) -> HttpReply {
        let bearer = format!("Bearer {token}");
        self.send("POST", &format!("/api/{name}"), &[("authorization", &bearer)], &params.to_string())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read_link(lines: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

fn code_of(link: &str) -> String {
    link.split_once("/#").unwrap_or_else(|| panic!("{link}")).1.to_owned()
}

/// Response with its head and its whole body.
#[derive(Debug)]
struct HttpReply {
    status: u16,
    head: String,
    body: String,
}

impl HttpReply {
    fn read(mut stream: TcpStream) -> HttpReply {
        let mut bytes = Vec::new();
        // The reset of a connection that was refused ends the reading like its close.
        let mut piece = [0; 8192];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            bytes.extend(&piece[..read]);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        HttpReply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

/// Starts a daemon that asks for every `write_file`, with a PIN.
fn daemon_with_pin() -> Daemon {
    let daemon = daemon_that_asks();
    let set = daemon.control().request("control/pin.set", &json!({"new": PIN}));
    assert_eq!(set["result"]["pin"], true, "{set}");
    daemon
}

fn daemon_that_asks() -> Daemon {
    let home = Home::initialised();
    let policy = "tools:\n  write_file: {requires_approval: true, allowed_in_modes: [NORMAL, ALERT]}\n";
    home.configure("governance/tools.yaml", policy);
    Daemon::start_in(home)
}

/// Requests approval for a `write_file` call without waiting, and returns its id.
fn request_approval(agent: &mut Client, path: &str, content: &str) -> String {
    let arguments = json!({"path": path, "content": content});
    let pending = agent.execute_with("write_file", &arguments, &json!({"approval": "async"}));
    let id = pending["metadata"]["refusal"]["approval_id"].as_str();
    id.unwrap_or_else(|| panic!("{pending}")).to_owned()
}

/// Returns the state of an approval: `pending`, `approved`, or nothing once it is decided otherwise.
fn state_of(daemon: &Daemon, id: &str) -> Option<String> {
    let shown = daemon.control().request("control/approvals.show", &json!({"id": id}));
    shown["result"]["state"].as_str().map(str::to_owned)
}
