//! Launchd agent for macOS: one property list in `~/Library/LaunchAgents`.

use std::path::{Path, PathBuf};

use plist::{Dictionary, Value};

use super::facts::path_text;
use super::{ManagerCommand, ServiceAction, ServiceFacts, ServiceFile};
use crate::exit::CommandError;

/// Label of the job and base name of its file.
const LABEL: &str = "dev.sinew.daemon";
/// 0o077, in decimal because property lists have no octal numbers.
const UMASK: u32 = 63;
/// 0o600.
const SOCKET_MODE: u32 = 384;
const MAX_OPEN_FILES: u32 = 8192;
/// Longer than the daemon needs to drain.
const STOP_TIMEOUT_SECONDS: u32 = 45;

pub(super) fn files(facts: &ServiceFacts) -> Result<Vec<ServiceFile>, CommandError> {
    let mut text = Vec::new();
    let written = Value::Dictionary(job_dictionary(facts)).to_writer_xml(&mut text);
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::failed(format!("the property list cannot be written: {error}"))
    };
    written.map_err(|error| failed(&error))?;
    let text = String::from_utf8(text).map_err(|error| failed(&error))?;
    Ok(vec![ServiceFile { path: path(&facts.user_home), text: text + "\n" }])
}

pub(super) fn path(user_home: &Path) -> PathBuf {
    user_home.join("Library/LaunchAgents").join(format!("{LABEL}.plist"))
}

fn job_dictionary(facts: &ServiceFacts) -> Dictionary {
    let program = [path_text(&facts.program), "serve".to_owned()].map(Value::String);
    let variables =
        facts.variables().into_iter().map(|(name, value)| (name.to_owned(), Value::String(value)));
    let sockets = [("agent", &facts.agent_socket), ("control", &facts.control_socket)];
    let socket =
        |path| dictionary([("SockPathName", path_text(path).into()), ("SockPathMode", SOCKET_MODE.into())]);
    let sockets = sockets.map(|(name, path)| (name, socket(path)));
    let keys: [(&str, Value); 14] = [
        ("Label", LABEL.into()),
        ("ProgramArguments", Value::Array(program.into())),
        ("EnvironmentVariables", Value::Dictionary(variables.collect())),
        ("WorkingDirectory", path_text(&facts.state).into()),
        // Every other type is throttled, including all programs that tools start.
        ("ProcessType", "Interactive".into()),
        // Restart only after a failure: otherwise launchd would undo `stop`.
        ("KeepAlive", dictionary([("SuccessfulExit", false.into())])),
        ("RunAtLoad", true.into()),
        ("ExitTimeOut", STOP_TIMEOUT_SECONDS.into()),
        ("Umask", UMASK.into()),
        ("SoftResourceLimits", dictionary([("NumberOfFiles", MAX_OPEN_FILES.into())])),
        ("StandardOutPath", "/dev/null".into()),
        // Output before the daemon's own log is open. The daemon rotates its own log.
        ("StandardErrorPath", path_text(&facts.log.join("launchd.log")).into()),
        ("Sockets", dictionary(sockets)),
        ("LimitLoadToSessionType", Value::Array(SESSION_TYPES.map(Value::from).into())),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// All session types, so that a job started over SSH survives a graphical login.
const SESSION_TYPES: [&str; 5] = ["Aqua", "Background", "LoginWindow", "StandardIO", "System"];

fn dictionary<const N: usize>(keys: [(&str, Value); N]) -> Value {
    Value::Dictionary(keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

pub(super) fn commands(action: ServiceAction, facts: &ServiceFacts) -> Vec<ManagerCommand> {
    let (domain, job) = (format!("gui/{}", facts.uid), job_name(facts));
    let file = path(&facts.user_home);
    let report = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let load = ManagerCommand::Required(report(&["launchctl", "bootstrap", &domain, &path_text(&file)]));
    // Unloading takes time, and loading a job that is still loaded fails with an unspecific error.
    let unload = [
        ManagerCommand::Optional(report(&["launchctl", "bootout", &job])),
        ManagerCommand::UntilFailure(status_command(facts)),
    ];
    match action {
        ServiceAction::Install => {
            let enable = ManagerCommand::Required(report(&["launchctl", "enable", &job]));
            unload.into_iter().chain([enable, load]).collect()
        }
        // Launchd holds the sockets, so a daemon that only exits is started by the next connection.
        ServiceAction::Uninstall | ServiceAction::Stop => unload.into(),
        ServiceAction::Start => vec![ManagerCommand::Optional(report(&["launchctl", "enable", &job])), load],
        ServiceAction::Restart => {
            vec![ManagerCommand::Required(report(&["launchctl", "kickstart", "-k", &job]))]
        }
    }
}

pub(super) fn status_command(facts: &ServiceFacts) -> Vec<String> {
    ["launchctl".to_owned(), "print".to_owned(), job_name(facts)].into()
}

pub(super) fn check_command(facts: &ServiceFacts) -> Vec<String> {
    ["launchctl".to_owned(), "print".to_owned(), format!("gui/{}", facts.uid)].into()
}

fn job_name(facts: &ServiceFacts) -> String {
    format!("gui/{}/{LABEL}", facts.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::facts::tests::facts_with_special_characters;

    #[test]
    fn the_property_list_round_trips() {
        let facts = facts_with_special_characters();
        let [file] = &files(&facts).unwrap()[..] else { panic!("one file") };
        assert!(file.path.ends_with("Library/LaunchAgents/dev.sinew.daemon.plist"));
        let read = Value::from_reader_xml(file.text.as_bytes()).unwrap();
        let keys = read.as_dictionary().unwrap();
        let text = |value: &Value| value.as_string().unwrap().to_owned();
        let arguments: Vec<String> = keys["ProgramArguments"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(arguments, [path_text(&facts.program), "serve".to_owned()]);
        assert_eq!(text(&keys["ProcessType"]), "Interactive");
        assert_eq!(keys["Umask"].as_unsigned_integer(), Some(0o077));
        let agent = keys["Sockets"].as_dictionary().unwrap()["agent"].as_dictionary().unwrap();
        assert_eq!(agent["SockPathMode"].as_unsigned_integer(), Some(0o600));
        assert_eq!(text(&agent["SockPathName"]), path_text(&facts.agent_socket));
        let variables = keys["EnvironmentVariables"].as_dictionary().unwrap();
        assert_eq!(
            text(&variables["SINEW_HOME"]),
            path_text(&facts.state.with_file_name("")).trim_end_matches('/')
        );
        assert_eq!(keys["KeepAlive"].as_dictionary().unwrap()["SuccessfulExit"].as_boolean(), Some(false));
    }

    #[test]
    fn a_job_is_unloaded_before_it_is_loaded() {
        let steps = commands(ServiceAction::Install, &facts_with_special_characters());
        let reported_text: Vec<String> = steps
            .iter()
            .map(|step| match step {
                ManagerCommand::Required(words)
                | ManagerCommand::Optional(words)
                | ManagerCommand::UntilFailure(words) => words[1].clone(),
            })
            .collect();
        assert_eq!(reported_text, ["bootout", "print", "enable", "bootstrap"]);
        assert!(matches!(steps[1], ManagerCommand::UntilFailure(_)), "unloading takes time");
    }
}
