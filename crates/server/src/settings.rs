//! Checked settings of the daemon: every limit is within its bounds, every workspace is an absolute path.
//! The existence of a workspace and the caller's rights there are checked when a call uses it.

mod approvals;
mod fleet;
mod keys;
mod retention;
mod web;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use strict_yaml::{Document, DocumentError, Located};
use telemetry::TelemetrySettings;

use crate::error::ServeError;
use crate::home::SinewHome;
use crate::settings_file::{LimitsFile, WorkspaceEntry};

pub use crate::settings_file::{DaemonSettingsFile, ReloadMode, WorkspaceAccessSetting};
pub use approvals::{ApprovalSettings, NotifyMethod};
pub(crate) use fleet::FleetSection;
pub use fleet::{FleetSettings, LostFleetPolicy};
pub(crate) use keys::KeyFile;
pub use keys::KeySetting;
pub(crate) use retention::{LedgerFile, UndoFile};
pub use retention::{LedgerSettings, LedgerUnavailablePolicy, UndoSettings};
pub(crate) use web::WebFile;
pub use web::{ProviderSetting, RobotsSetting, SearchProvider, WebSettings};

/// Template of the settings file, with the default of every key.
pub const SETTINGS_TEMPLATE: &str = include_str!("../../../config/sinew.yaml");

/// Checked settings of the daemon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Workspaces of callers, in the order of the file.
    pub workspaces: Vec<WorkspaceSetting>,
    /// Handling of configuration changes that loosen the policy.
    pub reload: ReloadMode,
    /// Limits of connections.
    pub limits: ConnectionLimits,
    /// Line of `max_line_bytes` in the settings file, if it is there.
    pub max_line_bytes_line: Option<u64>,
    /// Retention and availability settings of the ledger.
    pub ledger: LedgerSettings,
    /// Settings of the web tools.
    pub web: WebSettings,
    /// API keys of network servers, by name.
    pub keys: BTreeMap<String, KeySetting>,
    /// Approval requests to the operator.
    pub approvals: ApprovalSettings,
    /// Retention of earlier file states for undo.
    pub undo: UndoSettings,
    /// Logging and telemetry export.
    pub telemetry: TelemetrySettings,
    /// Fleet that this host belongs to.
    pub fleet: Option<FleetSettings>,
}

/// One workspace of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceSetting {
    /// Absolute path as written; symbolic links are not resolved.
    pub path: PathBuf,
    /// Access of callers.
    pub access: WorkspaceAccessSetting,
    /// Line in the settings file.
    pub line: u64,
}

/// Limits of connections, waits and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Longest message in either direction.
    pub max_line_bytes: usize,
    /// Maximum number of concurrent connections to the agent socket.
    pub max_connections: usize,
    /// Setting of `max_connections`, if the file descriptor limit of the process reduces it.
    pub unreduced_connections: Option<usize>,
    /// Maximum number of concurrent calls of one connection.
    pub max_in_flight: usize,
    /// Time for running calls to end when the daemon stops.
    pub drain_timeout: Duration,
    /// Longest time a client may leave its replies unread.
    pub write_stall_timeout: Duration,
    /// Time for sending the replies of calls that have just ended, when the daemon stops.
    pub final_reply_timeout: Duration,
    /// Time a connection at its in-flight limit waits for a reply to become ready before further requests get `busy`.
    pub queue_timeout: Duration,
    /// Time after which a call that waits for approval is answered with `approval_pending`, if its client gets no
    /// progress.
    pub approval_answer_timeout: Duration,
    /// Maximum number of manifests.
    pub max_manifests: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            max_line_bytes: 16 * 1024 * 1024,
            max_connections: 256,
            unreduced_connections: None,
            max_in_flight: 64,
            drain_timeout: Duration::from_secs(10),
            write_stall_timeout: Duration::from_secs(10),
            final_reply_timeout: Duration::from_millis(250),
            queue_timeout: Duration::from_secs(5),
            approval_answer_timeout: Duration::from_secs(50),
            max_manifests: 20_000,
        }
    }
}

impl Settings {
    /// Reads `config/sinew.yaml`. A missing file means the defaults; a file that other users can write is
    /// refused.
    pub fn load(home: &SinewHome) -> Result<Self, ServeError> {
        let path = home.settings_file();
        // A dangling symbolic link is not a missing file, but an error.
        match std::fs::symlink_metadata(&path) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Settings::default()),
            _ => Ok(Self::read(&Document::read_trusted(&path)?, home.user_home())?),
        }
    }

    /// Parses a text as the settings file of this home.
    pub fn parse(home: &SinewHome, text: &str) -> Result<Self, ServeError> {
        let name = home.settings_file().display().to_string();
        Ok(Self::read(&Document::from_text(&name, text)?, home.user_home())?)
    }

    fn read(document: &Document, user_home: Option<&Path>) -> Result<Self, DocumentError> {
        Self::read_all(document, user_home).map_err(|error| keys::redact_keys(document, error))
    }

    fn read_all(document: &Document, user_home: Option<&Path>) -> Result<Self, DocumentError> {
        let file: DaemonSettingsFile = document.parse()?;
        let workspace = |entry: &Located<WorkspaceEntry>| check_workspace(document, entry, user_home);
        Ok(Settings {
            workspaces: file.workspaces.iter().map(workspace).collect::<Result<_, _>>()?,
            reload: file.reload,
            limits: check_limits(document, &file.limits)?,
            max_line_bytes_line: file.limits.max_line_bytes.as_ref().map(|number| number.line),
            ledger: retention::check_ledger(document, &file.ledger)?,
            web: web::check(document, &file.web, user_home)?,
            keys: keys::check(document, &file.keys, user_home)?,
            approvals: file.approvals.clone(),
            undo: retention::check_undo(document, &file.undo)?,
            telemetry: TelemetrySettings {
                log: file.log,
                otlp: file.otlp,
                capture_content: file.capture_content,
            },
            fleet: fleet::check(document, file.fleet.as_ref())?,
        })
    }
}

fn check_limits(document: &Document, file: &LimitsFile) -> Result<ConnectionLimits, DocumentError> {
    let usual = ConnectionLimits::default();
    let count = |key, given, least, most, usual: usize| {
        let number = check_bounds(document, key, given, least, most)?;
        Ok(number.and_then(|n| usize::try_from(n).ok()).unwrap_or(usual))
    };
    let seconds = |key, given, least, usual: Duration| {
        Ok(check_bounds(document, key, given, least, 600)?.map_or(usual, Duration::from_secs))
    };
    let in_flight = &file.max_in_flight_per_connection;
    Ok(ConnectionLimits {
        max_line_bytes: count(
            "max_line_bytes",
            &file.max_line_bytes,
            4096,
            64 * 1024 * 1024,
            usual.max_line_bytes,
        )?,
        max_connections: count("max_connections", &file.max_connections, 1, 4096, usual.max_connections)?,
        unreduced_connections: None,
        max_in_flight: count("max_in_flight_per_connection", in_flight, 1, 1024, usual.max_in_flight)?,
        drain_timeout: seconds("drain_seconds", &file.drain_seconds, 0, usual.drain_timeout)?,
        write_stall_timeout: seconds(
            "write_stall_seconds",
            &file.write_stall_seconds,
            1,
            usual.write_stall_timeout,
        )?,
        final_reply_timeout: usual.final_reply_timeout,
        queue_timeout: usual.queue_timeout,
        approval_answer_timeout: seconds(
            "approval_answer_seconds",
            &file.approval_answer_seconds,
            1,
            usual.approval_answer_timeout,
        )?,
        max_manifests: count("max_manifests", &file.max_manifests, 0, 1_000_000, usual.max_manifests)?,
    })
}

/// Checks that a number is within its bounds; the error has its location.
fn check_bounds(
    document: &Document,
    key: &str,
    given: &Option<Located<u64>>,
    least: u64,
    most: u64,
) -> Result<Option<u64>, DocumentError> {
    let Some(given) = given else { return Ok(None) };
    if (least..=most).contains(&given.value) {
        return Ok(Some(given.value));
    }
    let message = format!("{key} is {}: it must be between {least} and {most}", given.value);
    Err(document.error_at(given.line, given.column, &message))
}

fn check_workspace(
    document: &Document,
    entry: &Located<WorkspaceEntry>,
    user_home: Option<&Path>,
) -> Result<WorkspaceSetting, DocumentError> {
    let (text, access) = match &entry.value {
        WorkspaceEntry::Path(path) => (path, WorkspaceAccessSetting::default()),
        WorkspaceEntry::Full(full) => (&full.path, full.access),
    };
    let refuse = |reason: &str| {
        document.error_at(entry.line, entry.column, &format!("the workspace `{text}` {reason}"))
    };
    let path = match (text.strip_prefix('~'), user_home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        (Some(_), _) => return Err(refuse("cannot be expanded").with_suggestion("write the whole path")),
        (None, _) => PathBuf::from(text),
    };
    if path.is_relative() {
        return Err(refuse("is not an absolute path").with_suggestion("begin it with `/` or `~/`"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(refuse("contains `..`").with_suggestion("write the resolved path"));
    }
    Ok(WorkspaceSetting { path, access, line: entry.line })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use tool::definition::KeyRecipient;

    use super::*;

    fn read(text: &str) -> Result<Settings, DocumentError> {
        Settings::read(&Document::from_text("sinew.yaml", text)?, Some(Path::new("/home/u")))
    }

    #[test]
    fn omitted_settings_use_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let home = SinewHome::from_root(folder.path()).unwrap();
        assert_eq!(Settings::load(&home).unwrap(), Settings::default(), "no file");
        assert_eq!(read("limits: {max_connections: 256}\n").unwrap(), Settings::default());
        std::fs::create_dir(home.config_dir()).unwrap();
        std::os::unix::fs::symlink("nowhere", home.settings_file()).unwrap();
        assert!(Settings::load(&home).is_err(), "a dangling link is not a missing file");
        std::fs::remove_file(home.settings_file()).unwrap();
        std::fs::write(home.settings_file(), "log: {level: debug}\n").unwrap();
        assert_eq!(Settings::load(&home).unwrap().telemetry.log.level, "debug");
        std::fs::set_permissions(home.settings_file(), Permissions::from_mode(0o666)).unwrap();
        let message = Settings::load(&home).unwrap_err().to_string();
        assert!(message.contains("chmod go-w"), "a user who can write it sets the workspaces: {message}");
        let template = Settings::parse(&home, SETTINGS_TEMPLATE).unwrap();
        let template = Settings { max_line_bytes_line: None, ..template };
        assert_eq!(template, Settings::default(), "the template states the defaults");
    }

    #[test]
    fn values_are_read() {
        let settings = read(concat!(
            "workspaces:\n  - /srv/a\n  - ~/b\n  - {path: \"~\", access: read_write}\n",
            "  - path: /srv/c\n    access: read_only\n",
            "limits:\n  max_line_bytes: 4096\n  max_connections: 1\n  max_in_flight_per_connection: 2\n",
            "  drain_seconds: 0\n  write_stall_seconds: 1\n  approval_answer_seconds: 20\ncapture_content: true\n",
            "ledger:\n  keep_bytes: 16777216\n  keep_days: 30\n  when_unavailable: allow_reads\n",
            "web:\n  robots: respect\n  ca_file: ~/ca.pem\n  search:\n    providers:\n",
            "      - brave\n      - {name: tavily, url: \"http://127.0.0.1:1/s\", key_file: /k, key_variable: T}\n",
            "undo:\n  keep_bytes: 0\n  keep_days: 2\n",
            "keys:\n  exa: {host: MCP.Exa.ai, key_file: ~/exa}\n  here: {host: \"[::1]\", key_variable: HERE}\n",
            "  started: {manifest: exa, key_variable: STARTED}\n",
        ))
        .unwrap();
        let workspaces: Vec<_> =
            settings.workspaces.iter().map(|w| (w.path.to_str().unwrap(), w.access)).collect();
        let write = WorkspaceAccessSetting::ReadWrite;
        let expect = [("/srv/a", write), ("/home/u/b", write), ("/home/u/", write)];
        assert_eq!(workspaces[..3], expect);
        assert_eq!(workspaces[3], ("/srv/c", WorkspaceAccessSetting::ReadOnly));
        assert!(settings.telemetry.capture_content);
        let expect = ConnectionLimits {
            max_line_bytes: 4096,
            max_connections: 1,
            max_in_flight: 2,
            drain_timeout: Duration::ZERO,
            write_stall_timeout: Duration::from_secs(1),
            approval_answer_timeout: Duration::from_secs(20),
            ..ConnectionLimits::default()
        };
        assert_eq!(settings.limits, expect);
        let expect = LedgerSettings {
            keep_bytes: 16 << 20,
            max_age: Some(Duration::from_secs(30 * 24 * 60 * 60)),
            keep_at_least: Duration::from_secs(30 * 24 * 60 * 60),
            max_bytes: 8 << 30,
            when_unavailable: LedgerUnavailablePolicy::AllowReads,
        };
        assert_eq!(settings.ledger, expect);
        let provider = |name| ProviderSetting { name, url: None, key_file: None, key_variable: None };
        let tavily = ProviderSetting {
            url: Some("http://127.0.0.1:1/s".to_owned()),
            key_file: Some("/k".into()),
            key_variable: Some("T".to_owned()),
            ..provider(SearchProvider::Tavily)
        };
        let expect = WebSettings {
            user_agent: None,
            robots: RobotsSetting::Respect,
            ca_file: Some("/home/u/ca.pem".into()),
            providers: vec![provider(SearchProvider::Brave), tavily],
        };
        assert_eq!(settings.web, expect);
        let key = |recipient, file: Option<&str>, variable: Option<&str>| KeySetting {
            recipient,
            key_file: file.map(Into::into),
            key_variable: variable.map(str::to_owned),
        };
        let expect = [
            ("exa", key(KeyRecipient::Host("mcp.exa.ai".to_owned()), Some("/home/u/exa"), None)),
            ("here", key(KeyRecipient::Host("[::1]".to_owned()), None, Some("HERE"))),
            ("started", key(KeyRecipient::Manifest("exa".to_owned()), None, Some("STARTED"))),
        ];
        assert_eq!(settings.keys, expect.map(|(name, key)| (name.to_owned(), key)).into());
        let expect = UndoSettings { keep_bytes: 0, max_age: Duration::from_secs(2 * 24 * 60 * 60) };
        assert_eq!(settings.undo, expect);
    }

    #[test]
    fn errors_are_located() {
        let check = |text: &str, line: u64, expect: &str| {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(expect), "{error}");
            assert_eq!(error.line, line, "{error}");
        };
        check("workspace: []\n", 1, "did you mean `workspaces`?");
        check("limits: {max_conections: 3}\n", 1, "did you mean `max_connections`?");
        check("limits:\n  max_connections: 0\n", 2, "max_connections is 0: it must be between 1 and 4096");
        check("limits:\n  max_line_bytes: 4095\n", 2, "between 4096 and 67108864");
        check("limits:\n  max_line_bytes: 67108865\n", 2, "between 4096 and 67108864");
        check("limits:\n  write_stall_seconds: 0\n", 2, "between 1 and 600");
        check("limits:\n  drain_seconds: -1\n", 2, "");
        check("limits:\n  drain_seconds: many\n", 2, "");
        check("workspaces:\n  - relative/path\n", 2, "is not an absolute path");
        check("workspaces:\n  - /a\n  - {path: /b, access: all}\n", 3, "unknown word `all`");
        check("workspaces:\n  - {paht: /b}\n", 2, "did you mean `path`?");
        check("workspaces:\n  - /a/../etc\n", 2, "contains `..`");
        check("workspaces:\n  - ~root/x\n", 2, "cannot be expanded");
        check("workspaces:\n  - 5\n", 2, "a path, or a mapping");
        check("log: {size: 1}\n", 1, "unknown key `size`");
        check(
            "ledger:\n  keep_bytes: 5\n",
            2,
            "keep_bytes is 5: it must be between 16777216 and 1099511627776",
        );
        check("ledger:\n  keep_days: 0\n", 2, "keep_days is 0: it must be between 1 and 36500");
        check(
            "ledger:\n  keep_days: 5\n  keep_at_least_days: 6\n",
            3,
            "keep_at_least_days is 6: it must be between 0 and 5",
        );
        check("ledger: {keep_bites: 1}\n", 1, "did you mean `keep_bytes`?");
        check("approvals:\n  notify: loudly\n", 2, "unknown word `loudly`");
        check("approvals:\n  notify: []\n", 2, "the list is empty");
        check("ledger:\n  when_unavailable: allow\n", 2, "unknown word `allow`");
        check("web: {robot: ignore}\n", 1, "did you mean `robots`?");
        check("web:\n  ca_file: here.pem\n", 2, "is not an absolute path");
        check("web:\n  user_agent: \"\"\n", 2, "user_agent");
        let provider = |entry: &str, expect: &str| {
            check(&format!("web:\n  search:\n    providers:\n      - {entry}\n"), 4, expect);
        };
        provider("google", "unknown word `google`");
        provider("searxng", "needs a `url`");
        provider("{name: searxng, url: localhost}", "is not an address");
        provider("{name: searxng, url: \"ftp://localhost\"}", "is not an address");
        provider("{name: searxng, url: \"http://me:key@localhost\"}", "user and password");
        provider("{name: searxng, url: \"http://localhost/?a=b\"}", "no query");
        provider("{name: brave, url: \"http://brave.example.org\"}", "would be sent unencrypted");
        provider("{name: brave, key_file: keys/brave}", "is not an absolute path");
        provider("{name: brave, key: secret}", "unknown key `key`");
        check("keys:\n  exa: {key_file: /k}\n", 2, "host");
        check("keys:\n  exa: {host: https://mcp.exa.ai, key_file: /k}\n", 2, "its host is not a host name");
        for both in ["host: a.org, manifest: a, ", ""] {
            check(&format!("keys:\n  exa: {{{both}key_file: /k}}\n"), 2, "either `host` or `manifest`");
        }
        check("keys:\n  exa: {host: mcp.exa.ai, key_file: k}\n", 2, "is not an absolute path");
        check("keys:\n  exa: {host: mcp.exa.ai, key: secret}\n", 2, "unknown key `key`");
        check("undo:\n  keep_days: 0\n", 2, "keep_days is 0: it must be between 1 and 36500");
        check("fleet: {lease_seconds: 60}\n", 1, "name");
        check(
            "fleet:\n  name: acme\n  lease_seconds: 9\n",
            3,
            "lease_seconds is 9: it must be between 10 and",
        );
        check("fleet:\n  name: acme\n  on_lost_fleet: ignore\n", 3, "unknown word `ignore`");
        check("fleet:\n  name: acme\n  may_loosen: [abc]\n", 3, "not 64 hexadecimal digits");
        check("fleet:\n  name: acme\n  may_losen: []\n", 3, "did you mean `may_loosen`?");
    }

    #[test]
    fn misplaced_api_key_is_not_quoted_in_the_error() {
        let planted = "plainword7f3a9";
        for text in [
            "keys: {exa: PLANTED}\n",
            "keys: PLANTED\n",
            "keys:\n  exa: PLANTED\n",
            "keys:\n  exa:\n    - PLANTED\n",
            "keys: {exa: {PLANTED}}\n",
            "keys: {exa: {PLANTED: a}}\n",
            "keys: {exa: {host: a.org, key: PLANTED}}\n",
            "keys: {exa: {host: a.org, key_file: PLANTED}}\n",
            "keys: {exa: {host: \"a.org:PLANTED\", key_file: /k}}\n",
            "keys: {exa: \"PLANTED}\n",
            "keys: {exa: *PLANTED}\n",
            "{keys: {exa: PLANTED}}\n",
            "\"keys\": {exa: PLANTED}\n",
            "web:\n  search:\n    providers:\n      - {name: brave, key: PLANTED}\n",
        ] {
            let message = read(&text.replace("PLANTED", planted)).unwrap_err().to_string();
            assert!(!message.contains(planted), "{text}\n{message}");
        }
    }
}
