//! `sinew hook install` and `uninstall`: add and remove the handlers of Sinew in a host's settings. All other
//! settings stay byte for byte as they are.

mod handlers;
mod host_settings;
mod removal;

use std::path::{Path, PathBuf};

pub(crate) use removal::InstalledHooks;
use serde_json::Value;
use server::SinewHome;
use server::settings::WorkspaceAccessSetting;

use super::DEADLINE;
use super::settings_file::HostSettingsFile;
use crate::cli::{HookUninstallArgs, HostSettingsScope, InstallArgs};
use crate::command::workspace;
use crate::command_context::{CommandContext, serve_error};
use crate::exit::{CommandError, ExitKind};
use crate::program_path::stable_program_path;
use crate::terminal::{
    WARNING_STYLE, confirm, escape_invisible_line, is_interactive, paint, print_message, print_result_line,
};

/// Timeout that the host applies to the hook. It is longer than `DEADLINE`, so that the hook's own reply
/// comes first.
const HOST_TIMEOUT_SECONDS: u64 = 15;
const _: () = assert!(DEADLINE.as_secs() < HOST_TIMEOUT_SECONDS);

pub(super) fn install(args: &InstallArgs) -> Result<ExitKind, CommandError> {
    let binary = stable_program_path()?;
    let sinew_home = std::env::var_os("SINEW_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    if sinew_home.is_some() {
        // A home that the hook cannot use would make it block every call of the host.
        SinewHome::locate(&std::env::vars_os().collect()).map_err(|error| serve_error(&error))?;
    }
    let handlers = host_settings::handlers(args.host, &binary, sinew_home.as_deref());
    if args.print {
        print_result_line(format!("{:#}", host_settings::new_settings(args.host, &handlers)))?;
        return Ok(ExitKind::Done);
    }
    let path = host_settings::path(args.host, args.scope)?;
    let file = HostSettingsFile::read(&path, host_settings::empty(args.host))?;
    let mut text = file.text().to_owned();
    for handler in &handlers {
        text = handlers::with_handler(&text, handler)
            .ok_or_else(|| unexpected_structure(file.path(), handler.event))?;
    }
    if disables_all_hooks(&text) {
        let file = file.path().display();
        print_message(paint(
            WARNING_STYLE,
            format!("warning: {file} has `disableAllHooks`: the host runs no hook, this one included"),
        ));
    }
    write_and_report(&file, &text, "installed in")?;
    if let Some(note) = host_settings::note(args.host) {
        print_message(note);
    }
    report_consequences(args)?;
    Ok(ExitKind::Done)
}

/// Prints what changes for the user of the host, and how to undo it. Offers to add the current folder as a workspace.
fn report_consequences(args: &InstallArgs) -> Result<(), CommandError> {
    let (host, context) = (args.host.as_str(), CommandContext::from_environment()?);
    let folder = escape_invisible_line(&context.folder().to_string_lossy());
    print_message(format!("from now on Sinew decides each tool call of {host}:"));
    print_message("  in a folder that is not a workspace, it may read but not change files");
    print_message("  reading a secret such as .env or ~/.ssh is denied, also by a search or a shell command");
    print_message(
        "  a denied call shows the rule, and `sinew allow CALL_ID` proposes the change that permits it",
    );
    let is_workspace =
        context.settings()?.workspaces.iter().any(|known| context.folder().starts_with(&known.path));
    match is_workspace {
        true => print_message(format!("{folder} is a workspace")),
        false if is_interactive() && confirm(&format!("add {folder} as a workspace?")) => {
            workspace::add(&context, Path::new("."), WorkspaceAccessSetting::ReadWrite)?;
        }
        false => print_message(format!("{folder} is no workspace; `sinew workspace add .` makes it one")),
    }
    let scope = match args.scope {
        HostSettingsScope::User => "",
        HostSettingsScope::Project => " --scope project",
        HostSettingsScope::Local => " --scope local",
    };
    print_message(format!("`sinew hook uninstall {host}{scope}` undoes this"));
    Ok(())
}

pub(super) fn uninstall(args: &HookUninstallArgs) -> Result<ExitKind, CommandError> {
    let path = host_settings::path(args.host, args.scope)?;
    let file = HostSettingsFile::read(&path, host_settings::empty(args.host))?;
    let mut text = file.text().to_owned();
    for handler in &host_settings::handlers(args.host, Path::new("sinew"), None) {
        text = handlers::without_handlers(&text, handler)
            .ok_or_else(|| unexpected_structure(file.path(), handler.event))?;
    }
    if text == host_settings::empty(args.host) && file.text() != text {
        file.remove()?;
        print_result_line(format!("removed {}, which had nothing else", file.path().display()))?;
        return Ok(ExitKind::Done);
    }
    write_and_report(&file, &text, "removed from")
}

fn write_and_report(file: &HostSettingsFile, text: &str, outcome: &str) -> Result<ExitKind, CommandError> {
    if text == file.text() {
        print_result_line(format!("unchanged: {}", file.path().display()))?;
    } else {
        file.write(text)?;
        print_result_line(format!("{outcome} {}", file.path().display()))?;
    }
    Ok(ExitKind::Done)
}

/// Returns true if the settings disable all hooks.
fn disables_all_hooks(text: &str) -> bool {
    let settings: Option<Value> = serde_json::from_str(text).ok();
    settings.is_some_and(|settings| settings.get("disableAllHooks") == Some(&Value::Bool(true)))
}

fn unexpected_structure(path: &Path, event: &str) -> CommandError {
    let message =
        format!("{}: `hooks.{event}` does not have the structure that the host expects", path.display());
    CommandError::configuration(message)
        .with_hint("nothing was changed; fix the file and run the command again")
}

#[cfg(test)]
mod tests;
