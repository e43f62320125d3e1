//! Runs work on large arguments where it cannot stall other connections. Small arguments, the normal case,
//! are handled directly.

use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Limits below which arguments are handled directly. A caller that sends thousands of mistakes alone waits
/// for the list of problems.
const MAX_INLINE_VALUES: usize = 2_000;
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Runs `work`. If the arguments are large, it first moves the other tasks of this runtime thread to another
/// thread (`block_in_place`).
pub(crate) fn offload_if_large<T>(arguments: Value, work: impl FnOnce(Value) -> T) -> T {
    let others_wait =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    match others_wait && is_large(&arguments) {
        true => tokio::task::block_in_place(|| work(arguments)),
        false => work(arguments),
    }
}

fn is_large(value: &Value) -> bool {
    let (mut values, mut bytes) = (0, 0);
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        values += 1;
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => left.extend(items.iter().take(MAX_INLINE_VALUES)),
            Value::Object(map) => {
                bytes += map.keys().map(String::len).sum::<usize>();
                left.extend(map.values().take(MAX_INLINE_VALUES));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if values + left.len() > MAX_INLINE_VALUES || bytes > MAX_INLINE_BYTES {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn many_values_or_long_texts_are_large() {
        let check = |value: Value, large: bool| assert_eq!(is_large(&value), large, "{large}");
        check(json!({"path": "a.txt", "edits": vec!["x"; 1_000]}), false);
        check(json!({"edits": vec!["x"; MAX_INLINE_VALUES]}), true);
        check(json!(["x".repeat(MAX_INLINE_BYTES)]), false);
        check(json!(["x".repeat(MAX_INLINE_BYTES), "x"]), true);
        check(json!({"x".repeat(MAX_INLINE_BYTES + 1): null}), true);
        check(json!([vec![0; 1_500], vec![0; 1_500]]), true);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_arguments_do_not_block_other_tasks() {
        let (open, opened) = mpsc::channel();
        let large = json!(vec![0; MAX_INLINE_VALUES + 1]);
        let waits = tokio::spawn(async move {
            offload_if_large(large, |_| opened.recv_timeout(Duration::from_secs(20)).is_ok())
        });
        tokio::spawn(async move { open.send(()) });
        assert!(waits.await.unwrap(), "the only thread was blocked");
    }
}
