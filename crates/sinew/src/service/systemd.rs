//! Systemd user units for Linux: a service and the sockets that activate it.

use std::path::{Path, PathBuf};

use super::facts::path_text;
use super::{ManagerCommand, ServiceAction, ServiceFacts, ServiceFile};

const SERVICE: &str = "sinew.service";
const SOCKET: &str = "sinew.socket";

pub(super) fn files(facts: &ServiceFacts) -> Vec<ServiceFile> {
    let texts = [service_unit(facts), socket_unit(facts)];
    paths(&facts.user_home).into_iter().zip(texts).map(|(path, text)| ServiceFile { path, text }).collect()
}

/// Returns the paths of the service and the socket unit.
pub(super) fn paths(user_home: &Path) -> [PathBuf; 2] {
    [SERVICE, SOCKET].map(|name| user_home.join(".config/systemd/user").join(name))
}

/// Returns the links by which the units are enabled, as `[Install]` of each unit says.
pub(super) fn enabling_links(user_home: &Path) -> [PathBuf; 2] {
    let folder = user_home.join(".config/systemd/user");
    [folder.join("default.target.wants").join(SERVICE), folder.join("sockets.target.wants").join(SOCKET)]
}

fn service_unit(facts: &ServiceFacts) -> String {
    let variables: Vec<String> = facts
        .variables()
        .iter()
        .map(|(name, value)| format!("Environment={}\n", quote_word(&format!("{name}={value}"))))
        .collect();
    format!(
        "# Written by `sinew service install`. Run it again to update this file.\n\
         [Unit]\n\
         Description=Sinew, the tool runtime of a local AI agent\n\
         Requires={SOCKET}\n\
         After={SOCKET}\n\
         \n\
         [Service]\n\
         ExecStart={program} serve\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         {variables}\
         WorkingDirectory={state}\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         # Longer than the daemon needs to drain.\n\
         TimeoutStopSec=45\n\
         UMask=0077\n\
         LimitNOFILE=8192\n\
         # Each run gets its own cgroup below this one; if the kernel kills a run, the daemon continues.\n\
         Delegate=memory pids\n\
         OOMPolicy=continue\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        program = quote_word(&path_text(&facts.program)),
        variables = variables.concat(),
        state = escape_percent(&path_text(&facts.state)),
    )
}

fn socket_unit(facts: &ServiceFacts) -> String {
    format!(
        "# Written by `sinew service install`. Run it again to update this file.\n\
         [Unit]\n\
         Description=Sockets of Sinew\n\
         \n\
         [Socket]\n\
         ListenStream={agent}\n\
         ListenStream={control}\n\
         SocketMode=0600\n\
         DirectoryMode=0700\n\
         RemoveOnStop=yes\n\
         \n\
         [Install]\n\
         WantedBy=sockets.target\n",
        agent = escape_percent(&path_text(&facts.agent_socket)),
        control = escape_percent(&path_text(&facts.control_socket)),
    )
}

/// Quotes one word. `$` has no special meaning in the program path or in a variable's value.
fn quote_word(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escape_percent(&escaped))
}

/// Escapes the value of a whole line, in which only `%` has a special meaning.
fn escape_percent(value: &str) -> String {
    value.replace('%', "%%")
}

pub(super) fn commands(action: ServiceAction) -> Vec<ManagerCommand> {
    let report = |words: &[&str]| {
        let words = ["systemctl", "--user"].iter().chain(words);
        ManagerCommand::Required(words.map(|word| (*word).to_owned()).collect())
    };
    match action {
        ServiceAction::Install => vec![
            report(&["daemon-reload"]),
            report(&["enable", SOCKET, SERVICE]),
            report(&["restart", SOCKET, SERVICE]),
        ],
        ServiceAction::Uninstall => vec![report(&["disable", "--now", SERVICE, SOCKET])],
        ServiceAction::Start => vec![report(&["start", SOCKET, SERVICE])],
        ServiceAction::Stop => vec![report(&["stop", SERVICE, SOCKET])],
        ServiceAction::Restart => vec![report(&["restart", SERVICE])],
    }
}

pub(super) fn check_command() -> Vec<String> {
    ["systemctl", "--user", "show-environment"].map(str::to_owned).into()
}

pub(super) fn pid_command() -> Vec<String> {
    ["systemctl", "--user", "show", "-p", "MainPID", "--value", SERVICE].map(str::to_owned).into()
}

pub(super) fn status_command() -> Vec<String> {
    ["systemctl", "--user", "--no-pager", "status", SERVICE, SOCKET].map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::facts::tests::facts_with_special_characters;

    #[test]
    fn special_characters_are_escaped() {
        let [service, socket] = &files(&facts_with_special_characters())[..] else { panic!("two files") };
        let line = r#"ExecStart="/home/a \"b\" & <c> 100%% $d/bin/sinew" serve"#;
        assert!(service.text.lines().any(|there| there == line), "{}", service.text);
        let home = r#"Environment="SINEW_HOME=/home/a \"b\" & <c> 100%% $d/s""#;
        assert!(service.text.lines().any(|there| there == home), "{}", service.text);
        let listen = r#"ListenStream=/home/a "b" & <c> 100%% $d/s/run/agent.sock"#;
        assert!(socket.text.lines().any(|there| there == listen), "{}", socket.text);
        assert_eq!(quote_word(r"a\$b"), r#""a\\$b""#);
    }

    #[test]
    fn runs_get_their_own_cgroups() {
        let [service, _] = &files(&facts_with_special_characters())[..] else { panic!("two files") };
        for line in ["Delegate=memory pids", "OOMPolicy=continue"] {
            assert!(service.text.lines().any(|there| there == line), "{}", service.text);
        }
    }

    #[test]
    fn packaged_units_have_the_keys_of_the_generated_ones() {
        let packaged = [
            include_str!("../../../../config/packaging/sinew.service"),
            include_str!("../../../../config/packaging/sinew.socket"),
        ];
        // These lines name folders, which the package writes with specifiers.
        let is_own = |line: &&str| {
            !line.starts_with('#')
                && !["ExecStart", "Environment", "WorkingDirectory", "ListenStream"]
                    .iter()
                    .any(|key| line.starts_with(key))
        };
        for (file, packaged) in files(&facts_with_special_characters()).iter().zip(packaged) {
            let lines = |text: &'static str| text.lines().filter(is_own).collect::<Vec<_>>();
            let generated: Vec<&str> = file.text.lines().filter(is_own).collect();
            assert_eq!(generated, lines(packaged), "{}", file.path.display());
        }
    }
}
