//! `sinew uninstall`: removes what Sinew added outside of its program: hooks, service, sockets and completions; with
//! `--purge` also configuration and state. Nothing is removed before the list was shown and confirmed.

mod removal;

use std::path::{Path, PathBuf};

use server::{LockHolder, StateLock};

pub(super) use self::removal::remove_empty_parents;
use self::removal::{Removal, RemovalAction};
use crate::cli::UninstallArgs;
use crate::command::hook::InstalledHooks;
use crate::command::service as service_command;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::program_path::stable_program_path;
use crate::service::{ServiceFacts, ServiceManagerKind};
use crate::terminal::{confirm, is_interactive, print_message, print_result_line, print_warning};

/// Completion scripts of the user, below the home folder.
const COMPLETIONS: [&str; 5] = [
    ".local/share/bash-completion/completions/sinew",
    ".local/share/zsh/site-functions/_sinew",
    ".local/share/fish/vendor_completions.d/sinew.fish",
    ".config/fish/completions/sinew.fish",
    ".zfunc/_sinew",
];

pub(crate) fn run(args: &UninstallArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let facts = ServiceFacts::collect(&context)?;
    service_command::refuse_root(facts.uid)?;
    let removals = plan(&context, &facts, args)?;
    if removals.is_empty() {
        print_result_line("nothing to remove")?;
        return report_rest(&context, &facts, args.purge);
    }
    print_result_line(if args.dry_run { "would be removed:" } else { "to be removed:" })?;
    for removal in &removals {
        print_result_line(format!("  {:<13} {}", removal.area, removal.target))?;
    }
    if args.dry_run {
        return report_rest(&context, &facts, args.purge);
    }
    if !(args.yes || is_interactive() && confirm("remove all of this?")) {
        let problem = CommandError::usage("nothing was removed: it was not confirmed");
        return Err(problem.with_hint("`sinew uninstall --yes` removes without a question"));
    }
    for removal in removals {
        removal.perform(&context, &facts)?;
    }
    print_result_line("removed")?;
    report_rest(&context, &facts, args.purge)
}

/// Lists what is removed, in order. Hooks come first: a host blocks its calls if it cannot start a hook.
fn plan(
    context: &CommandContext,
    facts: &ServiceFacts,
    args: &UninstallArgs,
) -> Result<Vec<Removal>, CommandError> {
    let home = context.home();
    let mut removals = Vec::new();
    for hooks in InstalledHooks::find(&project_folders(context))? {
        let target = format!("{} (its other settings stay)", hooks.path().display());
        removals.push(Removal { area: "hook", target, action: RemovalAction::Hooks(hooks) });
    }
    for path in ServiceManagerKind::CURRENT.installed_paths(&facts.user_home) {
        let target = path.display().to_string();
        removals.push(Removal { area: "service", target, action: RemovalAction::Service });
    }
    // The service is one action, whatever the number of its files.
    removals.dedup_by(|next, first| match (&next.action, &first.action) {
        (RemovalAction::Service, RemovalAction::Service) => {
            first.target = format!("{}, {}", first.target, next.target);
            true
        }
        _ => false,
    });
    if let LockHolder::Process { pid } = StateLock::holder(home) {
        let target =
            pid.map_or_else(|| "running".to_owned(), |pid| format!("pid {pid}, after its calls ended"));
        removals.push(Removal { area: "daemon", target, action: RemovalAction::StopDaemon });
    }
    removals.extend(Removal::folder_of_sockets(home.run_dir()));
    for path in COMPLETIONS.map(|name| facts.user_home.join(name)) {
        removals.extend(Removal::file("completion", &path));
    }
    if args.purge {
        removal::check_purge(home)?;
        let folders = [
            ("state", home.state_dir()),
            ("log", home.log_dir()),
            ("configuration", home.config_dir()),
            ("manifests", home.tools_dir()),
        ];
        let is_inside_another =
            |path: &Path| folders.iter().any(|(_, other)| path != *other && path.starts_with(other));
        for (area, folder) in folders.iter().filter(|(_, folder)| !is_inside_another(folder)) {
            removals.extend(Removal::folder(area, folder));
        }
    }
    Ok(removals)
}

/// Returns the folders whose project settings may have hooks: the workspaces and the current folder.
fn project_folders(context: &CommandContext) -> Vec<PathBuf> {
    let mut folders = vec![context.folder().to_owned()];
    match context.settings() {
        Ok(settings) => folders.extend(settings.workspaces.into_iter().map(|workspace| workspace.path)),
        Err(problem) => print_warning(format!(
            "warning: the settings cannot be read ({}): hooks in the settings of projects are not searched for",
            problem.message
        )),
    }
    folders
}

/// Prints what is left, and how to remove the program itself.
fn report_rest(
    context: &CommandContext,
    facts: &ServiceFacts,
    purge: bool,
) -> Result<ExitKind, CommandError> {
    let home = context.home();
    if !purge {
        for (name, folder) in [("configuration", home.config_dir()), ("state", home.state_dir())] {
            if folder.exists() {
                print_result_line(format!("kept: {name} in {}", folder.display()))?;
            }
        }
    }
    print_message(format!("to remove the program: {}", program_removal(&stable_program_path()?, facts)));
    Ok(ExitKind::Done)
}

/// Returns the command that removes the program, by the way it was installed.
fn program_removal(program: &Path, facts: &ServiceFacts) -> String {
    let script = program.ancestors().nth(2).map(|prefix| prefix.join("share/sinew/install.sh"));
    let is_packaged = Path::new("/var/lib/dpkg/info/sinew.list").exists();
    match script {
        _ if program.starts_with("/usr/bin") && is_packaged => "sudo apt remove sinew".to_owned(),
        _ if program.starts_with("/opt/homebrew") || program.starts_with("/usr/local/Cellar") => {
            "brew uninstall sinew".to_owned()
        }
        Some(script) if script.is_file() => {
            let prefix = program.ancestors().nth(2).unwrap_or(&facts.user_home);
            format!("sh '{}' --uninstall --prefix '{}'", script.display(), prefix.display())
        }
        _ => format!("rm '{}'", program.display()),
    }
}
