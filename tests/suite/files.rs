//! Tools that read, search and change files, and the undo of their changes.

mod changing;
mod crashes;
mod folders;
mod git_directories;
mod reading;
mod undoing;

use serde_json::Value;
use tests::{Client, Daemon};

/// A daemon and a client of it.
struct FileToolFixture {
    daemon: Daemon,
    agent: Client,
}

#[allow(clippy::needless_pass_by_value)] // arguments are written inline at each call
impl FileToolFixture {
    fn new() -> FileToolFixture {
        let daemon = Daemon::start();
        let agent = daemon.agent();
        FileToolFixture { daemon, agent }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.daemon.home().workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn content(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.daemon.home().workspace().join(name)).ok()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.daemon.home().workspace()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns the output of a call that must succeed.
    fn output_of(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.agent.execute(tool, &arguments);
        assert_eq!(result["success"], true, "{arguments}: {result}");
        result["output"].clone()
    }

    /// Returns the whole result of a call that must succeed.
    fn result_of(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.agent.execute(tool, &arguments);
        assert_eq!(result["success"], true, "{arguments}: {result}");
        result
    }

    /// Returns the kind and the message of a call that must fail.
    fn failure_of(&mut self, tool: &str, arguments: Value) -> (String, String) {
        let result = self.agent.execute(tool, &arguments);
        let kind = result["metadata"]["failure"]["kind"].as_str();
        let kind = kind.unwrap_or_else(|| panic!("{arguments}: {result}")).to_owned();
        (kind, result["error"].as_str().unwrap().to_owned())
    }

    /// Returns the code and the detail of a call that must be refused.
    fn refusal_of(&mut self, tool: &str, arguments: Value) -> (String, String) {
        let result = self.agent.execute(tool, &arguments);
        let refusal = &result["metadata"]["refusal"];
        assert!(refusal.is_object(), "{arguments}: {result}");
        let word = |key: &str| refusal[key].as_str().unwrap_or_default().to_owned();
        (word("code"), word("detail"))
    }
}

fn call_id(result: &Value) -> String {
    result["metadata"]["call_id"].as_str().unwrap().to_owned()
}
