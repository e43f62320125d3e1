//! Web tools end to end: real servers on this machine, and listeners that count forbidden connections.

mod bounds;
mod fetch;
mod guards;
mod network_faults;
mod search;
pub(crate) mod server;

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// Home whose gateway has these lines instead of its own.
pub(crate) fn home(gateway: &str) -> Home {
    let home = Home::initialised();
    let file = home.root().join("config/governance/safety.yaml");
    let text = std::fs::read_to_string(&file).expect("the shipped policy");
    let (before, rest) = text.split_once("outbound_gateway:\n").expect("the gateway");
    let (_, after) = rest.split_once("\n\n").expect("what follows it");
    home.configure("governance/safety.yaml", &format!("{before}outbound_gateway: {gateway}\n\n{after}"));
    home
}

/// Gateway that lets tests reach the servers they start.
pub(crate) const OPEN: &str =
    "{allowed_domains: [\"*\"], allow_private_addresses: true, max_response_kb: 1024}";

fn fetch(daemon: &Daemon, url: &str) -> Value {
    daemon.agent().execute("fetch_url", &json!({"url": url}))
}

/// Replaces the `web` part of the settings.
pub(crate) fn with_settings(home: Home, web: &str) -> Home {
    let file = home.root().join("config/sinew.yaml");
    let text = std::fs::read_to_string(&file).expect("the settings");
    let (before, rest) = text.split_once("\nweb:\n").expect("the web part");
    let (_, after) = rest.split_once("\n\n").expect("what follows it");
    home.configure("sinew.yaml", &format!("{before}\nweb: {web}\n\n{after}"));
    home
}

/// Content of all files of a home, as one text.
pub(crate) fn everything_kept(home: &Home) -> String {
    let (mut folders, mut found) = (vec![home.root()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of ours").flatten() {
            let kind = entry.file_type().expect("a kind");
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => folders.push(entry.path()),
                (_, true) => found.extend(std::fs::read(entry.path()).unwrap_or_default()),
                _ => {}
            }
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}
