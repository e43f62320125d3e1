//! A command about several things: every one is tried, whatever became of the others.

use serde_json::{Value, json};

use crate::exit::{Exit, Problem};
use crate::render;
use crate::terminal::say;

/// Does it for each id. With `json`, what failed is in the answer too, under `key`, so that a reader can pair ids with replies.
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
