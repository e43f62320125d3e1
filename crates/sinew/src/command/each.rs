//! Runs a command for several ids. A failure of one does not stop the others.

use serde_json::{Value, json};

use crate::exit::{Exit, Problem};
use crate::render;
use crate::terminal::say;

/// Calls `one` for each id. With `json`, prints all replies under `key`, failures included, so that a reader
/// can pair ids with replies. Stops only if the daemon is unreachable.
pub(crate) fn each<Id: std::fmt::Display>(
    ids: &[Id],
    key: &str,
    json: bool,
    mut one: impl FnMut(&Id) -> Result<Value, Problem>,
) -> Result<Exit, Problem> {
    let (mut exit, mut replies) = (Exit::Done, Vec::new());
    for id in ids {
        match one(id) {
            Ok(reply) => replies.push(reply),
            Err(problem) if problem.exit == Exit::Unreachable => return Err(problem),
            Err(problem) => {
                replies.push(json!({"id": id.to_string(), "error": problem.message}));
                crate::complain(&problem);
                exit = problem.exit;
            }
        }
    }
    if json {
        say(render::versioned(json!({key: replies})))?;
    }
    Ok(exit)
}
