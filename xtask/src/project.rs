//! Package graph of the workspace, as cargo reports it, and builds of the product.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;
use crate::tree::Root;

/// Dependency of one package of the workspace on another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The package that imports.
    pub(crate) from: String,
    /// Its manifest, relative to the root.
    pub(crate) manifest: String,
    /// The package that is imported.
    pub(crate) to: String,
}

/// Packages of the workspace and the edges between them, without dev-dependencies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) packages: Vec<String>,
    pub(crate) edges: Vec<Edge>,
}

impl Graph {
    /// Reads the graph from cargo, which lists renamed dependencies and those for a single platform like any
    /// other.
    pub(crate) fn read(root: &Root) -> Result<Self> {
        let text = process::capture(&mut root.cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
        Self::parse(&serde_json::from_str(&text).context("cargo metadata is not JSON")?)
    }

    /// Parses the output of `cargo metadata --no-deps`.
    pub(crate) fn parse(metadata: &Value) -> Result<Self> {
        let root = text(metadata, "workspace_root")?;
        let mut graph = Graph::default();
        for package in list(metadata, "packages") {
            let (from, manifest) = (text(package, "name")?, text(package, "manifest_path")?);
            let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
            graph.packages.push(from.to_owned());
            for dependency in list(package, "dependencies") {
                let ours = dependency["path"].is_string();
                if ours && dependency["kind"] != "dev" {
                    let to = text(dependency, "name")?.to_owned();
                    graph.edges.push(Edge { from: from.to_owned(), manifest: manifest.to_owned(), to });
                }
            }
        }
        Ok(graph)
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no `{key}`"))
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Cargo profile of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// For tests.
    Dev,
    /// For people who build the product themselves.
    Release,
}

impl Profile {
    /// Name that cargo uses.
    fn name(self) -> &'static str {
        match self {
            Profile::Dev => "dev",
            Profile::Release => "release",
        }
    }
}

/// Version of the workspace.
pub(crate) fn version(root: &Root) -> Result<String> {
    let metadata = process::capture(&mut root.cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
    let mut packages = list(&metadata, "packages");
    let sinew = packages.find(|package| package["name"] == "sinew").context("there is no package `sinew`")?;
    Ok(text(sinew, "version")?.to_owned())
}

/// Target triple of this system.
pub(crate) fn host_target(root: &Root) -> Result<String> {
    let rustc_output = process::capture(&mut root.command("rustc", &["-vV"]))?;
    let host = rustc_output.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it runs on")?.to_owned())
}

/// Command that builds the product for installation. It always names the target, so that functions have the
/// same names in a build that is profiled and in one that uses the profile.
pub(crate) fn shipped_build(root: &Root, target: &str) -> Command {
    root.cargo(&["build", "--profile", "shipped", "--locked", "-p", "sinew", "--target", target])
}

/// Builds `sinew` with the features of the whole workspace, so that the tests reuse the result. Returns its
/// path.
pub(crate) fn build_binary(root: &Root, profile: Profile) -> Result<PathBuf> {
    let mut build = root.cargo(&["build", "--workspace", "--bin", "sinew"]);
    build.args(["--profile", profile.name()]);
    println!("$ {}", process::shown(&build));
    let output = build
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`cargo build --bin sinew` ended with {}", output.status);
    }
    executable(&String::from_utf8_lossy(&output.stdout), ("bin", "sinew"))
        .context("cargo did not report the path of `sinew`")
}

/// Builds the `measure` example of a package and returns its path.
pub(crate) fn build_measure(root: &Root, package: &str) -> Result<PathBuf> {
    let arguments = ["build", "--release", "--quiet", "-p", package, "--example", "measure"];
    let messages = process::capture(root.cargo(&arguments).arg("--message-format=json-render-diagnostics"))?;
    executable(&messages, ("example", "measure"))
        .with_context(|| format!("cargo did not report the path of the benchmark of `{package}`"))
}

/// Finds the path of a program by kind and name in cargo's messages, which are one JSON object per line.
fn executable(messages: &str, (kind, name): (&str, &str)) -> Option<PathBuf> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_it = |target: &Value| target["name"] == name && list(target, "kind").any(|found| found == kind);
    let mut built = parsed.filter(|message| is_it(&message["target"]));
    built.find_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn edges_exclude_foreign_and_dev_dependencies() {
        let metadata = json!({"workspace_root": "/repo", "packages": [
            {"name": "ledger", "manifest_path": "/repo/crates/ledger/Cargo.toml", "dependencies": [
                {"name": "tool", "path": "/repo/crates/tool", "kind": null},
                {"name": "serde", "path": null, "kind": null},
                {"name": "governance", "path": "/repo/crates/governance", "kind": "dev"},
                {"name": "telemetry", "path": "/repo/crates/telemetry", "kind": "build"}]}]});
        let graph = Graph::parse(&metadata).unwrap();
        let edge = |to: &str| Edge {
            from: "ledger".into(),
            manifest: "crates/ledger/Cargo.toml".into(),
            to: to.into(),
        };
        assert_eq!(graph.packages, ["ledger"]);
        assert_eq!(graph.edges, [edge("tool"), edge("telemetry")]);
    }

    #[test]
    fn an_answer_without_the_expected_keys_is_an_error() {
        assert!(Graph::parse(&json!({"packages": []})).is_err());
    }

    #[test]
    fn the_program_is_found_among_the_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"sinew","kind":["test"]},"executable":"/t/debug/deps/sinew-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"sinew","kind":["bin"]},"executable":"/t/debug/sinew"}"#,
            "\nnot json\n",
        );
        assert_eq!(executable(messages, ("bin", "sinew")), Some(PathBuf::from("/t/debug/sinew")));
        assert_eq!(executable(messages, ("example", "sinew")), None);
        assert_eq!(executable("", ("bin", "sinew")), None);
    }
}
