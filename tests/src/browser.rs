//! Headless Chromium, driven over the DevTools protocol: a page as a person sees it, with the keys they press.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::left_out;

/// Names of the program, in the order in which they are tried.
const PROGRAMS: [&str; 4] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/usr/local/bin/chromium"];
/// Variable by which CI demands the browser: without it, its tests fail instead of being left out.
const REQUIRED: &str = "SINEW_BROWSER_REQUIRED";
/// Timeout for a loaded machine; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A browser with one page. Its processes are killed when it is dropped.
pub struct Browser {
    process: Child,
    _profile: tempfile::TempDir,
    runtime: Runtime,
    socket: WebSocketStream<TcpStream>,
    session: String,
    last_id: u64,
    problems: Vec<String>,
}

impl Browser {
    /// Starts a browser, or reports that the running test is left out.
    pub fn start() -> Option<Browser> {
        // Without the switch, `navigator.webdriver` is true and the console approves nothing.
        Browser::start_with(&["--disable-blink-features=AutomationControlled"])
    }

    /// Starts a browser with these further switches.
    pub fn start_with(switches: &[&str]) -> Option<Browser> {
        let Some(program) = PROGRAMS.iter().map(PathBuf::from).find(|program| program.exists()) else {
            assert!(std::env::var_os(REQUIRED).is_none(), "{REQUIRED} is set, and there is no Chromium");
            left_out("there is no Chromium: `apt-get install chromium`");
            return None;
        };
        let profile = tempfile::tempdir().expect("a profile");
        let mut command = Command::new(program);
        command.args(["--headless=new", "--remote-debugging-port=0", "--no-first-run", "--disable-gpu"]);
        // The sandbox of the browser needs user namespaces, which containers often lack. It loads loopback pages only.
        command.args(["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"]);
        command
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(switches)
            .arg("about:blank");
        command.env("HOME", profile.path()).env("LANG", "en_GB.UTF-8").env("TZ", "UTC");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("start the browser");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let port_file = profile.path().join("DevToolsActivePort");
        let address = crate::wait_for("the port of the browser", || {
            let text = std::fs::read_to_string(&port_file).ok()?;
            let (port, path) = text.split_once('\n')?;
            Some((port.parse::<u16>().ok()?, path.trim().to_owned()))
        });
        let socket = runtime.block_on(async {
            let stream = TcpStream::connect(("127.0.0.1", address.0)).await.expect("connect to the browser");
            let url = format!("ws://127.0.0.1:{}{}", address.0, address.1);
            tokio_tungstenite::client_async(url, stream).await.expect("a web socket").0
        });
        let mut browser = Browser {
            process,
            _profile: profile,
            runtime,
            socket,
            session: String::new(),
            last_id: 0,
            problems: Vec::new(),
        };
        let target = browser.command("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.command("Target.attachToTarget", &attach)["sessionId"].clone();
        browser.session = session.as_str().expect("a session").to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Audits.enable"] {
            browser.command(domain, &json!({}));
        }
        browser.set_size(1280, 860);
        Some(browser)
    }

    /// Sets the size of the page.
    pub fn set_size(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.command("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sends a command and returns its result.
    pub fn command(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.runtime.block_on(self.socket.send(Message::text(message.to_string()))).expect("send a command");
        let deadline = Instant::now() + TIMEOUT;
        loop {
            assert!(Instant::now() < deadline, "{method}: no reply");
            let reply = self.receive();
            if reply["id"] == self.last_id {
                assert!(reply["error"].is_null(), "{method} {params}: {}", reply["error"]);
                return reply["result"].clone();
            }
        }
    }

    /// Receives one message, and collects the problems that the page reports.
    fn receive(&mut self) -> Value {
        let next = async { tokio::time::timeout(TIMEOUT, self.socket.next()).await };
        let message =
            self.runtime.block_on(next).expect("a message in time").expect("a message").expect("text");
        let message: Value = serde_json::from_str(message.to_text().expect("text")).expect("JSON");
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                self.problems
                    .push(format!("exception: {} {}", details["text"], details["exception"]["description"]));
            }
            "Runtime.consoleAPICalled"
                if ["error", "warning", "assert"].iter().any(|it| params["type"] == *it) =>
            {
                self.problems.push(format!("console: {}", params["args"]));
            }
            "Log.entryAdded" if ["error", "warning"].iter().any(|it| params["entry"]["level"] == *it) => {
                self.problems.push(format!("log: {} {}", params["entry"]["text"], params["entry"]["url"]));
            }
            "Audits.issueAdded" => {
                let code = params["issue"]["code"].as_str().unwrap_or_default();
                if code.contains("ContentSecurityPolicy") || code.contains("MixedContent") {
                    self.problems.push(format!("issue: {}", params["issue"]));
                }
            }
            _ => {}
        }
        message
    }

    /// Returns the errors, exceptions and policy violations since the last call.
    pub fn take_problems(&mut self) -> Vec<String> {
        self.evaluate("0");
        std::mem::take(&mut self.problems)
    }

    /// Opens an address.
    pub fn open(&mut self, url: &str) {
        self.command("Page.navigate", &json!({"url": url}));
    }

    /// Returns the value of an expression; a promise is awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let reply = self.command("Runtime.evaluate", &params);
        assert!(reply["exceptionDetails"].is_null(), "{expression}: {}", reply["exceptionDetails"]);
        reply["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while self.evaluate(&format!("Boolean({expression})")) != true {
            if Instant::now() >= deadline {
                let text = self.evaluate("document.body.innerText");
                panic!("not true: {expression}\n{}\n{:?}", text.as_str().unwrap_or_default(), self.problems);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the page shows a text.
    pub fn wait_for_text(&mut self, text: &str) {
        self.wait_for(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Presses a key, such as `Enter`, `Tab`, `d` or `Shift+A`.
    pub fn press(&mut self, key: &str) {
        let (modifiers, name) = match key.rsplit_once('+') {
            Some(("Shift", name)) => (8, name),
            Some(("Control", name)) => (2, name),
            _ => (0, key),
        };
        let code = match name {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            " " => 32,
            "ArrowDown" => 40,
            _ => name.bytes().next().map_or(0, |byte| u32::from(byte.to_ascii_uppercase())),
        };
        let text = match name {
            "Enter" => "\r",
            one if one.chars().count() == 1 && modifiers != 2 => one,
            _ => "",
        };
        let mut event = json!({"type": if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "modifiers": modifiers,
            "key": name, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code});
        if !text.is_empty() {
            event["text"] = json!(text);
        }
        self.command("Input.dispatchKeyEvent", &event);
        event["type"] = json!("keyUp");
        self.command("Input.dispatchKeyEvent", &event);
    }

    /// Types a text into the field that has the focus.
    pub fn type_text(&mut self, text: &str) {
        self.command("Input.insertText", &json!({"text": text}));
    }

    /// Moves the focus with the Tab key until it is on an element whose text or label contains this.
    pub fn tab_to(&mut self, label: &str) {
        for _ in 0..80 {
            self.press("Tab");
            // The body has the focus between the last element and the first one, and contains every text.
            let element = "document.activeElement === document.body ? '' : \
                (document.activeElement.getAttribute('aria-label') ?? '') + ' ' + \
                document.activeElement.textContent.slice(0, 80)";
            if self.evaluate(element).as_str().is_some_and(|text| text.contains(label)) {
                return;
            }
        }
        panic!("the Tab key does not reach `{label}`");
    }

    /// Takes a picture of the page as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let picture = self.command("Page.captureScreenshot", &json!({"format": "png"}));
        decode_base64(picture["data"].as_str().expect("a picture"))
    }

    /// Sets the colours that the desktop prefers: `light` or `dark`.
    pub fn prefer_colours(&mut self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.command("Emulation.setEmulatedMedia", &features);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Decodes base64 without line breaks, as the protocol sends it.
fn decode_base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(value).collect();
    let group = |digits: &[u32]| {
        let bits = digits.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - digits.len()));
        bits.to_be_bytes()[1..digits.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
