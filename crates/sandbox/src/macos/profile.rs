//! Sandbox profile of a run, in the policy language of `sandbox-exec`. Paths are parameters and never part of
//! the text, so that no path can inject a rule.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use governance::files::NetworkAccess;

use crate::launch::spec::RunSpec;

/// A profile and the values of its parameters.
#[derive(Debug)]
pub(crate) struct SandboxProfile {
    pub(crate) text: String,
    pub(crate) parameters: Vec<(String, OsString)>,
}

/// Group of rules with a common purpose, which `name` states.
struct ProfileRules {
    name: &'static str,
    rules: &'static str,
}

/// Rules that every program needs. The default is to deny; later rules win.
const ALWAYS: &[ProfileRules] = &[
    ProfileRules {
        name: "processes: itself and what it starts",
        rules: r#"(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))"#,
    },
    ProfileRules {
        name: "files: system libraries read no fixed set of files; homes and other volumes are denied",
        rules: r#"(allow file-read*)
(deny file-read* (subpath "/Users") (subpath "/Volumes") (subpath "/private/var/root") (subpath "/Network"))
(deny file-read* (subpath "/private/var/db/dslocal") (subpath "/Library/Keychains"))
(allow file-read-metadata (literal "/Users"))"#,
    },
    ProfileRules {
        name: "devices that lead to nothing outside",
        rules: r#"(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-ioctl (literal "/dev/dtracehelper"))"#,
    },
    ProfileRules {
        name: "machine information",
        rules: r#"(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name "kern.argmax") (sysctl-name "kern.hostname") (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc") (sysctl-name "kern.osproductversion") (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype") (sysctl-name "kern.osversion") (sysctl-name "kern.version")
  (sysctl-name "kern.sysv.semmns") (sysctl-name "kern.usrstack64") (sysctl-name "kern.boottime")
  (sysctl-name-prefix "kern.proc.pid.") (sysctl-name-prefix "kern.proc.pgrp.")
  (sysctl-name "machdep.cpu.brand_string") (sysctl-name "vm.loadavg") (sysctl-name "sysctl.proc_cputype"))
(allow iokit-open (iokit-registry-entry-class "RootDomainUserClient"))"#,
    },
    ProfileRules {
        name: "java: a sysctl write that has no effect",
        rules: r#"(allow sysctl-write (sysctl-name "kern.grade_cputype"))"#,
    },
    ProfileRules {
        name: "python-mp: semaphores of interpreters, and shared memory of OpenMP",
        rules: r#"(allow ipc-posix-sem)
(allow ipc-posix-shm-read* (ipc-posix-name-prefix "apple.shm."))
(allow ipc-posix-shm (ipc-posix-name-prefix "__KMP_REGISTERED_LIB_"))"#,
    },
    ProfileRules {
        name: "services: user names, notifications, logs, power",
        rules: r#"(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.logd")
  (global-name "com.apple.PowerManagement.control"))"#,
    },
];

/// Rules for the loopback interface. It is the machine's: macOS has no private one per run.
const LOOPBACK: &[ProfileRules] = &[ProfileRules {
    name: "loopback-bind: the loopback of this machine",
    rules: r#"(allow network-bind (local ip "localhost:*"))
(allow network-inbound (local ip "localhost:*"))
(allow network-outbound (remote ip "localhost:*"))"#,
}];

const FULL: &[ProfileRules] = &[
    ProfileRules {
        name: "network",
        rules: r#"(allow network-bind (local ip))
(allow network-inbound (local ip))
(allow network-outbound (remote ip))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow sysctl-read (sysctl-name-prefix "net.routetable."))"#,
    },
    ProfileRules {
        name: "dns",
        rules: r#"(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.networkd"))"#,
    },
    ProfileRules {
        name: "tls: needed to verify certificates",
        rules: r#"(allow mach-lookup
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.ocspd"))"#,
    },
];

/// Denied by default already. Repeated after everything else, so that a wide rule of another bundle cannot
/// allow them.
const ALWAYS_DENIED: &[ProfileRules] = &[ProfileRules {
    name: "keychain, pasteboard and preferences are denied",
    rules: r#"(deny mach-lookup
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.securityd.xpc")
  (global-name "com.apple.security.agent")
  (global-name "com.apple.secd")
  (global-name "com.apple.pasteboard.1")
  (global-name "com.apple.cfprefsd.agent")
  (global-name "com.apple.cfprefsd.daemon"))"#,
}];

/// Builds the profile of a run. `scratch` is its private folder.
pub(crate) fn build(spec: &RunSpec, scratch: &Path) -> SandboxProfile {
    let mut profile =
        SandboxProfile { text: "(version 1)\n(deny default)\n".to_owned(), parameters: Vec::new() };
    profile.add(ALWAYS);
    profile.add(match spec.network {
        NetworkAccess::Off => &[],
        NetworkAccess::Loopback => LOOPBACK,
        NetworkAccess::Full => FULL,
    });
    let granted: Vec<&PathBuf> = spec.readable.iter().chain(&spec.writable).collect();
    for path in
        granted.iter().flat_map(|path| path.ancestors().skip(1)).filter(|path| path.parent().is_some())
    {
        profile.rule("allow file-read-metadata", "literal", path);
    }
    profile.rule("allow file-read*", "literal", &spec.program);
    for path in &spec.readable {
        profile.rule("allow file-read*", "subpath", path);
    }
    for path in spec.writable.iter().map(PathBuf::as_path).chain([scratch]) {
        profile.rule("allow file-read* file-write*", "subpath", path);
    }
    for expected in &spec.hidden {
        profile.rule("deny file-read* file-write*", "subpath", &expected.path);
    }
    for expected in &spec.protected {
        profile.rule("deny file-write*", "subpath", &expected.path);
    }
    profile.add(ALWAYS_DENIED);
    // Last: renaming a folder above a protected path would move the path out from under its rule.
    for expected in spec.protected.iter().chain(&spec.hidden) {
        let inside = |above: &&Path| spec.writable.iter().any(|folder| above.starts_with(folder));
        for above in expected.path.ancestors().skip(1).take_while(inside) {
            profile.rule("deny file-write-unlink", "literal", above);
        }
    }
    for path in &spec.pinned {
        profile.rule("deny file-write-unlink", "literal", path);
    }
    profile
}

impl SandboxProfile {
    fn add(&mut self, bundles: &[ProfileRules]) {
        for bundle in bundles {
            self.text.push_str(&format!("; {}\n{}\n", bundle.name, bundle.rules));
        }
    }

    /// Adds a rule for one path, passed as a parameter.
    fn rule(&mut self, what: &str, reach: &str, path: &Path) {
        let value = path.as_os_str().to_owned();
        let known = self.parameters.iter().find(|(_, other)| *other == value).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = format!("PATH_{}", self.parameters.len());
            self.parameters.push((name.clone(), value));
            name
        });
        self.text.push_str(&format!("({what} ({reach} (param \"{name}\")))\n"));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tool::result::SandboxTier;

    use super::*;
    use crate::launch::spec::RunLimits;
    use crate::macos::profile_evaluator::{Operation, ProfileTerm, is_allowed, parse};
    use crate::scan::file_identity::ExpectedFile;

    const ODD: &str = "/Users/me/w\")) (allow default) ((\"";

    fn spec(network: NetworkAccess) -> RunSpec {
        RunSpec {
            tier: SandboxTier::Full,
            network,
            program: "/usr/bin/true".into(),
            device: 0,
            inode: 0,
            arguments: vec!["true".into()],
            variables: Vec::new(),
            folder: ODD.into(),
            writable: vec![ODD.into()],
            readable: vec!["/Users/me/r".into()],
            hidden: vec![ExpectedFile { path: Path::new(ODD).join(".env"), file: (0, 0) }],
            protected: vec![ExpectedFile { path: Path::new(ODD).join("a/.git/hooks"), file: (0, 0) }],
            pinned: Vec::new(),
            limits: RunLimits {
                time: Duration::ZERO,
                grace: Duration::ZERO,
                memory_bytes: 1,
                processes: 1,
                cpu_seconds: 0,
                file_bytes: 0,
                open_files: 1,
            },
        }
    }

    fn made(network: NetworkAccess) -> SandboxProfile {
        build(&spec(network), Path::new("/private/tmp/own"))
    }

    /// Returns true if the term is a rule: `allow` or `deny`, operations, and filters.
    fn is_rule(term: &ProfileTerm) -> bool {
        let ProfileTerm::List(parts) = term else { return false };
        match parts.as_slice() {
            [ProfileTerm::Word(head), ProfileTerm::Word(number)] if head == "version" => number == "1",
            [ProfileTerm::Word(head), operations @ ..] if head == "allow" || head == "deny" => {
                let is_word = |part: &&ProfileTerm| matches!(part, ProfileTerm::Word(_));
                let words = operations.iter().take_while(is_word).count();
                words > 0 && operations.iter().skip(words).all(|part| matches!(part, ProfileTerm::List(_)))
            }
            _ => false,
        }
    }

    #[test]
    fn profile_is_well_formed_and_denies_by_default() {
        for network in [NetworkAccess::Off, NetworkAccess::Loopback, NetworkAccess::Full] {
            let profile = made(network);
            let terms = parse(&profile.text).unwrap_or_else(|| panic!("{}", profile.text));
            let wrong: Vec<_> = terms.iter().filter(|term| !is_rule(term)).collect();
            assert!(wrong.is_empty() && terms.len() > 20, "{wrong:?}");
            assert!(profile.text.starts_with("(version 1)\n(deny default)\n"));
            assert!(!profile.text.contains("(allow default)"));
        }
        for broken in ["(a (b)", "(a))", "(\"a)", ")"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
        assert!(!is_rule(&parse("(allow)").unwrap()[0]) && !is_rule(&parse("(permit default)").unwrap()[0]));
    }

    /// Written by hand, from what ordinary programs were observed to need.
    #[test]
    fn profile_allows_what_every_program_needs() {
        let text = made(NetworkAccess::Off).text;
        for rule in [
            "(allow process-exec)",
            "(allow process-fork)",
            "(allow signal (target same-sandbox))",
            "(literal \"/dev/null\")",
            "(sysctl-name-prefix \"hw.\")",
            "(allow ipc-posix-sem)",
            "com.apple.system.opendirectoryd.libinfo",
            "kern.grade_cputype",
        ] {
            assert!(text.contains(rule), "{rule}");
        }
    }

    #[test]
    fn paths_are_parameters_and_not_profile_text() {
        let profile = made(NetworkAccess::Off);
        assert!(!profile.text.contains("/Users/me"), "{}", profile.text);
        for (name, value) in &profile.parameters {
            assert!(profile.text.contains(&format!("(param \"{name}\")")), "{name} is used");
            assert_eq!(profile.parameters.iter().filter(|(_, other)| other == value).count(), 1);
        }
        assert!(profile.parameters.iter().any(|(_, value)| value == ODD));
        let used = profile.text.matches("(param \"").count();
        assert!(used >= profile.parameters.len());
    }

    #[test]
    fn network_rules_match_the_grant() {
        let text = |network| made(network).text;
        assert!(!text(NetworkAccess::Off).contains("network-"), "no network rule");
        let loopback = text(NetworkAccess::Loopback);
        assert!(loopback.contains("(remote ip \"localhost:*\")") && !loopback.contains("trustd"));
        assert!(text(NetworkAccess::Full).contains("com.apple.trustd.agent"));
        for network in [NetworkAccess::Off, NetworkAccess::Loopback, NetworkAccess::Full] {
            let text = text(network);
            let (before, closed) = text.split_once("; keychain, pasteboard").expect("said once more");
            for service in
                ["SecurityServer", "securityd", "com.apple.secd", "com.apple.pasteboard", "cfprefsd"]
            {
                assert!(!before.contains(service), "{service} must not be allowed by any rule");
                assert!(closed.contains(service), "{service} must be denied after all of them");
            }
            assert!(!closed.contains("(allow"), "nothing is allowed after the denials");
        }
    }

    #[test]
    fn connections_and_services_are_decided_by_the_grant() {
        let (own, other) = ("127.0.0.1:80", "192.0.2.1:443");
        for (network, to_own, to_other) in [
            (NetworkAccess::Off, false, false),
            (NetworkAccess::Loopback, true, false),
            (NetworkAccess::Full, true, true),
        ] {
            let profile = made(network);
            assert_eq!(is_allowed(&profile, Operation::Connect(own)), to_own, "{network:?}");
            assert_eq!(is_allowed(&profile, Operation::Connect(other)), to_other, "{network:?}");
            let service = |name| is_allowed(&profile, Operation::Service(name));
            assert!(service("com.apple.logd") && !service("com.apple.secd") && !service("com.apple.unknown"));
            assert_eq!(service("com.apple.trustd.agent"), network == NetworkAccess::Full);
        }
    }

    #[test]
    fn system_libraries_are_readable_and_other_homes_are_not() {
        let profile = made(NetworkAccess::Full);
        let allowed = |operation, path| is_allowed(&profile, Operation::File(operation, Path::new(path)));
        assert!(allowed("file-read-data", "/usr/lib/libSystem.dylib"));
        assert!(!allowed("file-write-data", "/usr/lib/libSystem.dylib"));
        for secret in ["/Library/Keychains/System.keychain", "/Users/other/f", "/Volumes/backup/f"] {
            assert!(!allowed("file-read-data", secret) && !allowed("file-read-metadata", secret), "{secret}");
        }
        assert!(allowed("file-write-data", "/dev/null") && !allowed("file-write-data", "/dev/disk0"));
    }

    #[test]
    fn denials_come_after_allowances() {
        let profile = made(NetworkAccess::Off);
        let value = |path: &Path| {
            let found = profile.parameters.iter().find(|(_, value)| value == path.as_os_str());
            found.map(|(name, _)| name.clone()).expect("a parameter")
        };
        let at = |what: &str, reach: &str, path: &Path| {
            let rule = format!("({what} ({reach} (param \"{}\")))", value(path));
            profile.text.find(&rule).unwrap_or_else(|| panic!("{rule} in {}", profile.text))
        };
        let odd = Path::new(ODD);
        let allowed = at("allow file-read* file-write*", "subpath", odd);
        let hidden = at("deny file-read* file-write*", "subpath", &odd.join(".env"));
        let kept = at("deny file-write*", "subpath", &odd.join("a/.git/hooks"));
        assert!(allowed < hidden && hidden < kept);
        for above in ["a/.git", "a", ""] {
            let above = if above.is_empty() { odd.to_owned() } else { odd.join(above) };
            assert!(at("deny file-write-unlink", "literal", &above) > kept, "{}", above.display());
        }
        assert!(!profile.text.contains("(allow file-write*)"), "no write rule without a path");
    }
}
