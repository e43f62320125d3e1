//! `sinew workspace`: adds, lists and removes the folders that callers may work in. They are stored in
//! `sinew.yaml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use governance::WorkspaceAccess;
use governance::rules::EffectivePolicy;
use serde_json::json;
use server::settings::{Settings, WorkspaceAccessSetting, WorkspaceSetting};
use tool::ToolDefinition;

use crate::accepted_config;
use crate::cli::{JsonArgs, WorkspaceCommand};
use crate::command::reload::{self, ChangeState, EditState};
use crate::command::{check, init};
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::reserved_folders;
use crate::table::Table;
use crate::terminal::{escape_invisible, escape_invisible_line, print_message, print_result_line};
use crate::workspace_list_edit::{WorkspaceItem, WorkspaceListChange, access_keyword, edit_workspace_list};

pub(crate) fn run(command: WorkspaceCommand) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    match command {
        WorkspaceCommand::Add { dir, read_only, preset } => {
            let access = match read_only {
                true => WorkspaceAccessSetting::ReadOnly,
                false => WorkspaceAccessSetting::ReadWrite,
            };
            // Write the policy first, so that the folder is never a workspace without its policy.
            if let Some(preset) = preset {
                preset.write(&addable_folder(&context, &dir, access)?)?;
            }
            add(&context, &dir, access)
        }
        WorkspaceCommand::List(output) => list(&context, output),
        WorkspaceCommand::Remove { dir } => remove(&context, &dir),
    }
    .map(|()| ExitKind::Done)
}

/// Adds a folder, or changes the access of a listed one.
pub(crate) fn add(
    context: &CommandContext,
    dir: &Path,
    access: WorkspaceAccessSetting,
) -> Result<(), CommandError> {
    let path = addable_folder(context, dir, access)?;
    if init::is_uninitialised(context) {
        init::write_settings(context)?;
    }
    let known = entries_of(context, &path)?;
    if known.is_empty() {
        apply_change(
            context,
            &WorkspaceListChange::Append(&WorkspaceItem { path: path_text(&path)?.to_owned(), access }),
        )?;
    }
    for (index, _) in known {
        // Write the canonical path: a path through a symbolic link would be refused at the next start.
        apply_change(
            context,
            &WorkspaceListChange::Replace(
                index,
                &WorkspaceItem { path: path_text(&path)?.to_owned(), access },
            ),
        )?;
    }
    if context.folder().join(dir) != path {
        let (given, stored) = (dir.to_string_lossy(), path.to_string_lossy());
        print_message(format!(
            "{} is listed by its canonical path, {}",
            escape_invisible_line(&given),
            escape_invisible_line(&stored)
        ));
    }
    let shown = escape_invisible_line(&path.to_string_lossy());
    let may = format!("callers may {} in {shown}", access_words(compose::to_policy_access(access)));
    match reload::show_edit(context)? {
        EditState::Applied => print_result_line(may),
        EditState::NotApplied => print_result_line(format!("{may} after `sinew reload --accept`")),
        EditState::NoDaemon if accepted_config::has_accepted_copy(context.home()) => {
            print_result_line(format!("{may} after the next start and `sinew reload --accept`"))
        }
        EditState::NoDaemon => print_result_line(may),
    }
}

/// Returns the canonical path of a folder that can be a workspace.
fn addable_folder(
    context: &CommandContext,
    dir: &Path,
    access: WorkspaceAccessSetting,
) -> Result<PathBuf, CommandError> {
    let path = file_access::canonical_directory(dir).map_err(|error| {
        CommandError::usage(format!("`{}` cannot be a workspace: {error}", dir.display()))
    })?;
    reserved_folders::check_workspace(context.home(), &path, access)
        .map_err(|why| CommandError::usage(format!("`{}` cannot be a workspace: {why}", path.display())))?;
    Ok(path)
}

fn list(context: &CommandContext, output: JsonArgs) -> Result<(), CommandError> {
    let listed = context.settings()?.workspaces;
    if output.json {
        let item =
            |known: &WorkspaceSetting| json!({"path": known.path, "access": access_keyword(known.access)});
        let items: Vec<_> = listed.iter().map(item).collect();
        render::print_json(json!({"workspaces": items}))
    } else if listed.is_empty() {
        print_message("no workspaces; add one with `sinew workspace add DIR`");
        Ok(())
    } else {
        let mut table = Table::default();
        for known in &listed {
            table.add_row([
                escape_invisible_line(&known.path.to_string_lossy()),
                access_keyword(known.access).to_owned(),
            ]);
        }
        render::print_table(&table)
    }
}

fn remove(context: &CommandContext, dir: &Path) -> Result<(), CommandError> {
    // A folder that no longer exists can still be removed by its listed path.
    let path = file_access::canonical_directory(dir).unwrap_or_else(|_| context.folder().join(dir));
    let known = entries_of(context, &path)?;
    if known.is_empty() {
        let problem = CommandError::usage(format!("`{}` is not a workspace", path.display()));
        return Err(problem.with_hint("list the workspaces with `sinew workspace list`"));
    }
    // Remove from the last entry, so that the other indexes stay valid. Remove every entry, or the folder
    // would stay accessible.
    let before = check::existing_workspaces(&context.settings()?).access_at(&path);
    for (index, _) in known.into_iter().rev() {
        apply_change(context, &WorkspaceListChange::Remove(index))?;
    }
    let shown = escape_invisible_line(&path.to_string_lossy());
    let after = check::existing_workspaces(&context.settings()?).access_at(&path);
    let waits = (before, after) == (Some(WorkspaceAccess::ReadOnly), Some(WorkspaceAccess::ReadWrite));
    let change = reload::apply_tightening(context)?;
    if let ChangeState::Rejected(error) = &change {
        let problem = CommandError::configuration(format!(
            "the settings no longer list {shown}, but the daemon still lets callers work there: it could not apply \
             the changed files\n{}",
            escape_invisible(error)
        ));
        return Err(
            problem.with_hint("correct the files; the daemon removes the folder as soon as they load")
        );
    }
    print_remaining_access(context, &path, after)?;
    match (change, waits) {
        (ChangeState::InEffect, true) => print_message(
            "until you run `sinew reload --accept`, the running daemon lets callers only read there",
        ),
        (ChangeState::InEffect, false) => {
            print_message("calls that already run there finish; `sinew ps` lists them");
        }
        (_, true) if accepted_config::has_accepted_copy(context.home()) => {
            print_message("run `sinew reload --accept` after the next start to allow this");
        }
        _ => print_message("without a daemon, a call may still read the folder that it is started in"),
    }
    Ok(())
}

/// Reports who may still work in a folder that is no longer listed: callers, if it is in another workspace, and tools that
/// list paths there.
fn print_remaining_access(
    context: &CommandContext,
    path: &Path,
    access: Option<WorkspaceAccess>,
) -> Result<(), CommandError> {
    let shown = escape_invisible_line(&path.to_string_lossy());
    let snapshot = compose::config_snapshot(context, &context.settings()?, WorkspaceSelection::Configured)?;
    let around = snapshot.workspaces.iter().find(|workspace| path.starts_with(workspace.root()));
    print_result_line(match (access, around) {
        (Some(access), Some(workspace)) => format!(
            "{shown} is no longer listed, but it is in the workspace {}: callers may {} there",
            escape_invisible_line(&workspace.root().to_string_lossy()),
            access_words(access)
        ),
        _ => format!("callers may no longer work in {shown}"),
    })?;
    let lists_paths_there = |tool: &&Arc<ToolDefinition>| {
        let rules = EffectivePolicy::new(&snapshot.policy, tool).rules;
        rules.and_then(|rules| rules.allowed_paths.as_ref()).is_some_and(|list| {
            let mut patterns = list.globs.patterns().iter();
            list.globs.matches(path) || patterns.any(|pattern| pattern.literal_prefix.starts_with(path))
        })
    };
    let tools = snapshot.registry.definitions().filter(lists_paths_there);
    let names: Vec<&str> = tools.map(|tool| tool.name().as_str()).collect();
    match names.is_empty() {
        true => Ok(()),
        false => print_result_line(format!("tools.yaml still lists paths there for {}", names.join(", "))),
    }
}

fn access_words(access: WorkspaceAccess) -> &'static str {
    match access {
        WorkspaceAccess::ReadOnly => "read",
        WorkspaceAccess::ReadWrite => "read and write",
    }
}

/// Returns the entries that refer to this folder, however they are written, with their indexes in the list.
fn entries_of(context: &CommandContext, path: &Path) -> Result<Vec<(usize, WorkspaceSetting)>, CommandError> {
    let means_it = |known: &WorkspaceSetting| {
        known.path == path || file_access::canonical_directory(&known.path).is_ok_and(|folder| folder == path)
    };
    let listed = context.settings()?.workspaces;
    Ok(listed.into_iter().enumerate().filter(|(_, known)| means_it(known)).collect())
}

/// Edits the settings file. The edited text must parse before it replaces the old one.
fn apply_change(context: &CommandContext, change: &WorkspaceListChange<'_>) -> Result<(), CommandError> {
    let file = context.home().settings_file();
    let text = std::fs::read_to_string(&file).map_err(|error| {
        CommandError::configuration(format!("{} cannot be read: {error}", file.display()))
    })?;
    let current = context.settings()?.workspaces.iter().map(to_item).collect::<Result<Vec<_>, _>>()?;
    let Some(edited) = edit_workspace_list(&text, &current, change) else {
        let problem = CommandError::configuration(
            "the list of workspaces is written in a way this command cannot edit",
        );
        return Err(problem.with_hint(format!("edit `workspaces` in {} by hand", file.display())));
    };
    Settings::parse(context.home(), &edited).map_err(CommandError::configuration)?;
    init::replace_atomically(&file, &edited)
}

fn to_item(known: &WorkspaceSetting) -> Result<WorkspaceItem, CommandError> {
    Ok(WorkspaceItem { path: path_text(&known.path)?.to_owned(), access: known.access })
}

fn path_text(path: &Path) -> Result<&str, CommandError> {
    let problem = || format!("`{}` cannot be written in YAML: its name is not UTF-8", path.display());
    path.to_str().ok_or_else(|| CommandError::usage(problem()))
}
