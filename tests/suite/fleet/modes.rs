//! Fleet lockdown, lease and the lost fleet.

use tests::{Daemon, Home, wait_until};

use super::bench::{Fleet, mode, wait_for_status};

#[test]
fn lockdown_is_confirmed_and_lifted() {
    let Some(fleet) = Fleet::start() else { return };
    let daemons = [fleet.host("web-1"), fleet.host("web-2")];
    let reply =
        fleet.sinew(&["fleet", "lockdown", "--reason", "drill", "--seconds", "15", "--json"]).must_exit(0);
    assert_eq!(reply.json()["confirmed"], serde_json::json!(["web-1", "web-2"]), "{reply}");
    for daemon in &daemons {
        assert_eq!(mode(daemon), "LOCKDOWN");
        let refused = daemon.home().run(&["mode", "set", "RECOVERY"]).must_exit(1);
        assert!(refused.stderr().contains("the fleet has set LOCKDOWN"), "{refused}");
    }
    // A host that was away follows when it connects, and one that restarts stays.
    let [first, second] = daemons;
    let home = second.crash();
    let second = Daemon::start_in(home);
    assert_eq!(mode(&second), "LOCKDOWN");
    let home = first.stop();
    fleet.sinew(&["fleet", "mode", "normal", "--seconds", "15"]).must_exit(1);
    wait_until("the second host to return to its mode", || mode(&second) == "NORMAL");
    let first = Daemon::start_in(home);
    wait_until("the first host to follow", || mode(&first) == "NORMAL");
    let changes: Vec<_> =
        first.home().records().into_iter().filter(|record| record["kind"] == "mode").collect();
    assert!(changes.iter().all(|change| change["by"] == "fleet acme"), "{changes:?}");
    assert_eq!((&changes[0]["to"], &changes[0]["reason"]), (&"LOCKDOWN".into(), &"drill".into()));
}

#[test]
fn local_lockdown_outlives_a_restart_and_that_of_the_fleet() {
    let Some(fleet) = Fleet::start() else { return };
    let daemon = fleet.host("web-1");
    fleet.sinew(&["fleet", "lockdown", "--seconds", "15"]).must_exit(0);
    daemon.home().run(&["lockdown"]).must_exit(0);
    let remembered = daemon.home().root().join("state/fleet/host.json");
    wait_until("the local lockdown to be stored", || {
        std::fs::read_to_string(&remembered).is_ok_and(|text| text.contains("\"local_mode\": \"LOCKDOWN\""))
    });
    let daemon = Daemon::start_in(daemon.crash());
    wait_for_status(&daemon, "the host to connect", |status| status["connection"] == "connected");
    fleet.sinew(&["fleet", "mode", "normal", "--seconds", "15"]).must_exit(0);
    wait_for_status(&daemon, "the end of the restriction", |status| status["fleet_mode"] == "NORMAL");
    assert_eq!(mode(&daemon), "LOCKDOWN");
}

#[test]
fn lost_fleet_locks_down_where_configured() {
    let Some(mut fleet) = Fleet::start() else { return };
    let home = Home::initialised().without_automatic_modes();
    fleet.enrol("web-1", &home);
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("settings");
    let changed =
        settings.replace("name: acme\n", "name: acme\n  lease_seconds: 10\n  on_lost_fleet: lockdown\n");
    assert_ne!(settings, changed);
    home.configure("sinew.yaml", &changed);
    let beacon = fleet.beacon();
    let daemon = Daemon::start_in(home);
    // Longer than the lease: only beacons hold it.
    let begun = std::time::Instant::now();
    wait_until("the lease to be held by beacons", || begun.elapsed().as_secs() >= 12);
    assert_eq!(mode(&daemon), "NORMAL");
    fleet.kill_server();
    wait_until("the host to lock down", || mode(&daemon) == "LOCKDOWN");
    let doctor = daemon.home().run(&["fleet", "doctor"]).must_exit(1);
    assert!(doctor.stderr().contains("the lease is lost"), "{doctor}");
    drop(beacon);
    fleet.start_server();
    let _beacon = fleet.beacon();
    wait_for_status(&daemon, "the lease to return", |status| status["lease_held"] == true);
    wait_until("the local mode to return", || mode(&daemon) == "NORMAL");
}
