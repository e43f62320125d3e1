//! `sinew workspace`: adds, lists and removes the folders that callers may work in. They are stored in
//! `sinew.yaml`.

use std::path::Path;

use serde_json::json;
use server::{Settings, WorkspaceAccess, WorkspaceSetting};

use crate::accepted;
use crate::cli::{JsonArgs, WorkspaceCommand};
use crate::command::init;
use crate::exit::{Exit, Problem};
use crate::own_folders;
use crate::render;
use crate::setting::Setting;
use crate::settings_text::{Change, Item, access_word, edit};
use crate::terminal::{say, tell, visible_line};

pub(crate) fn run(command: WorkspaceCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    match command {
        WorkspaceCommand::Add { dir, read_only: true } => add(&setting, &dir, WorkspaceAccess::ReadOnly),
        WorkspaceCommand::Add { dir, read_only: false } => add(&setting, &dir, WorkspaceAccess::ReadWrite),
        WorkspaceCommand::List(output) => list(&setting, output),
        WorkspaceCommand::Remove { dir } => remove(&setting, &dir),
    }
    .map(|()| Exit::Done)
}

/// Adds a folder, or changes the access of a listed one.
pub(crate) fn add(setting: &Setting, dir: &Path, access: WorkspaceAccess) -> Result<(), Problem> {
    let path = file_access::canonical_directory(dir)
        .map_err(|error| Problem::usage(format!("`{}` cannot be a workspace: {error}", dir.display())))?;
    own_folders::refuse(setting.home(), &path, access)
        .map_err(|why| Problem::usage(format!("`{}` cannot be a workspace: {why}", path.display())))?;
    if init::missing(setting) {
        init::write(setting, init::Existing::Keep)?;
    }
    let known = entries_of(setting, &path)?;
    if known.is_empty() {
        apply(setting, &Change::Append(&Item { path: utf8(&path)?.to_owned(), access }))?;
    }
    for (index, _) in known {
        // Write the canonical path: a path through a symbolic link would be refused at the next start.
        apply(setting, &Change::Replace(index, &Item { path: utf8(&path)?.to_owned(), access }))?;
    }
    if setting.folder().join(dir) != path {
        let (given, stored) = (dir.to_string_lossy(), path.to_string_lossy());
        tell(format!("{} is listed by its canonical path, {}", visible_line(&given), visible_line(&stored)));
    }
    let may = match access {
        WorkspaceAccess::ReadOnly => "read",
        WorkspaceAccess::ReadWrite => "read and write",
    };
    say(format!("callers may {may} in {}", visible_line(&path.to_string_lossy())))?;
    if setting.daemon_answers() {
        tell("run `sinew reload --accept` to let the running daemon use it");
    } else if accepted::is_kept(setting.home()) {
        tell("run `sinew reload --accept` after the next start to use it");
    }
    Ok(())
}

fn list(setting: &Setting, output: JsonArgs) -> Result<(), Problem> {
    let listed = setting.settings()?.workspaces;
    if output.json {
        let item =
            |known: &WorkspaceSetting| json!({"path": known.path, "access": access_word(known.access)});
        let items: Vec<_> = listed.iter().map(item).collect();
        say(json!({"schema_version": 1, "workspaces": items}))
    } else if listed.is_empty() {
        tell("no workspaces; add one with `sinew workspace add DIR`");
        Ok(())
    } else {
        let mut table = render::plain_table();
        for known in &listed {
            table
                .add_row([visible_line(&known.path.to_string_lossy()), access_word(known.access).to_owned()]);
        }
        say(table)
    }
}

fn remove(setting: &Setting, dir: &Path) -> Result<(), Problem> {
    // A folder that no longer exists can still be removed by its listed path.
    let path = file_access::canonical_directory(dir).unwrap_or_else(|_| setting.folder().join(dir));
    let known = entries_of(setting, &path)?;
    if known.is_empty() {
        let problem = Problem::usage(format!("`{}` is not a workspace", path.display()));
        return Err(problem.hint("list the workspaces with `sinew workspace list`"));
    }
    // Remove from the last entry, so that the other indexes stay valid. Remove every entry, or the folder
    // would stay accessible.
    for (index, _) in known.into_iter().rev() {
        apply(setting, &Change::Remove(index))?;
    }
    say(format!("callers may no longer work in {}", visible_line(&path.to_string_lossy())))?;
    if setting.daemon_answers() {
        tell("the running daemon applies this at once");
    }
    Ok(())
}

/// Returns the entries that refer to this folder, however they are written, with their indexes in the list.
fn entries_of(setting: &Setting, path: &Path) -> Result<Vec<(usize, WorkspaceSetting)>, Problem> {
    let means_it = |known: &WorkspaceSetting| {
        known.path == path || file_access::canonical_directory(&known.path).is_ok_and(|folder| folder == path)
    };
    let listed = setting.settings()?.workspaces;
    Ok(listed.into_iter().enumerate().filter(|(_, known)| means_it(known)).collect())
}

/// Edits the settings file. The edited text must parse before it replaces the old one.
fn apply(setting: &Setting, change: &Change<'_>) -> Result<(), Problem> {
    let file = setting.home().settings_file();
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Problem::configuration(format!("{} cannot be read: {error}", file.display())))?;
    let current = setting.settings()?.workspaces.iter().map(as_item).collect::<Result<Vec<_>, _>>()?;
    let Some(edited) = edit(&text, &current, change) else {
        let problem =
            Problem::configuration("the list of workspaces is written in a way this command cannot edit");
        return Err(problem.hint(format!("edit `workspaces` in {} by hand", file.display())));
    };
    Settings::parse(setting.home(), &edited).map_err(Problem::configuration)?;
    init::replace(&file, &edited)
}

fn as_item(known: &WorkspaceSetting) -> Result<Item, Problem> {
    Ok(Item { path: utf8(&known.path)?.to_owned(), access: known.access })
}

fn utf8(path: &Path) -> Result<&str, Problem> {
    let problem = || format!("`{}` cannot be written in YAML: its name is not UTF-8", path.display());
    path.to_str().ok_or_else(|| Problem::usage(problem()))
}
