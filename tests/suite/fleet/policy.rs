//! Policy bundles: applied by the ordinary reload, and never older, foreign or unsigned ones.

use fleet::link::{ConnectionSettings, FleetConnection};
use fleet::servers::Role;
use fleet::{Purpose, Signed, SigningKey, Subjects};
use tests::{Daemon, Home, SinewRun};

use super::bench::{Fleet, wait_for_status};

/// Policy file that adds one rule to the built-in ones.
fn policy(fleet: &Fleet, name: &str, text: &str) -> String {
    let folder = fleet.operator.workspace().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("tools.yaml"), text).expect("a policy file");
    folder.display().to_string()
}

fn with_fresh_home(fleet: &Fleet) -> Daemon {
    let home = Home::new();
    home.run(&["init"]).must_exit(0);
    home.run(&["workspace", "add", &home.workspace().display().to_string()]).must_exit(0);
    fleet.enrol("web-1", &home);
    let daemon = Daemon::start_in(home);
    wait_for_status(&daemon, "the host to connect", |status| status["connection"] == "connected");
    daemon
}

const STRICT: &str = "tools:\n  write_file: {rate_limit_per_hour: 0}\n";
const LOOSE: &str = "tools:\n  write_file: {rate_limit_per_hour: 50}\n";

fn call(daemon: &Daemon) -> SinewRun {
    daemon.home().run(&["call", "write_file", "path=file.txt", "content=x"])
}

#[test]
fn tightening_applies_and_loosening_waits() {
    let Some(fleet) = Fleet::start() else { return };
    let daemon = with_fresh_home(&fleet);
    fleet.sinew(&["fleet", "policy", "push", &policy(&fleet, "strict", STRICT)]).must_exit(0);
    wait_for_status(&daemon, "the policy to be in effect", |status| {
        status["policy"] == 1 && status["policy_state"] == "in effect"
    });
    fleet.sinew(&["fleet", "policy", "push", &policy(&fleet, "loose", LOOSE)]).must_exit(0);
    wait_for_status(&daemon, "the loosening to wait", |status| {
        status["policy"] == 2
            && status["policy_state"].as_str().is_some_and(|text| text.contains("waits for the operator"))
    });
    let report = fleet.sinew(&["fleet", "policy", "status", "--json"]).must_exit(0).json();
    assert_eq!((&report["revision"], &report["hosts"][0]["policy"]), (&2.into(), &2.into()), "{report}");
    call(&daemon).must_exit(3);
    // A restart does not accept it either.
    let home = daemon.stop();
    std::fs::remove_file(home.root().join("state/fleet/status.json")).expect("the status before");
    let daemon = Daemon::start_in(home);
    wait_for_status(&daemon, "the loosening to wait after a restart", |status| {
        status["policy"] == 2
            && status["policy_state"].as_str().is_some_and(|text| text.contains("waits for the operator"))
    });
    let refused = call(&daemon).must_exit(3);
    assert!(refused.stderr().contains("write_file.rate_limit_per_hour"), "{refused}");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    call(&daemon).must_exit(0);
    // A policy that does not load is refused before it is signed.
    let broken = policy(&fleet, "broken", "tools:\n  write_file: {rate_limit_per_hors: 1}\n");
    fleet.sinew(&["fleet", "policy", "push", &broken]).must_exit(7);
}

#[test]
fn rollback_and_foreign_signatures_are_refused() {
    let Some(fleet) = Fleet::start() else { return };
    let daemon = with_fresh_home(&fleet);
    let folder = policy(&fleet, "strict", STRICT);
    for _ in 0..2 {
        fleet.sinew(&["fleet", "policy", "push", &folder]).must_exit(0);
    }
    wait_for_status(&daemon, "the second revision", |status| status["policy"] == 2);
    // The signer's connection key alone, as a server or a thief of it would have it: without the signing key.
    let keys = fleet.operator.workspace().join("keys");
    let seed = std::fs::read_to_string(keys.join("signer.key")).expect("a key").trim().to_owned();
    let yaml = std::fs::read_to_string(fleet.operator.workspace().join("fleet.yaml")).expect("a fleet file");
    let server = yaml.split('"').nth(1).expect("an address").to_owned();
    let settings =
        ConnectionSettings { servers: vec![server], ca_file: None, user: Role::PolicySigner.user(), seed };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let subject = Subjects::policy(&"default".parse().expect("a name"));
    let (first, second) = runtime.block_on(async {
        let connection = FleetConnection::open(&settings).await.expect("a connection");
        let body = connection.next("POLICY", &subject, 1).await;
        assert!(body.is_err(), "the signer may fetch the last message only");
        let last = connection.last("POLICY", &subject).await.expect("an answer").expect("a bundle");
        let mut older: serde_json::Value = serde_json::from_slice(&last.payload).expect("JSON");
        older["body"]["revision"] = 1.into();
        let signing = std::fs::read_to_string(keys.join("policy-1.key")).expect("a key");
        let signing = SigningKey::from_text(&signing).expect("a key");
        let rollback = signing.sign(Purpose::Bundle, &older["body"]).expect("signed").to_bytes();
        connection.store(&subject, (None, rollback.clone()), None).await.expect("stored");
        older["body"]["revision"] = 3.into();
        let stranger = SigningKey::from_seed(&[9; 32]).expect("a key");
        let foreign = stranger.sign(Purpose::Bundle, &older["body"]).expect("signed").to_bytes();
        (rollback, foreign)
    });
    assert!(Signed::parse(Purpose::Bundle, &first).is_ok());
    wait_for_status(&daemon, "the rollback to be refused", |status| {
        status["refused"].as_str().is_some_and(|text| text.contains("a rollback is a new, higher number"))
    });
    runtime.block_on(async {
        let connection = FleetConnection::open(&settings).await.expect("a connection");
        connection.store(&subject, (None, second), None).await.expect("stored");
    });
    let status = wait_for_status(&daemon, "the foreign signature to be refused", |status| {
        status["refused"].as_str().is_some_and(|text| text.contains("0 valid signatures"))
    });
    assert_eq!(status["policy"], 2);
    // A restart does not forget the revision.
    let home = daemon.crash();
    let daemon = Daemon::start_in(home);
    let status = wait_for_status(&daemon, "the host to refuse it again", |status| {
        status["refused"].as_str().is_some_and(|text| text.contains("0 valid signatures"))
    });
    assert_eq!(status["policy"], 2);
}
