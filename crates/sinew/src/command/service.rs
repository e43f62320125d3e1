//! `sinew service`: the daemon in the hands of launchd or systemd.

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
        let problem = Problem::usage("that service manager is not of this system");
        return Err(problem.hint("add `--print` to see its files"));
    }
    refuse_beside_another(setting)?;
    // The manager opens the sockets, and must find their folder private.
    setting.home().prepare().map_err(|error| explain(&error))?;
    let files = Manager::CURRENT.files(facts)?;
    for file in &files {
        let word = match (file.path.exists(), file.is_in_place()) {
            (_, true) => "unchanged",
            (true, false) => "brought up to date",
            (false, false) => "written",
        };
        if !file.is_in_place() {
            file.write()?;
        }
        say(format!("{word}: {}", file.path.display()))?;
    }
    service::carry_out(&Manager::CURRENT.steps(Action::Install, facts))?;
    say(format!("{} `sinew status` shows it at work", paint(GOOD, "installed and started:")))?;
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
                return Err(Problem::new(Exit::Failed, message));
            }
            _ => say(format!("removed: {}", path.display()))?,
        }
    }
    say("configuration, state and ledger are left as they are")?;
    Ok(Exit::Done)
}

fn manage(action: Action, setting: &Setting, facts: &Facts, done: &str) -> Result<Exit, Problem> {
    if !service::is_installed(setting.home()) {
        let problem = Problem::new(Exit::Failed, "the service is not installed");
        return Err(problem.hint("`sinew service install` does that; `sinew serve` runs without it"));
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
    let said = if installed { service::ask(&Manager::CURRENT.inquiry(facts))?.1 } else { String::new() };
    if as_json {
        let state = json!({"installed": installed, "up_to_date": current, "daemon_answers": answers, "manager": said});
        say(render::versioned(state))?;
    } else {
        let files = match (installed, current) {
            (false, _) => "not installed; `sinew service install` does that",
            (true, false) => {
                "installed, and written by another version; `sinew service install` brings it up to date"
            }
            (true, true) => "installed",
        };
        say(format!("service: {files}"))?;
        say(format!("daemon:  {}", if answers { "answers" } else { "does not answer" }))?;
        if !said.is_empty() {
            say(visible(said.trim_end()))?;
        }
    }
    Ok(if answers { Exit::Done } else { Exit::Unreachable })
}

/// A manager takes the sockets of a daemon that was started by hand from it, and its own one finds the state held.
fn refuse_beside_another(setting: &Setting) -> Result<(), Problem> {
    if service::is_installed(setting.home()) || !setting.daemon_answers() {
        return Ok(());
    }
    Err(strangers(running(setting)))
}

/// The same where the service is there: a daemon that answers is the manager's if that names its process.
fn refuse_beside_a_strangers(setting: &Setting, facts: &Facts) -> Result<(), Problem> {
    if !setting.daemon_answers() {
        return Ok(());
    }
    let running = running(setting);
    let said = service::ask(&Manager::CURRENT.whom(facts))?.1;
    let is_its_own = running.is_some() && Manager::CURRENT.named(&said) == running;
    if is_its_own { Ok(()) } else { Err(strangers(running)) }
}

/// The process that holds the state of this home.
fn running(setting: &Setting) -> Option<i32> {
    match StateLock::holder(setting.home()) {
        Holder::Process { pid } => pid,
        Holder::Nobody => None,
    }
}

fn strangers(pid: Option<i32>) -> Problem {
    let end = match pid {
        Some(pid) => format!("end it with `kill {pid}`, then try again"),
        None => "end it, then try again".to_owned(),
    };
    Problem::new(Exit::Failed, "a daemon runs that no service manager started").hint(end)
}

/// Root's service would be in root's session, and own the user's files.
fn refuse_root(facts: &Facts) -> Result<(), Problem> {
    if facts.uid != 0 {
        return Ok(());
    }
    let problem = Problem::usage("this would make a service of root's");
    Err(problem.hint("run it as yourself, without sudo; `--print` shows the files"))
}
