//! `sinew workspace`: the folders callers may work in, kept in `sinew.yaml`.

use std::path::{Path, PathBuf};

use serde_json::json;
use server::{Settings, WorkspaceAccess, WorkspaceSetting};

use crate::cli::{JsonArgs, WorkspaceCommand};
use crate::command::init;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::settings_text::{Change, Item, edit};
use crate::terminal::{say, tell, visible_line};

pub(crate) fn run(command: WorkspaceCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    match command {
        WorkspaceCommand::Add { dir, read_only } => add(&setting, &dir, read_only),
        WorkspaceCommand::List(output) => list(&setting, output),
        WorkspaceCommand::Remove { dir } => remove(&setting, &dir),
    }
    .map(|()| Exit::Done)
}

/// Adds a folder, or changes the access of one that is there.
pub(crate) fn add(setting: &Setting, dir: &Path, read_only: bool) -> Result<(), Problem> {
    let path = resources::canonical_directory(dir)
        .map_err(|error| Problem::usage(format!("`{}` cannot be a workspace: {error}", dir.display())))?;
    if init::missing(setting) {
        init::write(setting, init::Existing::Keep)?;
    }
    let item = Item { path: utf8(&path)?.to_owned(), read_only };
    let listed = setting.settings()?.workspaces;
    let change = match listed.iter().position(|known| known.path == path) {
        Some(index) => Change::Replace(index, &item),
        None => Change::Append(&item),
    };
    apply(setting, &listed, &change)?;
    let access = if read_only { "read" } else { "read and write" };
    say(format!("callers may {access} in {}", visible_line(&item.path)));
    remind_of_restart(setting);
    Ok(())
}

fn list(setting: &Setting, output: JsonArgs) -> Result<(), Problem> {
    let listed = setting.settings()?.workspaces;
    let word = |access| if access == WorkspaceAccess::ReadOnly { "read_only" } else { "read_write" };
    if output.json {
        let items: Vec<_> =
            listed.iter().map(|known| json!({"path": known.path, "access": word(known.access)})).collect();
        say(json!({"schema_version": 1, "workspaces": items}));
    } else if listed.is_empty() {
        tell("no workspaces; add one with `sinew workspace add DIR`");
    } else {
        let mut table = render::plain_table();
        for known in &listed {
            table.add_row([visible_line(&known.path.to_string_lossy()), word(known.access).to_owned()]);
        }
        say(table);
    }
    Ok(())
}

fn remove(setting: &Setting, dir: &Path) -> Result<(), Problem> {
    // A folder that is gone can still be taken off the list, by the name it has there.
    let path = resources::canonical_directory(dir).unwrap_or_else(|_| setting.folder().join(dir));
    let listed = setting.settings()?.workspaces;
    let Some(index) = listed.iter().position(|known| known.path == path) else {
        let problem = Problem::usage(format!("`{}` is not a workspace", path.display()));
        return Err(problem.hint("`sinew workspace list` shows them"));
    };
    apply(setting, &listed, &Change::Remove(index))?;
    say(format!("callers may no longer work in {}", visible_line(&path.to_string_lossy())));
    remind_of_restart(setting);
    Ok(())
}

/// Edits the file and makes sure that it still means what it should before it replaces the old one.
fn apply(setting: &Setting, listed: &[WorkspaceSetting], change: &Change<'_>) -> Result<(), Problem> {
    let file = setting.home().settings_file();
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Problem::configuration(format!("{} cannot be read: {error}", file.display())))?;
    let current = listed.iter().map(as_item).collect::<Result<Vec<_>, _>>()?;
    let Some(edited) = edit(&text, &current, change) else {
        let problem =
            Problem::configuration("the list of workspaces is written in a way this command cannot edit");
        return Err(problem.hint(format!("edit `workspaces` in {} by hand", file.display())));
    };
    Settings::parse(setting.home(), &edited).map_err(Problem::configuration)?;
    init::replace(&file, &edited)
}

fn as_item(known: &WorkspaceSetting) -> Result<Item, Problem> {
    Ok(Item { path: utf8(&known.path)?.to_owned(), read_only: known.access == WorkspaceAccess::ReadOnly })
}

fn utf8(path: &Path) -> Result<&str, Problem> {
    path.to_str().ok_or_else(|| {
        Problem::usage(format!(
            "`{}` cannot be written in YAML: its name is not UTF-8",
            PathBuf::from(path).display()
        ))
    })
}

fn remind_of_restart(setting: &Setting) {
    if setting.daemon_answers() {
        tell("the running daemon keeps its workspaces until it is restarted");
    }
}
