//! Pythons with the packages that tests talk to: `jsonschema`, the second validator that the guardrail is compared
//! with, and `mcp`, the official library; and its first version, which has servers that speak by web sockets. Each is found,
//! or installed below `target`; where neither works those tests are left out, and that is said.

use std::process::Command;

use crate::process;
use crate::tree::Root;

/// A Python, by what it has.
struct Python {
    /// Where the tests find it.
    variable: &'static str,
    /// Where it is made, below `target`.
    folder: &'static str,
    packages: &'static [&'static str],
    /// What works where they are.
    proof: &'static str,
}

const ALL: [Python; 2] = [
    Python {
        variable: "SINEW_PYTHON",
        folder: "python",
        packages: &["jsonschema==4.26.0", "mcp==2.3.0"],
        proof: "import jsonschema, mcp_types",
    },
    Python {
        variable: "SINEW_PYTHON_SOCKETS",
        folder: "python-sockets",
        packages: &["mcp[ws]==1.30.0"],
        proof: "import mcp.server.websocket, uvicorn, websockets",
    },
];

/// The Pythons to talk to that there are or that can be made, each with the variable by which tests find it.
pub(crate) fn with_packages(root: &Root) -> Vec<(&'static str, String)> {
    ALL.iter().filter_map(|python| Some((python.variable, python.find(root)?))).collect()
}

impl Python {
    fn find(&self, root: &Root) -> Option<String> {
        let folder = root.path().join("target").join(self.folder);
        let own = folder.join("bin/python").to_string_lossy().into_owned();
        let found = ["python3".to_owned(), own.clone()].into_iter().find(|python| self.is(python));
        if found.is_some() {
            return found;
        }
        let install = |python: &str| {
            process::run(Command::new(python).args(["-m", "pip", "install", "--quiet"]).args(self.packages))
        };
        let installed = process::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            .and_then(|()| install(&own));
        match installed {
            Ok(()) if self.is(&own) => Some(own),
            _ => {
                let packages = self.packages.join(" and ");
                println!("python3 with {packages} is not to be had: tests with it are left out");
                None
            }
        }
    }

    fn is(&self, python: &str) -> bool {
        process::works(Command::new(python).args(["-c", self.proof]))
    }
}
