//! Permissions of each role on the NATS servers, as one table. The identity of a program is a token of its subjects,
//! and these permissions enforce it; NATS itself does not name the sender of a message.

use crate::{PARTITIONS, SubjectToken, Subjects};

/// Role of a program on the NATS servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Daemon of a host.
    Host {
        /// Host.
        host: SubjectToken,
        /// Group whose policy it takes.
        group: SubjectToken,
    },
    /// Bearer of an invitation, who may send one enrolment request.
    Invited {
        /// Host that is invited.
        host: SubjectToken,
        /// Id of the invitation.
        invitation: SubjectToken,
    },
    /// Program that calls tools on hosts.
    Orchestrator {
        /// Name of the caller.
        name: SubjectToken,
    },
    /// Program of a person who decides approvals.
    Approver {
        /// Name of the approver.
        name: SubjectToken,
    },
    /// Program that publishes policy, modes and beacons.
    PolicySigner,
    /// Program that reads all ledgers.
    Auditor,
    /// Program that creates the streams and reads enrolment requests.
    Administrator,
}

/// Subjects that a role may use. Every other subject is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects that it may publish to.
    pub publish: Vec<String>,
    /// Subjects that it may subscribe to; with a queue group after a space.
    pub subscribe: Vec<String>,
}

impl Role {
    /// Returns the name of the user, which is also the token of its inbox.
    pub fn user(&self) -> String {
        match self {
            Role::Host { host, .. } => format!("host-{host}"),
            Role::Invited { host, .. } => format!("invited-{host}"),
            Role::Orchestrator { name } => format!("orchestrator-{name}"),
            Role::Approver { name } => format!("approver-{name}"),
            Role::PolicySigner => "signer".to_owned(),
            Role::Auditor => "auditor".to_owned(),
            Role::Administrator => "administrator".to_owned(),
        }
    }

    /// Returns the permissions.
    pub fn permissions(&self) -> Permissions {
        let inbox = format!("{}.>", Subjects::inbox(&self.user()));
        let (publish, mut subscribe) = match self {
            Role::Host { host, group } => host_permissions(host, group),
            Role::Invited { host, invitation } => (vec![Subjects::enrolment(host, invitation)], vec![]),
            Role::Orchestrator { name } => (
                vec![
                    Subjects::call("*", name.as_str()),
                    Subjects::place("*", name.as_str()),
                    format!("sinew.v1.ctl.*.cancel.{name}"),
                ],
                vec![format!("sinew.v1.reply.{name}.>")],
            ),
            Role::Approver { name } => (vec![format!("sinew.v1.ctl.*.decide.{name}")], vec![]),
            Role::PolicySigner => (
                [
                    "sinew.v1.policy.*",
                    "sinew.v1.pointer.*",
                    Subjects::MODE,
                    Subjects::BEACON,
                    "$JS.API.DIRECT.GET.POLICY.>",
                    "$JS.API.DIRECT.GET.MODE.>",
                ]
                .map(str::to_owned)
                .into(),
                vec![Subjects::ALL_BEATS.to_owned()],
            ),
            Role::Auditor => {
                let streams = (0..PARTITIONS).map(Subjects::ledger_stream);
                let mut publish: Vec<_> = streams.map(|name| format!("$JS.API.DIRECT.GET.{name}")).collect();
                publish.push("sinew.v1.fleet.receipt.*".to_owned());
                (publish, vec![Subjects::ALL_BEATS.to_owned()])
            }
            Role::Administrator => (
                ["CREATE", "UPDATE", "INFO"]
                    .map(|verb| format!("$JS.API.STREAM.{verb}.*"))
                    .into_iter()
                    .chain(["$JS.API.DIRECT.GET.ENROL.>".to_owned()])
                    .collect(),
                vec![Subjects::ALL_BEATS.to_owned()],
            ),
        };
        subscribe.push(inbox);
        Permissions { publish, subscribe }
    }
}

fn host_permissions(host: &SubjectToken, group: &SubjectToken) -> (Vec<String>, Vec<String>) {
    let ledger = Subjects::ledger(host);
    let stream = Subjects::ledger_stream(host.partition());
    let publish = vec![
        Subjects::beat(host),
        format!("sinew.v1.ask.{host}.*"),
        format!("sinew.v1.reply.*.{host}.>"),
        // A direct get by subject returns the last message on that subject and nothing else.
        Subjects::direct_get(&stream, &ledger),
        Subjects::direct_get("POLICY", &Subjects::policy(group)),
        Subjects::direct_get("POLICY", &Subjects::pointer(group)),
        Subjects::direct_get("MODE", Subjects::MODE),
        ledger,
    ];
    let subscribe = vec![
        Subjects::call(host.as_str(), "*"),
        format!("sinew.v1.ctl.{host}.>"),
        format!("{} {}", Subjects::place("*", "*"), Subjects::PLACE_QUEUE),
        Subjects::FLEET.to_owned(),
    ];
    (publish, subscribe)
}

/// Returns true if a pattern of NATS matches a subject.
#[cfg(test)]
fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(expected), Some(found)) if expected == found => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> SubjectToken {
        text.parse().unwrap()
    }

    fn all_roles() -> [Role; 7] {
        [
            Role::Host { host: token("a"), group: token("laptops") },
            Role::Invited { host: token("a"), invitation: token("1") },
            Role::Orchestrator { name: token("me") },
            Role::Approver { name: token("me") },
            Role::PolicySigner,
            Role::Auditor,
            Role::Administrator,
        ]
    }

    fn may_publish(role: &Role, subject: &str) -> bool {
        role.permissions().publish.iter().any(|pattern| matches(pattern, subject))
    }

    fn may_subscribe(role: &Role, subject: &str) -> bool {
        let queues = role.permissions().subscribe;
        let mut patterns = queues.iter().filter_map(|entry| entry.split(' ').next());
        patterns.any(|pattern| matches(pattern, subject))
    }

    #[test]
    fn host_reaches_only_its_own_subjects() {
        let (a, b) = (token("a"), token("b"));
        let host = Role::Host { host: a.clone(), group: token("laptops") };
        for own in [Subjects::ledger(&a), Subjects::beat(&a), Subjects::reply("me", "a", "n")] {
            assert!(may_publish(&host, &own), "{own}");
        }
        for foreign in [
            Subjects::ledger(&b),
            Subjects::beat(&b),
            Subjects::reply("me", "b", "n"),
            Subjects::call("b", "a"),
            Subjects::call("a", "a"),
            Subjects::place("gpu", "a"),
            Subjects::policy(&token("laptops")),
            Subjects::MODE.to_owned(),
            Subjects::BEACON.to_owned(),
            Subjects::enrolment(&a, &token("1")),
            Subjects::direct_get(&Subjects::ledger_stream(b.partition()), &Subjects::ledger(&b)),
            Subjects::direct_get("POLICY", &Subjects::policy(&token("servers"))),
            format!("$JS.API.DIRECT.GET.{}", Subjects::ledger_stream(a.partition())),
            format!("$JS.API.STREAM.PURGE.{}", Subjects::ledger_stream(a.partition())),
        ] {
            assert!(!may_publish(&host, &foreign), "{foreign}");
        }
        for foreign in [
            Subjects::call("b", "me"),
            Subjects::reply("me", "a", "n"),
            Subjects::beat(&b),
            Subjects::ledger(&b),
            format!("{}.x", Subjects::inbox("host-b")),
            "_INBOX.x".to_owned(),
        ] {
            assert!(!may_subscribe(&host, &foreign), "{foreign}");
        }
        assert!(may_subscribe(&host, &Subjects::call("a", "me")));
        assert!(may_subscribe(&host, &format!("{}.x.y", Subjects::inbox("host-a"))));
    }

    #[test]
    fn no_role_has_more_than_its_table() {
        for role in all_roles() {
            let Permissions { publish, subscribe } = role.permissions();
            // An empty list of NATS allows everything.
            assert!(!publish.is_empty() && !subscribe.is_empty(), "{role:?}");
            for pattern in publish.iter().chain(&subscribe) {
                assert!(
                    ![">", "*", "$JS.>", "$JS.API.>", "sinew.>", "sinew.v1.>"].contains(&pattern.as_str())
                );
                for api in
                    ["STREAM.MSG.GET", "STREAM.PURGE", "STREAM.DELETE", "STREAM.MSG.DELETE", "CONSUMER"]
                {
                    assert!(!pattern.contains(api), "{role:?}: {pattern}");
                }
            }
            let is_signer = role == Role::PolicySigner;
            assert_eq!(may_publish(&role, Subjects::MODE), is_signer, "{role:?}");
            assert_eq!(may_publish(&role, "sinew.v1.policy.laptops"), is_signer, "{role:?}");
            let is_host = matches!(role, Role::Host { .. });
            assert_eq!(may_publish(&role, &Subjects::ledger(&token("a"))), is_host, "{role:?}");
            let calls = matches!(role, Role::Orchestrator { .. });
            assert_eq!(may_publish(&role, &Subjects::call("a", "me")), calls, "{role:?}");
        }
        assert!(!may_publish(&Role::Orchestrator { name: token("me") }, &Subjects::call("a", "you")));
        assert!(!may_subscribe(&Role::Orchestrator { name: token("me") }, &Subjects::reply("you", "a", "n")));
    }

    #[test]
    fn patterns_match_like_nats() {
        for (pattern, subject, expect) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a", "a.b", false),
        ] {
            assert_eq!(matches(pattern, subject), expect, "{pattern} {subject}");
        }
    }
}
