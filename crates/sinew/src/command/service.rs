//! `sinew service`: installs and controls the daemon as a service of launchd or systemd.

use std::path::Path;

use serde_json::json;
use server::{LockHolder, StateLock};

use crate::cli::{ServiceCommand, ServiceInstallArgs};
use crate::command::restart;
use crate::command::uninstall::remove_empty_parents;
use crate::command_context::{CommandContext, serve_error};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::restart::restart_in_place;
use crate::service::{self, ServiceAction, ServiceFacts, ServiceFile, ServiceManagerKind};
use crate::terminal::{
    SUCCESS_STYLE, escape_invisible, paint, print_message, print_result_line, print_warning,
};

pub(crate) fn run(command: ServiceCommand) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let facts = ServiceFacts::collect(&context)?;
    match command {
        ServiceCommand::Install(args) if args.print => print_files(args.platform, &facts),
        ServiceCommand::Install(args) => install(&args, &context, &facts),
        ServiceCommand::Uninstall => uninstall(&facts),
        ServiceCommand::Start => control_service(ServiceAction::Start, &context, &facts, "started"),
        ServiceCommand::Stop => control_service(ServiceAction::Stop, &context, &facts, "stopped"),
        ServiceCommand::Restart => control_service(ServiceAction::Restart, &context, &facts, "restarted"),
        ServiceCommand::Status(output) => show_status(&context, &facts, output.json),
    }
}

fn print_files(platform: Option<ServiceManagerKind>, facts: &ServiceFacts) -> Result<ExitKind, CommandError> {
    for file in platform.unwrap_or(ServiceManagerKind::CURRENT).files(facts)? {
        print_warning(format!("{}:", file.path.display()));
        print_result_line(file.text.trim_end())?;
    }
    Ok(ExitKind::Done)
}

fn install(
    args: &ServiceInstallArgs,
    context: &CommandContext,
    facts: &ServiceFacts,
) -> Result<ExitKind, CommandError> {
    refuse_root(facts.uid)?;
    if args.platform.is_some_and(|platform| platform != ServiceManagerKind::CURRENT) {
        let problem = CommandError::usage("this system does not use that service manager");
        return Err(problem.with_hint("add `--print` to see its files"));
    }
    refuse_if_daemon_runs(context)?;
    check_manager(facts)?;
    // The service manager creates the sockets, so their folder must exist and be private.
    context.home().prepare().map_err(|error| serve_error(&error))?;
    let files = ServiceManagerKind::CURRENT.files(facts)?;
    let is_current = files.iter().all(ServiceFile::is_current);
    let earlier: Vec<Option<String>> =
        files.iter().map(|file| std::fs::read_to_string(&file.path).ok()).collect();
    let installed = write_files(&files).and_then(|()| {
        // Restarting the sockets too would refuse connections for a moment, so that is left to changed files.
        let is_its_own = || refuse_if_foreign_daemon_runs(context, facts).is_ok();
        if is_current && context.is_daemon_ready() && is_its_own() {
            return restart::report(&restart_in_place(context)?);
        }
        service::run_commands(&ServiceManagerKind::CURRENT.commands(ServiceAction::Install, facts))
    });
    if let Err(problem) = installed {
        restore_files(&files, &earlier, facts);
        return Err(problem);
    }
    print_result_line(format!(
        "{} check it with `sinew status`",
        paint(SUCCESS_STYLE, "installed and started:")
    ))?;
    Ok(ExitKind::Done)
}

fn write_files(files: &[ServiceFile]) -> Result<(), CommandError> {
    for file in files {
        let word = match (file.path.exists(), file.is_current()) {
            (_, true) => "unchanged",
            (true, false) => "updated",
            (false, false) => "written",
        };
        if !file.is_current() {
            file.write()?;
        }
        print_result_line(format!("{word}: {}", file.path.display()))?;
    }
    Ok(())
}

/// Restores the files after a failure, so that half a service is not left behind.
fn restore_files(files: &[ServiceFile], earlier: &[Option<String>], facts: &ServiceFacts) {
    let is_new = earlier.iter().all(Option::is_none);
    if is_new {
        // Stops and disables what a command before the failed one has started.
        let undo = ServiceManagerKind::CURRENT.commands(ServiceAction::Uninstall, facts);
        let _ = service::run_commands(&undo);
    }
    for (file, earlier) in files.iter().zip(earlier) {
        match file.restore(earlier.as_deref()) {
            Ok(()) => print_message(format!("as before: {}", file.path.display())),
            Err(problem) => print_warning(format!("warning: {}", problem.message)),
        }
    }
}

/// Checks that the service manager can be reached, before anything is written.
fn check_manager(facts: &ServiceFacts) -> Result<(), CommandError> {
    let check = ServiceManagerKind::CURRENT.check_command(facts);
    let (answers, text) = service::run_command(&check)?;
    if answers {
        return Ok(());
    }
    let message = format!(
        "the service manager of this user does not answer: `{}` failed: {}; nothing was written",
        check.join(" "),
        text.trim()
    );
    Err(CommandError::failed(message).with_hint(
        "log in to this machine as this user, or run `sudo loginctl enable-linger $USER` once, and try again; \
         `sinew serve` runs the daemon without a service manager",
    ))
}

fn uninstall(facts: &ServiceFacts) -> Result<ExitKind, CommandError> {
    refuse_root(facts.uid)?;
    if ServiceManagerKind::CURRENT.installed_paths(&facts.user_home).is_empty() {
        print_result_line("not installed: there is nothing to remove")?;
        return Ok(ExitKind::Done);
    }
    remove_service(facts, |path| print_result_line(format!("removed: {}", path.display())))?;
    print_result_line("configuration, state and ledger are left as they are")?;
    Ok(ExitKind::Done)
}

/// Stops the service and removes its files. Without a service manager nothing is loaded, and the files are removed all
/// the same.
pub(super) fn remove_service(
    facts: &ServiceFacts,
    mut report: impl FnMut(&Path) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let manager = ServiceManagerKind::CURRENT;
    let files = manager.installed_paths(&facts.user_home);
    if let Err(problem) = service::run_commands(&manager.commands(ServiceAction::Uninstall, facts)) {
        if check_manager(facts).is_ok() {
            return Err(problem);
        }
        print_warning("warning: the service manager does not answer: only the files are removed");
    }
    for path in files {
        match std::fs::remove_file(&path) {
            Ok(()) => report(&path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let message = format!("`{}` cannot be removed: {error}", path.display());
                return Err(CommandError::failed(message));
            }
        }
        remove_empty_parents(&path, &facts.user_home);
    }
    Ok(())
}

fn control_service(
    action: ServiceAction,
    context: &CommandContext,
    facts: &ServiceFacts,
    done: &str,
) -> Result<ExitKind, CommandError> {
    if !service::is_installed(context.home()) {
        let problem = CommandError::failed("the service is not installed");
        return Err(problem
            .with_hint("install it with `sinew service install`, or run `sinew serve` without a service"));
    }
    if action != ServiceAction::Stop {
        refuse_if_foreign_daemon_runs(context, facts)?;
    }
    if action == ServiceAction::Restart && context.is_daemon_ready() {
        restart::report(&restart_in_place(context)?)?;
        return Ok(ExitKind::Done);
    }
    service::run_commands(&ServiceManagerKind::CURRENT.commands(action, facts))?;
    print_result_line(done)?;
    Ok(ExitKind::Done)
}

fn show_status(
    context: &CommandContext,
    facts: &ServiceFacts,
    as_json: bool,
) -> Result<ExitKind, CommandError> {
    let files = ServiceManagerKind::CURRENT.files(facts)?;
    let installed = service::is_installed(context.home());
    let current = files.iter().all(ServiceFile::is_current);
    let answers = context.is_daemon_ready();
    let manager_output = if installed {
        service::run_command(&ServiceManagerKind::CURRENT.status_command(facts))?.1
    } else {
        String::new()
    };
    if as_json {
        let state = json!({"installed": installed, "up_to_date": current, "daemon_answers": answers, "manager": manager_output});
        render::print_json(state)?;
    } else {
        let files = match (installed, current) {
            (false, _) => "not installed; run `sinew service install` to install it",
            (true, false) => "installed by another version; run `sinew service install` to update it",
            (true, true) => "installed",
        };
        print_result_line(format!("service: {files}"))?;
        print_result_line(format!("daemon:  {}", if answers { "answers" } else { "does not answer" }))?;
        if !manager_output.is_empty() {
            print_result_line(escape_invisible(manager_output.trim_end()))?;
        }
    }
    Ok(if answers { ExitKind::Done } else { ExitKind::Unreachable })
}

/// Refuses to install the service while a manually started daemon runs: the service manager would take over
/// its sockets, and the new daemon would find the state lock held.
fn refuse_if_daemon_runs(context: &CommandContext) -> Result<(), CommandError> {
    if service::is_installed(context.home()) || !context.is_daemon_ready() {
        return Ok(());
    }
    Err(foreign_daemon(lock_holder_pid(context)))
}

/// Refuses to control an installed service while a daemon runs that the service manager did not start. The
/// daemon belongs to the manager if the manager reports its process id.
fn refuse_if_foreign_daemon_runs(context: &CommandContext, facts: &ServiceFacts) -> Result<(), CommandError> {
    if !context.is_daemon_ready() {
        return Ok(());
    }
    let running = lock_holder_pid(context);
    let manager_output = service::run_command(&ServiceManagerKind::CURRENT.pid_command(facts))?.1;
    let is_its_own = running.is_some() && ServiceManagerKind::CURRENT.parse_pid(&manager_output) == running;
    if is_its_own { Ok(()) } else { Err(foreign_daemon(running)) }
}

/// Returns the process that holds the state lock of this home.
fn lock_holder_pid(context: &CommandContext) -> Option<i32> {
    match StateLock::holder(context.home()) {
        LockHolder::Process { pid } => pid,
        LockHolder::NoProcess => None,
    }
}

fn foreign_daemon(pid: Option<i32>) -> CommandError {
    let end = match pid {
        Some(pid) => format!("stop it with `kill {pid}`, then try again"),
        None => "stop it, then try again".to_owned(),
    };
    CommandError::failed("a daemon is running that the service manager did not start").with_hint(end)
}

/// Refuses to run as root: the service would run in root's session, and files in the user's home would belong
/// to root.
pub(super) fn refuse_root(uid: u32) -> Result<(), CommandError> {
    if uid != 0 {
        return Ok(());
    }
    let problem = CommandError::usage("this command does not manage a service of root");
    Err(problem
        .with_hint("run it as your own user, without sudo; `sinew service install --print` shows the files"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_of_root_fits_install_and_uninstall() {
        let error = refuse_root(0).unwrap_err();
        let text = format!("{}; {}", error.message, error.hint.unwrap_or_default());
        assert!(
            text.contains("a service of root") && text.contains("`sinew service install --print`"),
            "{text}"
        );
        assert!(!text.contains("would install"), "`uninstall` is refused with the same message: {text}");
        assert!(refuse_root(1000).is_ok());
    }
}
