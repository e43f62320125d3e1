//! `system_metrics_snapshot` on this machine: values where available, reasons elsewhere.

use serde_json::json;
use tests::Daemon;

#[test]
fn snapshot_has_values_or_reasons() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let first = agent.execute("system_metrics_snapshot", &json!({}));
    assert_eq!(first["success"], true, "{first}");
    let seen = &first["output"];
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(seen["cpu"]["cores"].as_u64().unwrap() as usize >= cores, "{seen}");
    assert_eq!(seen["cpu"]["per_core_percent"].as_array().unwrap().len() as u64, seen["cpu"]["cores"]);
    assert!(seen["cpu"]["total_percent"].is_f64());
    let memory = &seen["memory"];
    let sum = memory["available_bytes"].as_u64().unwrap() + memory["used_bytes"].as_u64().unwrap();
    assert_eq!(memory["total_bytes"], sum);
    assert!([1.0, 2.0, 4.0].contains(&seen["pressure"]["memory_level"].as_f64().unwrap()), "{seen}");
    assert!(seen["load"]["one"].is_f64() && seen["swap"]["total_bytes"].is_u64());
    for name in ["disks", "network", "temperatures", "gpu", "memory", "load"] {
        let is_null = seen[name].is_null();
        let reason = seen["unavailable"][name].as_str();
        assert_eq!(is_null, reason.is_some_and(|reason| !reason.is_empty()), "{name}: {seen}");
    }
    // The second snapshot comes from the cache: no caller waits for a measurement.
    let again = agent.execute("system_metrics_snapshot", &json!({}));
    assert_eq!(again["success"], true);
    let first_at = first["output"]["taken_at"].as_str().unwrap();
    assert!(again["output"]["taken_at"].as_str().unwrap() >= first_at, "{again}");
    assert!(again["output"]["age_ms"].as_u64().unwrap() < 20_000, "{again}");
}

#[test]
fn read_only_system_tools_work_in_every_mode() {
    let daemon = Daemon::start();
    for mode in ["ALERT", "LOCKDOWN", "RECOVERY"] {
        daemon.home().run(&["mode", "set", mode, "--reason", "a test"]).must_exit(0);
        for (tool, arguments) in
            [("system_metrics_snapshot", json!({})), ("check_process_health", json!({"pid": 1}))]
        {
            let result = daemon.agent().execute(tool, &arguments);
            assert_eq!(result["success"], true, "{mode}: {result}");
        }
    }
}
