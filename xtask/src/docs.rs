//! `cargo xtask docs`: generates the tool reference, the JSON Schemas and the command-line page from the
//! output of the built program. Also generates the protocol reference from the server's descriptions of its
//! methods, and the types of the client libraries from the schema of the protocol. `tidy` reports pages that
//! differ; none of them is edited by hand.

mod cli_page;
mod client_types;
mod protocol_page;
mod screenshots;
mod tool_page;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tidy::Finding;
use crate::tree::{Root, Tree};
use crate::{process, project};

pub(crate) use screenshots::command as take_screenshots;

const TOOLS: &str = "docs/tools/";
const SCHEMAS: &str = "docs/schemas/";
const CLI: &str = "docs/cli.md";
const PROTOCOL: &str = "docs/protocol.md";
/// Schema that the types of the client libraries are generated from.
const PROTOCOL_SCHEMA: &str = "protocol";

/// Pages by their path.
pub(crate) type Pages = BTreeMap<String, String>;

/// Writes the pages that changed, and removes stale ones.
pub(crate) fn command(root: &Root) -> Result<()> {
    let pages = generate(root, &project::build_binary(root, project::Profile::Dev)?)?;
    for stale in stale(&pages, &root.read_tree()?) {
        std::fs::remove_file(root.path().join(&stale)).with_context(|| format!("cannot remove `{stale}`"))?;
        println!("removed {stale}");
    }
    for (path, text) in &pages {
        let file = root.path().join(path);
        if std::fs::read_to_string(&file).is_ok_and(|old| old == *text) {
            continue;
        }
        let folder = file.parent().context("a page is in a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        std::fs::write(&file, text).with_context(|| format!("cannot write `{path}`"))?;
        println!("wrote {path}");
    }
    println!("docs: {} pages are up to date", pages.len());
    Ok(())
}

/// Generates every page from the output of the program.
pub(crate) fn generate(root: &Root, binary: &Path) -> Result<Pages> {
    let sinew = Sinew::prepare(root, binary)?;
    let mut pages = Pages::new();

    let listed: Value = serde_json::from_str(&sinew.says(&["tools", "list", "--json"])?)
        .context("`sinew tools list --json` is not JSON")?;
    let tools =
        listed.get("tools").and_then(Value::as_array).context("`sinew tools list --json` has no `tools`")?;
    if tools.is_empty() {
        bail!("`sinew tools list --json` lists no tool");
    }
    for tool in tools {
        let name = tool["name"].as_str().context("a tool without a name")?;
        pages.insert(format!("{TOOLS}{name}.md"), tool_page::page(tool));
    }
    pages.insert(format!("{TOOLS}README.md"), tool_page::index(tools));

    for name in sinew.says(&["schema"])?.lines().map(str::trim).filter(|name| !name.is_empty()) {
        let schema: Value = serde_json::from_str(&sinew.says(&["schema", name])?)
            .with_context(|| format!("`sinew schema {name}` is not JSON"))?;
        if name == PROTOCOL_SCHEMA {
            pages.extend(client_types::pages(&schema, tools)?);
        }
        pages.insert(format!("{SCHEMAS}{name}.json"), serde_json::to_string_pretty(&schema)? + "\n");
    }
    pages.insert(CLI.to_owned(), cli_page::page(|arguments| sinew.says(arguments))?);
    let read = |path| {
        std::fs::read_to_string(root.path().join(path)).with_context(|| format!("cannot read `{path}`"))
    };
    let protocol = protocol_page::page(&read(protocol_page::DESCRIPTIONS)?, &read(protocol_page::EXAMPLES)?)?;
    pages.insert(PROTOCOL.to_owned(), protocol);
    Ok(pages)
}

/// The program, run with an environment that gives equal output on every machine.
struct Sinew<'a> {
    binary: &'a Path,
    home: std::path::PathBuf,
}

impl<'a> Sinew<'a> {
    /// Creates an empty home, so that neither a running daemon nor a user's configuration affects the pages.
    fn prepare(root: &Root, binary: &'a Path) -> Result<Self> {
        let home = root.path().join("target/docs-home");
        if home.exists() {
            std::fs::remove_dir_all(&home).with_context(|| format!("cannot clear `{}`", home.display()))?;
        }
        std::fs::create_dir_all(&home).with_context(|| format!("cannot make `{}`", home.display()))?;
        Ok(Sinew { binary, home })
    }

    fn says(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.binary);
        // Help shows the values of the variables it reads, so it is generated without `SINEW_HOME`.
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        command.env("NO_COLOR", "1").env("COLUMNS", "100").current_dir(&self.home);
        if arguments.first() != Some(&"help") {
            command.env("SINEW_HOME", &self.home);
        }
        process::capture(&mut command)
    }
}

/// Reports pages of the repository that differ from the generated ones.
pub(crate) fn drift(pages: &Pages, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in pages {
        match tree.file(path) {
            None => findings.push(Finding::error(path, 1, "the page is missing: run `cargo xtask docs`")),
            Some(file) if file.text != *text => {
                let line =
                    1 + file.text.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
                let message = "the page is outdated: run `cargo xtask docs` and commit the result";
                findings.push(Finding::error(path, line, message));
            }
            Some(_) => {}
        }
    }
    findings.extend(stale(pages, tree).into_iter().map(|path| {
        Finding::error(&path, 1, "nothing generates this page any more: run `cargo xtask docs`")
    }));
    findings
}

fn stale(pages: &Pages, tree: &Tree) -> Vec<String> {
    let generated = |path: &str| path.starts_with(TOOLS) || path.starts_with(SCHEMAS);
    tree.files()
        .map(|file| &file.path)
        .filter(|path| generated(path) && !pages.contains_key(*path))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    #[test]
    fn drift_is_a_missing_a_changed_or_a_stale_page() {
        let pages: Pages = [("docs/tools/a.md", "one\ntwo\n"), ("docs/cli.md", "x\n")]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into();
        let same = [("docs/tools/a.md", "one\ntwo\n"), ("docs/cli.md", "x\n"), ("docs/operations.md", "")];
        assert_findings(&drift(&pages, &Tree::of(&same)), &[]);
        let wrong = [("docs/tools/a.md", "one\n2\n"), ("docs/schemas/old.json", "{}")];
        assert_findings(
            &drift(&pages, &Tree::of(&wrong)),
            &[
                ("docs/cli.md", 1, "is missing"),
                ("docs/tools/a.md", 2, "outdated"),
                ("docs/schemas/old.json", 1, "nothing generates"),
            ],
        );
    }
}
