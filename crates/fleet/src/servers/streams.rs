//! Streams of the fleet, as the requests that create them.

use serde_json::{Value, json};

use crate::{PARTITIONS, Subjects};

/// Longest message: a bundle of four files.
const MAX_MESSAGE_BYTES: u64 = 1024 * 1024;

/// Stream with its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamDefinition {
    /// Name.
    pub name: String,
    /// Configuration, as the API of JetStream takes it.
    pub config: Value,
}

/// Returns all streams. `ledger_bytes` is the limit of all ledgers together.
pub fn streams(replicas: usize, ledger_bytes: u64) -> Vec<StreamDefinition> {
    let stream = |name: String, subjects: Value, more: Value| {
        let mut config = json!({
            "name": name,
            "subjects": subjects,
            "storage": "file",
            "num_replicas": replicas,
            "retention": "limits",
            "discard": "new",
            "max_msg_size": MAX_MESSAGE_BYTES,
            "allow_direct": true,
            "deny_delete": true,
            "deny_purge": true,
            "allow_rollup_hdrs": false,
        });
        if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
            config.extend(more);
        }
        StreamDefinition { name, config }
    };
    let share = ledger_bytes / u64::from(PARTITIONS);
    let ledgers = (0..PARTITIONS).map(|partition| {
        let subjects = json!([Subjects::ledgers(partition)]);
        stream(Subjects::ledger_stream(partition), subjects, json!({"max_bytes": share}))
    });
    // Only the newest message of a subject counts, and older ones must make room for it.
    let newest = |history: u64| json!({"max_msgs_per_subject": history, "discard": "old"});
    let republished = |source: &str, destination: &str, history: u64| {
        let republish = json!({"src": source, "dest": destination});
        json!({"max_msgs_per_subject": history, "discard": "old", "republish": republish})
    };
    let policy = republished("sinew.v1.policy.*", "sinew.v1.fleet.policy.{{wildcard(1)}}", 8);
    let mode = republished(Subjects::MODE, Subjects::MODE_HINT, 64);
    ledgers
        .chain([
            stream("POLICY".to_owned(), json!(["sinew.v1.policy.*", "sinew.v1.pointer.*"]), policy),
            stream("MODE".to_owned(), json!([Subjects::MODE]), mode),
            stream("ENROL".to_owned(), json!([Subjects::ALL_ENROLMENTS]), newest(1)),
        ])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledgers_cannot_be_deleted_or_displaced() {
        let all = streams(3, 1600);
        assert_eq!(all.len(), usize::from(PARTITIONS) + 3);
        for stream in &all {
            assert_eq!(stream.config["deny_delete"], true, "{}", stream.name);
            assert_eq!(stream.config["deny_purge"], true, "{}", stream.name);
            assert_eq!(stream.config["allow_rollup_hdrs"], false, "{}", stream.name);
            assert_eq!(stream.config["num_replicas"], 3);
            let is_ledger = stream.name.starts_with("LEDGER_");
            assert_eq!(stream.config["discard"], if is_ledger { "new" } else { "old" }, "{}", stream.name);
            assert_eq!(stream.config["max_bytes"] == 100, is_ledger);
        }
        assert_eq!(all[3].config["subjects"], json!(["sinew.v1.ledger.03.*"]));
    }
}
