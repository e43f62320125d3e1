//! Lists every setting with its value and source: built in, a line of `sinew.yaml`, or an environment
//! variable.
//!
//! The keys come from the schema of the file, so that no setting can be missing. Values are not validated
//! here: the caller has loaded the file before.

use serde_json::{Map, Value};
use strict_yaml::YamlNode;
use telemetry::redact;

/// Setting with its value and source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettingRow {
    /// Path of the setting, with dots.
    pub(crate) key: String,
    /// Value in force, or `None` if it is not set and has no default.
    pub(crate) value: Option<Value>,
    pub(crate) origin: SettingOrigin,
}

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    /// Built-in default.
    Default,
    /// Line of the settings file.
    File {
        line: u64,
        /// True if the value equals the default.
        is_default: bool,
    },
    /// Environment variable.
    Variable(&'static str),
}

/// Returns all settings in the order of the schema. `built_in` holds the defaults, `file` the settings file.
pub(crate) fn setting_rows(
    schema: &Value,
    built_in: &YamlNode,
    file: Option<&YamlNode>,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<SettingRow> {
    let mut keys = Vec::new();
    collect_leaf_paths(schema, schema, &[], &mut keys);
    keys.iter().flat_map(|path| rows_of_setting(path, built_in, file, &variable)).collect()
}

/// Collects the paths of all values that are not tables.
fn collect_leaf_paths(root: &Value, schema: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
    let resolved = schema["$ref"]
        .as_str()
        .and_then(|reference| root.pointer(reference.trim_start_matches('#')))
        .unwrap_or(schema);
    match resolved["properties"].as_object() {
        Some(properties) => {
            for (name, below) in properties {
                collect_leaf_paths(root, below, &[path, std::slice::from_ref(name)].concat(), found);
            }
        }
        None => found.push(path.to_vec()),
    }
}

/// Returns the row of a setting, and one more for each variable that overrides a part of it.
fn rows_of_setting(
    path: &[String],
    built_in: &YamlNode,
    file: Option<&YamlNode>,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<SettingRow> {
    let key = path.join(".");
    let usual = find_value(built_in, path).map(|(_, node)| node.to_json());
    let reported_text = file.and_then(|file| find_value(file, path));
    let (value, origin) = match reported_text {
        Some((line, node)) => {
            let value = node.to_json();
            let as_built_in = usual.as_ref() == Some(&value);
            (Some(value), SettingOrigin::File { line, is_default: as_built_in })
        }
        None => (usual, SettingOrigin::Default),
    };
    let mut row = SettingRow { value: value.map(|value| redact_value(&key, value)), key, origin };
    let mut more = Vec::new();
    for known in telemetry::VARIABLES.iter().filter(|known| known.key == row.key) {
        let Some(text) = variable(known.name).filter(|text| !text.trim().is_empty()) else { continue };
        let (value, origin) =
            (Some(redact_value(&row.key, Value::String(text))), SettingOrigin::Variable(known.name));
        match known.signal {
            None => (row.value, row.origin) = (value, origin),
            Some(part) => more.push(SettingRow { key: format!("{}.{part}", row.key), value, origin }),
        }
    }
    [vec![row], more].concat()
}

/// Finds a value and the line of its key.
fn find_value<'n>(root: &'n YamlNode, path: &[String]) -> Option<(u64, &'n YamlNode)> {
    path.iter().try_fold((root.line, root), |(_, node), name| Some((node.key(name)?.line, node.get(name)?)))
}

/// Redacts a value. Headers are always hidden, because they usually hold credentials.
fn redact_value(key: &str, value: Value) -> Value {
    const HIDDEN: &str = "[redacted:header]";
    match (key, value) {
        ("otlp.headers", Value::Object(headers)) => Value::Object(
            headers.into_iter().map(|(name, _)| (name, Value::from(HIDDEN))).collect::<Map<_, _>>(),
        ),
        ("otlp.headers", _) => Value::from(HIDDEN),
        (_, value) => redact::shared().redact_owned(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strict_yaml::Document;

    use super::*;

    fn tree(text: &str) -> YamlNode {
        Document::from_text("sinew.yaml", text).unwrap().tree().unwrap()
    }

    fn all(file: Option<&str>, variables: &[(&str, &str)]) -> Vec<SettingRow> {
        let schema = schemars::schema_for!(server::settings::DaemonSettingsFile).to_value();
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        setting_rows(&schema, &tree(server::settings::SETTINGS_TEMPLATE), file.map(tree).as_ref(), variable)
    }

    fn one(rows: &[SettingRow], key: &str) -> (Option<Value>, SettingOrigin) {
        let found: Vec<&SettingRow> = rows.iter().filter(|row| row.key == key).collect();
        assert_eq!(found.len(), 1, "{key}: {rows:?}");
        (found[0].value.clone(), found[0].origin.clone())
    }

    #[test]
    fn every_template_key_is_a_setting() {
        fn check(node: &YamlNode, path: &str, rows: &[SettingRow]) {
            for (key, value) in node.entries() {
                let path = format!("{path}{}", key.value);
                match rows.iter().any(|row| row.key == path) {
                    true => {}
                    false if !value.entries().is_empty() => check(value, &format!("{path}."), rows),
                    false => panic!("{path} is in the template and not among the settings"),
                }
            }
        }
        let rows = all(None, &[]);
        check(&tree(server::settings::SETTINGS_TEMPLATE), "", &rows);
        assert!(rows.iter().all(|row| row.origin == SettingOrigin::Default), "{rows:?}");
        assert_eq!(one(&rows, "limits.max_connections").0, Some(json!(256)));
        assert_eq!(one(&rows, "ledger.keep_days").0, None, "there is no default");
    }

    #[test]
    fn file_overrides_default_and_variable_overrides_file() {
        let file = "limits:\n  max_connections: 9\n  drain_seconds: 10\nlog:\n  level: debug\n";
        let rows =
            all(Some(file), &[("SINEW_LOG", "trace"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/")]);
        let at = |line, as_built_in| SettingOrigin::File { line, is_default: as_built_in };
        assert_eq!(one(&rows, "limits.max_connections"), (Some(json!(9)), at(2, false)));
        assert_eq!(one(&rows, "limits.drain_seconds"), (Some(json!(10)), at(3, true)));
        assert_eq!(one(&rows, "limits.max_line_bytes").1, SettingOrigin::Default);
        assert_eq!(one(&rows, "log.level"), (Some(json!("trace")), SettingOrigin::Variable("SINEW_LOG")));
        let traces =
            (Some(json!("http://t:1/")), SettingOrigin::Variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"));
        assert_eq!(one(&rows, "otlp.endpoint.traces"), traces);
        assert_eq!(one(&rows, "otlp.endpoint"), (None, SettingOrigin::Default));
        let rows = all(Some(file), &[("SINEW_LOG", " ")]);
        assert_eq!(
            one(&rows, "log.level"),
            (Some(json!("debug")), at(5, false)),
            "an empty variable is ignored"
        );
    }

    #[test]
    fn credentials_are_redacted() {
        let file = "otlp:\n  endpoint: http://me:hunter2@collector:4318\n  headers: {x-key: hunter2}\n";
        let rows = all(
            Some(file),
            &[
                ("OTEL_EXPORTER_OTLP_HEADERS", "x=hunter2"),
                ("OTEL_RESOURCE_ATTRIBUTES", "token=ghp_0123456789abcdefghijABCDEFGHIJ0123456789"),
            ],
        );
        let text = format!("{rows:?}");
        assert!(!text.contains("hunter2") && !text.contains("ghp_0123"), "{text}");
        assert_eq!(one(&rows, "otlp.headers").1, SettingOrigin::Variable("OTEL_EXPORTER_OTLP_HEADERS"));
        let rows = all(Some(file), &[]);
        assert_eq!(one(&rows, "otlp.headers").0, Some(json!({"x-key": "[redacted:header]"})));
    }
}
