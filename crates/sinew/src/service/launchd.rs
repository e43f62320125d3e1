//! Launchd agent for macOS: one property list in `~/Library/LaunchAgents`.

use std::path::{Path, PathBuf};

use plist::{Dictionary, Value};

use super::facts::shown;
use super::{Action, Facts, ServiceFile, Step};
use crate::exit::Problem;

/// Label of the job and base name of its file.
const LABEL: &str = "dev.sinew.daemon";
/// 0o077, in decimal because property lists have no octal numbers.
const UMASK: u32 = 63;
/// 0o600.
const SOCKET_MODE: u32 = 384;
const DESCRIPTORS: u32 = 8192;
/// Longer than the daemon needs to drain.
const SECONDS_TO_STOP: u32 = 45;

pub(super) fn files(facts: &Facts) -> Result<Vec<ServiceFile>, Problem> {
    let mut text = Vec::new();
    let written = Value::Dictionary(job(facts)).to_writer_xml(&mut text);
    let failed = |error: &dyn std::fmt::Display| {
        Problem::failed(format!("the property list cannot be written: {error}"))
    };
    written.map_err(|error| failed(&error))?;
    let text = String::from_utf8(text).map_err(|error| failed(&error))?;
    Ok(vec![ServiceFile { path: path(&facts.user_home), text: text + "\n" }])
}

pub(super) fn path(user_home: &Path) -> PathBuf {
    user_home.join("Library/LaunchAgents").join(format!("{LABEL}.plist"))
}

fn job(facts: &Facts) -> Dictionary {
    let program = [shown(&facts.program), "serve".to_owned()].map(Value::String);
    let variables =
        facts.variables().into_iter().map(|(name, value)| (name.to_owned(), Value::String(value)));
    let sockets = [("agent", &facts.agent_socket), ("control", &facts.control_socket)];
    let socket =
        |path| dictionary([("SockPathName", shown(path).into()), ("SockPathMode", SOCKET_MODE.into())]);
    let sockets = sockets.map(|(name, path)| (name, socket(path)));
    let keys: [(&str, Value); 14] = [
        ("Label", LABEL.into()),
        ("ProgramArguments", Value::Array(program.into())),
        ("EnvironmentVariables", Value::Dictionary(variables.collect())),
        ("WorkingDirectory", shown(&facts.state).into()),
        // Every other type is throttled, including all programs that tools start.
        ("ProcessType", "Interactive".into()),
        // Restart only after a failure: otherwise launchd would undo `stop`.
        ("KeepAlive", dictionary([("SuccessfulExit", false.into())])),
        ("RunAtLoad", true.into()),
        ("ExitTimeOut", SECONDS_TO_STOP.into()),
        ("Umask", UMASK.into()),
        ("SoftResourceLimits", dictionary([("NumberOfFiles", DESCRIPTORS.into())])),
        ("StandardOutPath", "/dev/null".into()),
        // Output before the daemon's own log is open. The daemon rotates its own log.
        ("StandardErrorPath", shown(&facts.log.join("launchd.log")).into()),
        ("Sockets", dictionary(sockets)),
        ("LimitLoadToSessionType", Value::Array(SESSIONS.map(Value::from).into())),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// All session types, so that a job started over SSH survives a graphical login.
const SESSIONS: [&str; 5] = ["Aqua", "Background", "LoginWindow", "StandardIO", "System"];

fn dictionary<const N: usize>(keys: [(&str, Value); N]) -> Value {
    Value::Dictionary(keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

pub(super) fn steps(action: Action, facts: &Facts) -> Vec<Step> {
    let (domain, job) = (format!("gui/{}", facts.uid), job_name(facts));
    let file = path(&facts.user_home);
    let tell = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let load = Step::Must(tell(&["launchctl", "bootstrap", &domain, &shown(&file)]));
    // Unloading takes time, and loading a job that is still loaded fails with an unspecific error.
    let unload = [Step::May(tell(&["launchctl", "bootout", &job])), Step::UntilItFails(inquiry(facts))];
    match action {
        Action::Install => {
            let enable = Step::Must(tell(&["launchctl", "enable", &job]));
            unload.into_iter().chain([enable, load]).collect()
        }
        // Launchd holds the sockets, so a daemon that only exits is started by the next connection.
        Action::Uninstall | Action::Stop => unload.into(),
        Action::Start => vec![Step::May(tell(&["launchctl", "enable", &job])), load],
        Action::Restart => vec![Step::Must(tell(&["launchctl", "kickstart", "-k", &job]))],
    }
}

pub(super) fn inquiry(facts: &Facts) -> Vec<String> {
    ["launchctl".to_owned(), "print".to_owned(), job_name(facts)].into()
}

fn job_name(facts: &Facts) -> String {
    format!("gui/{}/{LABEL}", facts.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::facts::tests::awkward;

    #[test]
    fn the_property_list_round_trips() {
        let facts = awkward();
        let [file] = &files(&facts).unwrap()[..] else { panic!("one file") };
        assert!(file.path.ends_with("Library/LaunchAgents/dev.sinew.daemon.plist"));
        let read = Value::from_reader_xml(file.text.as_bytes()).unwrap();
        let keys = read.as_dictionary().unwrap();
        let text = |value: &Value| value.as_string().unwrap().to_owned();
        let arguments: Vec<String> = keys["ProgramArguments"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(arguments, [shown(&facts.program), "serve".to_owned()]);
        assert_eq!(text(&keys["ProcessType"]), "Interactive");
        assert_eq!(keys["Umask"].as_unsigned_integer(), Some(0o077));
        let agent = keys["Sockets"].as_dictionary().unwrap()["agent"].as_dictionary().unwrap();
        assert_eq!(agent["SockPathMode"].as_unsigned_integer(), Some(0o600));
        assert_eq!(text(&agent["SockPathName"]), shown(&facts.agent_socket));
        let variables = keys["EnvironmentVariables"].as_dictionary().unwrap();
        assert_eq!(
            text(&variables["SINEW_HOME"]),
            shown(&facts.state.with_file_name("")).trim_end_matches('/')
        );
        assert_eq!(keys["KeepAlive"].as_dictionary().unwrap()["SuccessfulExit"].as_boolean(), Some(false));
    }

    #[test]
    fn a_job_is_unloaded_before_it_is_loaded() {
        let steps = steps(Action::Install, &awkward());
        let said: Vec<String> = steps
            .iter()
            .map(|step| match step {
                Step::Must(words) | Step::May(words) | Step::UntilItFails(words) => words[1].clone(),
            })
            .collect();
        assert_eq!(said, ["bootout", "print", "enable", "bootstrap"]);
        assert!(matches!(steps[1], Step::UntilItFails(_)), "unloading takes time");
    }
}
