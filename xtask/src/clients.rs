//! `cargo xtask clients`: installs real MCP clients at pinned versions below `target/clients`, runs each against a
//! daemon of its own, and prints a table of client and check. A client that cannot be installed is left out and
//! listed. The checks are in `clients/matrix`, with those of the hooks in real hosts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::ordinary_user::OrdinaryUser;
use crate::process::{self, Ended};
use crate::project;
use crate::tree::Root;

const PAGE: &str = "docs/clients.md";
const TABLE_START: &str = "<!-- table -->\n";
const TABLE_END: &str = "<!-- end of table -->\n";
const QUIETLY: [&str; 5] = ["install", "--silent", "--no-audit", "--no-fund", "--no-save"];

/// Options of the task.
#[derive(Args, Debug, PartialEq, Eq)]
pub(crate) struct ClientsOptions {
    /// Run only clients whose name contains this text
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Replace the table of docs/clients.md
    #[arg(long, conflicts_with = "only")]
    save: bool,
}

/// Registry that packages come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Registry {
    Python,
    Node,
}

/// Packages in a folder below `target/clients`.
struct Packages {
    folder: &'static str,
    registry: Registry,
    packages: &'static [&'static str],
}

const ALL: [Packages; 14] = [
    python("python-sdk-1", &["mcp==1.30.0"]),
    python("python-sdk-2", &["mcp==2.3.0"]),
    python("fastmcp", &["fastmcp==4.1.0"]),
    python("langchain", &["langchain-mcp-adapters==0.3.2"]),
    python("openai-agents", &["openai-agents==0.24.0"]),
    python("pydantic-ai", &["pydantic-ai-slim[mcp]==2.66.0"]),
    python("mcp-use", &["mcp-use==1.7.1"]),
    // The program that `run_linter` starts.
    python("ruff", &["ruff==0.17.5"]),
    node("typescript-sdk-1", &["@modelcontextprotocol/sdk@1.32.2"]),
    node("typescript-sdk-2", &["@modelcontextprotocol/client@2.4.0"]),
    node("inspector", &["@modelcontextprotocol/inspector@2.12.0"]),
    node("claude-code", &["@anthropic-ai/claude-code@2.1.326"]),
    node("codex", &["@openai/codex@0.169.0"]),
    // Its hook is checked; as an MCP client it is not in the matrix.
    node("gemini-cli", &["@google/gemini-cli@0.61.0"]),
];

const fn python(folder: &'static str, packages: &'static [&'static str]) -> Packages {
    Packages { folder, registry: Registry::Python, packages }
}

const fn node(folder: &'static str, packages: &'static [&'static str]) -> Packages {
    Packages { folder, registry: Registry::Node, packages }
}

/// Variable by which tests find the folder with the official SDKs.
const VARIABLE: &str = "SINEW_CLIENTS";
/// Clients that `cargo xtask test` runs too, and the linter that they call.
const SDKS: [&str; 5] = ["python-sdk-1", "python-sdk-2", "typescript-sdk-1", "typescript-sdk-2", "ruff"];

/// Folder with the official SDKs, with the variable by which tests find it, if they can be installed.
pub(crate) fn with_sdks(root: &Root) -> Option<(&'static str, String)> {
    let folder = root.path().join("target/clients");
    let missing: Vec<&str> = ALL
        .iter()
        .filter(|packages| SDKS.contains(&packages.folder) && packages.install(&folder).is_err())
        .map(|packages| packages.folder)
        .collect();
    if missing.is_empty() {
        return Some((VARIABLE, folder.to_string_lossy().into_owned()));
    }
    println!("{} cannot be installed: tests with the official SDKs are skipped", missing.join(" and "));
    None
}

/// Runs the matrix. Fails if a check of an installed client fails.
pub(crate) fn command(root: &Root, options: &ClientsOptions) -> Result<()> {
    let binary = project::build_binary(root, project::Profile::Dev)?;
    let folder = root.path().join("target/clients");
    let missing: Vec<&str> = ALL
        .iter()
        .filter(|packages| packages.install(&folder).is_err())
        .map(|packages| packages.folder)
        .collect();
    let user = OrdinaryUser::if_root(root, &binary)?;
    let table = tempfile::Builder::new().prefix("sinew-clients-").tempdir_in("/tmp")?;
    std::fs::set_permissions(table.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    let table = table.path().join("table.md");
    let mut matrix = root.command("python3", &["clients/matrix/matrix.py", "--sinew"]);
    matrix.arg(&binary).arg("--clients").arg(&folder).arg("--table").arg(&table);
    matrix.args(options.only.iter().flat_map(|name| ["--only", name]));
    let mut hooks = root.command("python3", &["clients/matrix/host_hooks.py", "--sinew"]);
    hooks.arg(&binary).arg("--clients").arg(&folder);
    hooks.args(options.only.iter().flat_map(|name| ["--only", name]));
    let mut ended = Ended::Well;
    for command in [&mut matrix, &mut hooks] {
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut command = user.as_ref().map_or_else(|| copy_of(command), |user| user.runs(command));
        ended = ended.and(process::watch(&mut command, |_| {})?);
    }
    if !missing.is_empty() {
        println!("LEFT OUT, because they could not be installed: {}", missing.join(", "));
    }
    if ended == Ended::Badly {
        bail!("a client failed a check; the reasons are above");
    }
    if options.save {
        save(&root.path().join(PAGE), &std::fs::read_to_string(&table).context("the table")?)?;
    }
    Ok(())
}

fn copy_of(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args()).current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    copy.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    copy
}

impl Packages {
    /// Installs the packages, unless the folder has exactly these.
    fn install(&self, clients: &Path) -> Result<()> {
        let folder = clients.join(self.folder);
        let (marker, list) = (folder.join(".installed"), self.packages.join(" "));
        if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == list) {
            return Ok(());
        }
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        self.install_into(&folder)?;
        Ok(std::fs::write(marker, list)?)
    }

    fn install_into(&self, folder: &PathBuf) -> Result<()> {
        match self.registry {
            Registry::Python => {
                process::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
                let mut pip = Command::new(folder.join("bin/python"));
                process::run(pip.args(["-m", "pip", "install", "--quiet"]).args(self.packages))
            }
            Registry::Node => {
                let mut npm = Command::new("npm");
                process::run(npm.args(QUIETLY).arg("--prefix").arg(folder).args(self.packages))
            }
        }
    }
}

/// Replaces the table of the page.
fn save(page: &Path, table: &str) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("cannot read `{}`", page.display()))?;
    let text = with_table(&text, table).with_context(|| format!("`{}` has no table", page.display()))?;
    Ok(std::fs::write(page, text)?)
}

fn with_table(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(TABLE_START)?;
    let (_, after) = rest.split_once(TABLE_END)?;
    Some(format!("{before}{TABLE_START}{table}{TABLE_END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_the_page_is_replaced() {
        let page = "# Clients\n<!-- table -->\n| old |\n<!-- end of table -->\nafter\n";
        let expect = "# Clients\n<!-- table -->\n| new |\n<!-- end of table -->\nafter\n";
        assert_eq!(with_table(page, "| new |\n").as_deref(), Some(expect));
        assert_eq!(with_table("# Clients\n", "| new |\n"), None);
    }

    #[test]
    fn packages_are_pinned() {
        for packages in &ALL {
            for package in packages.packages {
                let version = package.rsplit(['=', '@']).next().unwrap_or_default();
                assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{package} has no version");
            }
        }
    }
}
