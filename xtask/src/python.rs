//! A Python with the packages that tests talk to: `jsonschema`, the second validator that the guardrail is compared
//! with, and `mcp`, the official client. It is found, or installed below `target/python`; where neither works those
//! tests are left out, and that is said.

use std::process::Command;

use crate::process;
use crate::tree::Root;

/// Where the tests find it.
pub(crate) const VARIABLE: &str = "SINEW_PYTHON";
const PACKAGES: [&str; 2] = ["jsonschema==4.26.0", "mcp==2.3.0"];

/// The Python to talk to, if there is one or one can be made.
pub(crate) fn with_packages(root: &Root) -> Option<String> {
    let folder = root.path().join("target/python");
    let own = folder.join("bin/python").to_string_lossy().into_owned();
    let found = ["python3".to_owned(), own.clone()].into_iter().find(|python| has_them(python));
    if found.is_some() {
        return found;
    }
    let install = |python: &str| {
        process::run(Command::new(python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))
    };
    let installed =
        process::run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).and_then(|()| install(&own));
    match installed {
        Ok(()) if has_them(&own) => Some(own),
        _ => {
            println!("python3 with {} is not to be had: tests with it are left out", PACKAGES.join(" and "));
            None
        }
    }
}

fn has_them(python: &str) -> bool {
    process::works(Command::new(python).args(["-c", "import jsonschema, mcp_types"]))
}
