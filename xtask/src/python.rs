//! Python interpreters with the packages that tests use: `jsonschema`, the second validator that the
//! guardrail is compared with; `mcp`, the official library; version 1 of `mcp`, which has WebSocket servers;
//! and the checkers and frameworks that the Python client is tested with. Each is found, or installed below `target`. If neither works, this module prints it, and those
//! tests are left out.

use std::process::Command;

use crate::process;
use crate::tree::Root;

/// Python interpreter with certain packages.
struct Python {
    /// Variable by which tests find it.
    variable: &'static str,
    /// Name of its folder below `target`.
    folder: &'static str,
    packages: &'static [&'static str],
    /// Code that works only if the packages are installed.
    proof: &'static str,
}

const ALL: [Python; 3] = [
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
    Python {
        variable: "SINEW_CLIENT_PYTHON",
        folder: "client-python",
        packages: &[
            "mypy==2.4.1",
            "pytest==9.2.0",
            "opentelemetry-sdk==1.45.2",
            "pydantic-ai-slim==2.66.0",
            "langchain-core==1.7.2",
            "openai-agents==0.24.0",
        ],
        proof: "import mypy, pytest, opentelemetry.sdk.trace, pydantic_ai, langchain_core.tools, agents",
    },
];

/// Interpreters that are found or can be installed, each with the variable by which tests find it.
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
                println!("python3 with {packages} is not available: tests with it are skipped");
                None
            }
        }
    }

    fn is(&self, python: &str) -> bool {
        process::works(Command::new(python).args(["-c", self.proof]))
    }
}
