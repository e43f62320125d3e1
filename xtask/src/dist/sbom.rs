//! Software bill of materials in CycloneDX 1.6: the crates that are linked into the program, from `cargo metadata`.
//! Equal input gives equal bytes: no time, and a serial number that is a digest of the components.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::archive;
use crate::process;
use crate::tree::Root;

/// Reads the dependency graph for a target and lists what the program `sinew` is built from.
pub(super) fn generate(root: &Root, target: &str, version: &str) -> Result<String> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let metadata = process::capture(&mut root.cargo(&arguments))?;
    bill(&serde_json::from_str(&metadata).context("cargo metadata is not JSON")?, target, version)
}

/// Builds the bill from the output of `cargo metadata`.
pub(super) fn bill(metadata: &Value, target: &str, version: &str) -> Result<String> {
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes = metadata.pointer("/resolve/nodes").unwrap_or(&Value::Null);
    let nodes: BTreeMap<&str, &Value> =
        list(nodes).filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let program = packages.iter().find(|(_, package)| package["name"] == "sinew");
    let (program, _) = program.context("cargo metadata has no package `sinew`")?;
    let mut used: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut open = vec![*program];
    while let Some(id) = open.pop() {
        if used.contains_key(id) {
            continue;
        }
        let needed = nodes.get(id).map(|node| linked_dependencies(node)).unwrap_or_default();
        open.extend(&needed);
        used.insert(id, needed);
    }
    let reference = |id: &str| packages.get(id).map(|package| purl(package)).unwrap_or_default();
    let mut components: Vec<Value> = used
        .keys()
        .filter(|id| *id != program)
        .filter_map(|id| packages.get(id))
        .map(|it| component(it))
        .collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let mut dependencies: Vec<Value> = used
        .iter()
        .map(|(id, needed)| {
            let mut names: Vec<String> = needed.iter().map(|id| reference(id)).collect();
            names.sort();
            names.dedup();
            json!({"ref": reference(id), "dependsOn": names})
        })
        .collect();
    dependencies.sort_by_key(|dependency| dependency["ref"].to_string());
    let digest = archive::sha256(json!([target, version, components]).to_string().as_bytes());
    let bill = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": serial_number(&digest),
        "metadata": {
            "component": {"type": "application", "name": "sinew", "version": version, "bom-ref": reference(program)},
            "properties": [{"name": "sinew:target", "value": target}],
        },
        "components": components, "dependencies": dependencies,
    });
    Ok(format!("{bill:#}\n"))
}

/// Returns the dependencies that are linked or run at build time, without those of tests.
fn linked_dependencies(node: &Value) -> Vec<&str> {
    let is_used = |dependency: &&Value| list(&dependency["dep_kinds"]).any(|kind| kind["kind"] != "dev");
    list(&node["deps"]).filter(is_used).filter_map(|dependency| dependency["pkg"].as_str()).collect()
}

fn component(package: &Value) -> Value {
    let mut component = json!({
        "type": "library", "name": package["name"], "version": package["version"], "purl": purl(package),
        "bom-ref": purl(package),
    });
    if let (Some(licence), Some(fields)) = (package["license"].as_str(), component.as_object_mut()) {
        // Old packages separate alternatives by a slash.
        let expression = licence.replace('/', " OR ");
        fields.insert("licenses".to_owned(), json!([{"expression": expression}]));
    }
    component
}

fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

/// Formats a digest as a UUID of version 8, which is for own schemes.
fn serial_number(digest: &str) -> String {
    let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
    format!("urn:uuid:{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
