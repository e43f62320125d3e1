//! Enrolment, presence, and a fleet whose servers do not answer.

use std::os::unix::fs::PermissionsExt;

use tests::{Daemon, Home};

use super::bench::{Fleet, status, wait_for_status};

#[test]
fn host_joins_with_a_token_that_works_once() {
    let Some(fleet) = Fleet::start() else { return };
    let (home, thief) = (Home::initialised(), Home::initialised());
    let token = fleet.invite("web-1");
    let joined = home.run(&["fleet", "join", &token]).must_exit(0);
    let stolen = thief.run(&["fleet", "join", &token]).must_exit(3);
    assert!(stolen.stderr().contains("has been used already"), "{stolen}");
    let wrong = fleet.sinew(&["fleet", "admit", "web-1", "--fingerprint", "0000-1111"]).must_exit(3);
    assert!(wrong.stderr().contains("not confirmed"), "{wrong}");
    let fingerprint = joined.stdout().trim().trim_start_matches("fingerprint ").to_owned();
    fleet.sinew(&["fleet", "admit", "web-1", "--fingerprint", &fingerprint]).must_exit(0);
    fleet.reload_server();
    for key in ["connection.key", "signing.key"] {
        let path = home.root().join("state/fleet").join(key);
        let mode = std::fs::metadata(&path).expect("a key").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
        let secret = std::fs::read_to_string(&path).expect("a key");
        let roster =
            std::fs::read_to_string(fleet.operator.workspace().join("roster.json")).expect("a roster");
        assert!(!roster.contains(secret.trim()), "no private key leaves the host");
    }
    let daemon = Daemon::start_in(home);
    wait_for_status(&daemon, "the host to connect", |status| status["connection"] == "connected");
    let hosts = fleet.sinew(&["fleet", "hosts", "--json", "--seconds", "20"]).must_exit(0).json();
    let host = &hosts["hosts"][0];
    assert_eq!(
        (&host["host"], &host["state"], &host["mode"]),
        (&"web-1".into(), &"present".into(), &"NORMAL".into())
    );
    assert!(host["head"].as_u64().is_some_and(|head| head > 0), "{hosts}");
    let home = daemon.stop();
    home.run(&["fleet", "leave"]).must_exit(0);
    assert!(!home.root().join("state/fleet/connection.key").exists());
    fleet.sinew(&["fleet", "remove", "web-1"]).must_exit(0);
}

#[test]
fn init_twice_changes_nothing() {
    let Some(fleet) = Fleet::start() else { return };
    let read = |name: &str| std::fs::read_to_string(fleet.operator.workspace().join(name)).expect("a file");
    let before = (read("nats.conf"), read("roster.json"));
    fleet.sinew(&["fleet", "init"]).must_exit(0);
    assert_eq!((read("nats.conf"), read("roster.json")), before);
    let printed = fleet.sinew(&["fleet", "init", "--print"]).must_exit(0).stdout();
    assert_eq!(printed.trim(), before.0.trim());
}

#[test]
fn daemon_serves_while_no_server_answers() {
    let Some(mut fleet) = Fleet::start() else { return };
    let home = Home::initialised();
    fleet.enrol("web-1", &home);
    fleet.kill_server();
    let daemon = Daemon::start_in(home);
    daemon.home().file("a.txt", "hello");
    daemon.home().run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    wait_for_status(&daemon, "the failure to be reported", |status| {
        status["connection"].as_str().is_some_and(|text| text.contains("no answer from the fleet server"))
    });
    let doctor = daemon.home().run(&["fleet", "doctor"]).must_exit(1);
    assert!(doctor.stderr().contains("not connected"), "{doctor}");
    fleet.start_server();
    wait_for_status(&daemon, "the host to connect", |status| status["connection"] == "connected");
    assert_eq!(status(&daemon)["fault"], serde_json::Value::Null);
}

#[test]
fn without_the_section_nothing_of_the_fleet_runs() {
    let home = Home::initialised();
    let doctor = home.run(&["fleet", "doctor"]).must_exit(1);
    assert!(doctor.stderr().contains("not a member of a fleet"), "{doctor}");
    let daemon = Daemon::start_in(home);
    assert!(!daemon.home().root().join("state/fleet").exists());
}

#[test]
fn member_without_the_section_does_not_connect() {
    let Some(fleet) = Fleet::start() else { return };
    let home = Home::initialised();
    fleet.enrol("web-1", &home);
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("settings");
    let (without, _) = settings.split_once("\nfleet:\n").expect("the section that `join` added");
    home.configure("sinew.yaml", &format!("{without}\n"));
    let daemon = Daemon::start_in(home);
    let hosts = fleet.sinew(&["fleet", "hosts", "--json", "--seconds", "17"]).must_exit(0).json();
    assert_ne!(hosts["hosts"][0]["state"], "present", "{hosts}");
    assert!(!daemon.home().root().join("state/fleet/status.json").exists());
}
