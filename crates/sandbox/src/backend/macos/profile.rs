//! The profile of a run: what the kernel's policy language is told. Paths are parameters and never part of the text, so
//! no name can say more than a name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use governance::Network;

use crate::spec::Spec;

/// A profile and the values of its parameters.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) text: String,
    pub(crate) parameters: Vec<(String, OsString)>,
}

/// What a program needs whatever it does. Deny is the default; later rules win.
const BASE: &str = r#"(version 1)
(deny default)
; Itself and what it starts.
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
; The system has no closed set of files that its own libraries read; homes and other volumes are closed below.
(allow file-read*)
(deny file-read* (subpath "/Users") (subpath "/Volumes") (subpath "/private/var/root") (subpath "/Network"))
(deny file-read* (subpath "/private/var/db/dslocal") (subpath "/Library/Keychains"))
(allow file-read-metadata (literal "/Users"))
; Devices that are no way out.
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-ioctl (literal "/dev/dtracehelper"))
; Facts about the machine.
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name "kern.argmax") (sysctl-name "kern.hostname") (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc") (sysctl-name "kern.osproductversion") (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype") (sysctl-name "kern.osversion") (sysctl-name "kern.version")
  (sysctl-name "kern.sysv.semmns") (sysctl-name "kern.usrstack64") (sysctl-name "kern.boottime")
  (sysctl-name-prefix "kern.proc.pid.") (sysctl-name-prefix "kern.proc.pgrp.")
  (sysctl-name "machdep.cpu.brand_string") (sysctl-name "vm.loadavg") (sysctl-name "sysctl.proc_cputype"))
; Semaphores of interpreters, and the memory that OpenMP registers.
(allow ipc-posix-sem)
(allow ipc-posix-shm-read* (ipc-posix-name-prefix "apple.shm."))
(allow ipc-posix-shm (ipc-posix-name-prefix "__KMP_REGISTERED_LIB_"))
; Names of users, notifications, logs, power. No keychain, no pasteboard, no preferences.
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.logd")
  (global-name "com.apple.PowerManagement.control"))
(allow iokit-open (iokit-registry-entry-class "RootDomainUserClient"))
"#;

/// An interface that leads nowhere else. It is the machine's: the system has none of a run's own.
const LOOPBACK: &str = r#"; The loopback of this machine.
(allow network-bind (local ip "localhost:*"))
(allow network-inbound (local ip "localhost:*"))
(allow network-outbound (remote ip "localhost:*"))
"#;

/// The network, and the services without which no certificate can be checked.
const FULL: &str = r#"; The network.
(allow network-bind (local ip))
(allow network-inbound (local ip))
(allow network-outbound (remote ip))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow mach-lookup
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.networkd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd"))
(allow sysctl-read (sysctl-name-prefix "net.routetable."))
"#;

/// The profile of a run. `scratch` is a folder of its own.
pub(crate) fn of(spec: &Spec, scratch: &Path) -> Profile {
    let mut profile = Profile { text: BASE.to_owned(), parameters: Vec::new() };
    profile.text.push_str(match spec.network {
        Network::Off => "",
        Network::Loopback => LOOPBACK,
        Network::Full => FULL,
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
    for path in &spec.hidden {
        profile.rule("deny file-read* file-write*", "subpath", path);
    }
    for path in &spec.kept {
        profile.rule("deny file-write*", "subpath", path);
    }
    // Last: whoever renames a folder above a protected name moves the name out from under its rule.
    for path in spec.kept.iter().chain(&spec.hidden) {
        let inside = |above: &&Path| spec.writable.iter().any(|folder| above.starts_with(folder));
        for above in path.ancestors().skip(1).take_while(inside) {
            profile.rule("deny file-write-unlink", "literal", above);
        }
    }
    profile
}

impl Profile {
    /// Adds a rule about one path, by a parameter.
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

    use tool::SandboxTier;

    use super::*;
    use crate::spec::Limits;

    const ODD: &str = "/Users/me/w\")) (allow default) ((\"";

    fn spec(network: Network) -> Spec {
        Spec {
            tier: SandboxTier::Full,
            network,
            program: "/usr/bin/true".into(),
            device: 0,
            inode: 0,
            words: vec!["true".into()],
            variables: Vec::new(),
            folder: ODD.into(),
            writable: vec![ODD.into()],
            readable: vec!["/Users/me/r".into()],
            hidden: vec![Path::new(ODD).join(".env")],
            kept: vec![Path::new(ODD).join("a/.git/hooks")],
            limits: Limits {
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

    fn made(network: Network) -> Profile {
        of(&spec(network), Path::new("/private/tmp/own"))
    }

    /// Brackets pair up outside of texts and comments, and nothing is left open.
    fn is_well_formed(text: &str) -> bool {
        let mut depth = 0_i32;
        for line in text.lines().filter(|line| !line.trim_start().starts_with(';')) {
            let mut in_text = false;
            for c in line.chars() {
                match c {
                    '"' => in_text = !in_text,
                    '(' if !in_text => depth += 1,
                    ')' if !in_text => depth -= 1,
                    _ => {}
                }
            }
            if in_text || depth < 0 {
                return false;
            }
        }
        depth == 0
    }

    #[test]
    fn a_profile_is_well_formed_and_denies_by_default() {
        for network in [Network::Off, Network::Loopback, Network::Full] {
            let profile = made(network);
            assert!(is_well_formed(&profile.text), "{}", profile.text);
            assert!(profile.text.starts_with("(version 1)\n(deny default)\n"));
            assert!(!profile.text.contains("(allow default)"));
        }
        assert!(!is_well_formed("(a (b)") && !is_well_formed("(a))") && !is_well_formed("(\"a)"));
    }

    #[test]
    fn no_path_is_part_of_the_text() {
        let profile = made(Network::Off);
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
    fn the_network_is_what_was_granted() {
        let text = |network| made(network).text;
        assert!(!text(Network::Off).contains("network-"), "nothing of it");
        let loopback = text(Network::Loopback);
        assert!(loopback.contains("(remote ip \"localhost:*\")") && !loopback.contains("trustd"));
        assert!(text(Network::Full).contains("com.apple.trustd.agent"));
        for network in [Network::Off, Network::Loopback, Network::Full] {
            for keychain in
                ["SecurityServer", "securityd", "com.apple.secd", "com.apple.pasteboard", "cfprefsd"]
            {
                assert!(!text(network).contains(keychain), "{keychain}");
            }
        }
    }

    #[test]
    fn what_is_denied_comes_after_what_is_allowed() {
        let profile = made(Network::Off);
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
        assert!(!profile.text.contains("(allow file-write*)"), "no write without a place");
    }
}
