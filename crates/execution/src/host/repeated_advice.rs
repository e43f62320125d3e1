//! Memory of host calls that were refused with advice about a text they contain, such as a very short one.
//!
//! Such advice ends a loop of empty writes, but an empty file can be intended. A call that is repeated
//! unchanged after the advice is therefore judged without it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tool::{Refusal, canonical};

/// Time within which a repetition counts as intended.
const MEMORY: Duration = Duration::from_secs(10 * 60);
/// Maximum number of remembered calls; the oldest are forgotten first.
const MAX_REMEMBERED: usize = 256;

/// Digests of refused calls, oldest first. Each is forgotten once the call was repeated.
#[derive(Default)]
pub(crate) struct RepeatedAdvice(Mutex<VecDeque<(String, Instant)>>);

impl RepeatedAdvice {
    /// Returns true if the same call was refused with this advice before. Otherwise remembers it.
    pub(super) fn is_repeated(&self, key: &str) -> bool {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|(_, at)| at.elapsed() < MEMORY);
        if let Some(found) = refused.iter().position(|(known, _)| known == key) {
            refused.remove(found);
            return true;
        }
        if refused.len() >= MAX_REMEMBERED {
            refused.pop_front();
        }
        refused.push_back((key.to_owned(), Instant::now()));
        false
    }
}

/// Returns the key of a call, if every problem is about a text that the call contains. A missing argument or
/// one of another type is a mistake, however often it is repeated.
pub(super) fn advice_key(
    (host, session): (&str, Option<&str>),
    tool: &str,
    input: &Value,
    refusal: &Refusal,
) -> Option<String> {
    let is_text = |pointer: &str| input.pointer(pointer).is_some_and(Value::is_string);
    let is_advice = !refusal.problems.is_empty() && refusal.problems.iter().all(|it| is_text(&it.pointer));
    is_advice.then(|| canonical::digest(&json!([host, session, tool, input])))
}

#[cfg(test)]
mod tests {
    use tool::RefusalCode;
    use tool::refusal::ArgumentProblem;

    use super::*;

    #[test]
    fn only_an_identical_second_call_passes() {
        let memory = RepeatedAdvice::default();
        assert!(!memory.is_repeated("a"), "the first is refused");
        assert!(!memory.is_repeated("b"), "another call is refused");
        assert!(memory.is_repeated("a"), "the second passes");
        assert!(!memory.is_repeated("a"), "and the third is a first again");
        for number in 0..2 * MAX_REMEMBERED {
            assert!(!memory.is_repeated(&number.to_string()));
        }
        assert!(!memory.is_repeated("0"), "the memory is bounded");
    }

    #[test]
    fn missing_arguments_are_never_advice() {
        let key = |input: Value, pointer: &str| {
            let mut refusal = Refusal::new("Write", RefusalCode::InvalidArguments, "r");
            refusal.problems = vec![ArgumentProblem::new(pointer.to_owned(), "x", "y", "m".to_owned())];
            advice_key(("claude-code", Some("s")), "Write", &input, &refusal)
        };
        let empty = key(json!({"file_path": "/a", "content": ""}), "/content");
        assert!(empty.is_some());
        assert_ne!(empty, key(json!({"file_path": "/b", "content": ""}), "/content"));
        assert_eq!(key(json!({"file_path": "/a"}), "/content"), None);
        assert_eq!(key(json!({"file_path": "/a", "content": 5}), "/content"), None);
    }
}
