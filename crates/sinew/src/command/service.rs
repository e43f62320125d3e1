//! `sinew service`: installs and controls the daemon as a service of launchd or systemd.

use serde_json::json;
use server::{Holder, StateLock};

use crate::cli::{ServiceCommand, ServiceInstallArgs};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::service::{self, Action, Facts, Manager, ServiceFile};
use crate::setting::{Setting, explain};
use crate::terminal::{GOOD, NOTE, paint, say, tell, visible};

pub(crate) fn run(command: ServiceCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let facts = Facts::gather(&setting)?;
    match command {
        ServiceCommand::Install(args) if args.print => print(args.platform, &facts),
        ServiceCommand::Install(args) => install(&args, &setting, &facts),
        ServiceCommand::Uninstall => uninstall(&facts),
        ServiceCommand::Start => manage(Action::Start, &setting, &facts, "started"),
        ServiceCommand::Stop => manage(Action::Stop, &setting, &facts, "stopped"),
        ServiceCommand::Restart => manage(Action::Restart, &setting, &facts, "restarted"),
        ServiceCommand::Status(output) => status(&setting, &facts, output.json),
    }
}

fn print(platform: Option<Manager>, facts: &Facts) -> Result<Exit, Problem> {
    for file in platform.unwrap_or(Manager::CURRENT).files(facts)? {
        tell(paint(NOTE, format!("{}:", file.path.display())));
        say(file.text.trim_end())?;
    }
    Ok(Exit::Done)
}

fn install(args: &ServiceInstallArgs, setting: &Setting, facts: &Facts) -> Result<Exit, Problem> {
    refuse_root(facts)?;
    if args.platform.is_some_and(|platform| platform != Manager::CURRENT) {
        let problem = Problem::usage("this system does not use that service manager");
        return Err(problem.hint("add `--print` to see its files"));
    }
    refuse_beside_another(setting)?;
    // The service manager creates the sockets, so their folder must exist and be private.
    setting.home().prepare().map_err(|error| explain(&error))?;
    let files = Manager::CURRENT.files(facts)?;
    for file in &files {
        let word = match (file.path.exists(), file.is_in_place()) {
            (_, true) => "unchanged",
            (true, false) => "updated",
            (false, false) => "written",
        };
        if !file.is_in_place() {
            file.write()?;
        }
        say(format!("{word}: {}", file.path.display()))?;
    }
    service::carry_out(&Manager::CURRENT.steps(Action::Install, facts))?;
    say(format!("{} check it with `sinew status`", paint(GOOD, "installed and started:")))?;
    Ok(Exit::Done)
}

fn uninstall(facts: &Facts) -> Result<Exit, Problem> {
    refuse_root(facts)?;
    let files = Manager::CURRENT.files(facts)?;
    if !files.iter().any(|file| file.path.exists()) {
        say("not installed: there is nothing to remove")?;
        return Ok(Exit::Done);
    }
    service::carry_out(&Manager::CURRENT.steps(Action::Uninstall, facts))?;
    for ServiceFile { path, .. } in files {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("`{}` cannot be removed: {error}", path.display());
                return Err(Problem::failed(message));
            }
            _ => say(format!("removed: {}", path.display()))?,
        }
    }
    say("configuration, state and ledger are left as they are")?;
    Ok(Exit::Done)
}

fn manage(action: Action, setting: &Setting, facts: &Facts, done: &str) -> Result<Exit, Problem> {
    if !service::is_installed(setting.home()) {
        let problem = Problem::failed("the service is not installed");
        return Err(
            problem.hint("install it with `sinew service install`, or run `sinew serve` without a service")
        );
    }
    if action != Action::Stop {
        refuse_beside_a_strangers(setting, facts)?;
    }
    service::carry_out(&Manager::CURRENT.steps(action, facts))?;
    say(done)?;
    Ok(Exit::Done)
}

fn status(setting: &Setting, facts: &Facts, as_json: bool) -> Result<Exit, Problem> {
    let files = Manager::CURRENT.files(facts)?;
    let installed = service::is_installed(setting.home());
    let current = files.iter().all(ServiceFile::is_in_place);
    let answers = setting.daemon_answers();
    let manager_output =
        if installed { service::ask(&Manager::CURRENT.inquiry(facts))?.1 } else { String::new() };
    if as_json {
        let state = json!({"installed": installed, "up_to_date": current, "daemon_answers": answers, "manager": manager_output});
        say(render::versioned(state))?;
    } else {
        let files = match (installed, current) {
            (false, _) => "not installed; run `sinew service install` to install it",
            (true, false) => "installed by another version; run `sinew service install` to update it",
            (true, true) => "installed",
        };
        say(format!("service: {files}"))?;
        say(format!("daemon:  {}", if answers { "answers" } else { "does not answer" }))?;
        if !manager_output.is_empty() {
            say(visible(manager_output.trim_end()))?;
        }
    }
    Ok(if answers { Exit::Done } else { Exit::Unreachable })
}

/// Refuses to install the service while a manually started daemon runs: the service manager would take over
/// its sockets, and the new daemon would find the state lock held.
fn refuse_beside_another(setting: &Setting) -> Result<(), Problem> {
    if service::is_installed(setting.home()) || !setting.daemon_answers() {
        return Ok(());
    }
    Err(strangers(running(setting)))
}

/// Refuses to control an installed service while a daemon runs that the service manager did not start. The
/// daemon belongs to the manager if the manager reports its process id.
fn refuse_beside_a_strangers(setting: &Setting, facts: &Facts) -> Result<(), Problem> {
    if !setting.daemon_answers() {
        return Ok(());
    }
    let running = running(setting);
    let manager_output = service::ask(&Manager::CURRENT.whom(facts))?.1;
    let is_its_own = running.is_some() && Manager::CURRENT.named(&manager_output) == running;
    if is_its_own { Ok(()) } else { Err(strangers(running)) }
}

/// Returns the process that holds the state lock of this home.
fn running(setting: &Setting) -> Option<i32> {
    match StateLock::holder(setting.home()) {
        Holder::Process { pid } => pid,
        Holder::Nobody => None,
    }
}

fn strangers(pid: Option<i32>) -> Problem {
    let end = match pid {
        Some(pid) => format!("stop it with `kill {pid}`, then try again"),
        None => "stop it, then try again".to_owned(),
    };
    Problem::failed("a daemon is running that the service manager did not start").hint(end)
}

/// Refuses to run as root: the service would run in root's session, and files in the user's home would belong
/// to root.
fn refuse_root(facts: &Facts) -> Result<(), Problem> {
    if facts.uid != 0 {
        return Ok(());
    }
    let problem = Problem::usage("this would install a service for root");
    Err(problem.hint("run it as your own user, without sudo; `--print` shows the files"))
}
