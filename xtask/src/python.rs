//! A Python with the package `jsonschema`: the second validator that the guardrail is compared with. It is found, or
//! installed below `target/python`; where neither works the comparison is left out, and that is said.

use std::process::Command;

use crate::process;
use crate::tree::Root;

/// Where the tests find it.
pub(crate) const VARIABLE: &str = "SINEW_PYTHON";
const PACKAGE: &str = "jsonschema==4.26.0";

/// The Python to compare with, if there is one or one can be made.
pub(crate) fn with_jsonschema(root: &Root) -> Option<String> {
    let folder = root.path().join("target/python");
    let own = folder.join("bin/python").to_string_lossy().into_owned();
    let found = ["python3".to_owned(), own.clone()].into_iter().find(|python| has_it(python));
    if found.is_some() {
        return found;
    }
    let installed = process::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        .and_then(|()| process::run(Command::new(&own).args(["-m", "pip", "install", "--quiet", PACKAGE])));
    match installed {
        Ok(()) if has_it(&own) => Some(own),
        _ => {
            println!("python3 with `{PACKAGE}` is not to be had: the guardrail is not compared with it");
            None
        }
    }
}

fn has_it(python: &str) -> bool {
    process::works(Command::new(python).args(["-c", "import jsonschema"]))
}
