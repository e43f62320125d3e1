//! Hop budgets and cost caps: counted per turn and per session, never by values from the worker.

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::{events, open, worker};

/// Home in which one call of `read_file` costs this much.
fn home(cost: f64) -> Home {
    let home = Home::initialised();
    let rules = format!("tools:\n  read_file:\n    allowed_in_modes: [NORMAL]\n    cost_per_call: {cost}\n");
    home.configure("governance/tools.yaml", &rules);
    home.file("a.txt", "a");
    home
}

/// Results of so many calls: `done`, or the code of the refusal.
fn calls(worker: &mut Client, count: usize) -> Vec<String> {
    let call = |worker: &mut Client| {
        let result = worker.execute("read_file", &json!({"path": "a.txt"}));
        let code = result["metadata"]["refusal"]["code"].as_str().map(str::to_owned);
        code.unwrap_or_else(|| {
            assert_eq!(result["success"], true, "{result}");
            "done".to_owned()
        })
    };
    (0..count).map(|_| call(worker)).collect()
}

fn capped(orchestrator: &mut Client, mode: &str, amount: f64) -> Value {
    let cap = json!({"mode": mode, "amount": amount});
    open(orchestrator, &json!({"allowlist": ["read_file"], "hop_budget": 5, "cost_cap": cap}))
}

#[test]
fn cost_cap_warns_once_or_ends_the_turn_by_mode() {
    let daemon = Daemon::start_in(home(0.5));
    let mut orchestrator = daemon.agent();
    let stop = "cost_cap_exceeded";
    for (mode, amount, expect, warnings) in [
        ("warn", 1.0, ["done", "done", "done", "done"], 1),
        ("loud", 1.0, ["done", "done", "done", "done"], 1),
        // Two calls cost exactly the cap, which does not exceed it. The third exceeds it, the fourth is refused.
        ("enforce", 1.0, ["done", "done", "done", stop], 0),
        ("enforce", 0.4, ["done", stop, stop, stop], 0),
        ("enforce", 0.0, ["done", "done", "done", "done"], 0),
        ("enforce", -1.0, ["done", "done", "done", "done"], 0),
        ("off", 0.1, ["done", "done", "done", "done"], 0),
    ] {
        let session = capped(&mut orchestrator, mode, amount);
        assert_eq!(calls(&mut worker(&session), 4), expect, "{mode} {amount}");
        let warned = events(&daemon, &session, "worker_tool_cost_warning");
        assert_eq!(warned.len(), warnings, "{mode} {amount}: {warned:?}");
        orchestrator.request("sinew/session.close", &json!({"session_id": session["session_id"]}));
    }
    let session = capped(&mut orchestrator, "warn", 0.6);
    let mut worker = worker(&session);
    calls(&mut worker, 1);
    let over = worker.execute("read_file", &json!({"path": "a.txt"}));
    let cap = &over["metadata"]["session"]["cost_cap"];
    assert_eq!(
        (&cap["exceeded"], &over["metadata"]["session"]["cost"]),
        (&json!(true), &json!(1.0)),
        "{over}"
    );
    assert!(cap["operator_prompt"].is_string() && over["metadata"]["remaining"]["cost"] == 0.0, "{over}");
}

#[test]
fn model_cost_counts_as_reported_by_the_orchestrator() {
    let daemon = Daemon::start_in(home(0.0));
    let mut orchestrator = daemon.agent();
    let session = capped(&mut orchestrator, "enforce", 1.0);
    let id = &session["session_id"];
    let mut worker = worker(&session);
    assert_eq!(calls(&mut worker, 1), ["done"]);
    let spent = orchestrator.request("sinew/session.spend", &json!({"session_id": id, "cost": 1.5}));
    assert_eq!(spent["result"]["cost"], 1.5, "{spent}");
    assert_eq!(calls(&mut worker, 1), ["cost_cap_exceeded"]);
    for wrong in [json!(-1), json!("1"), json!(null)] {
        let refused = orchestrator.request("sinew/session.spend", &json!({"session_id": id, "cost": wrong}));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let turn = orchestrator.request("sinew/session.turn", &json!({"session_id": id}));
    assert_eq!(
        (&turn["result"]["turn"], &turn["result"]["remaining"]["cost"]),
        (&json!(2), &json!(1.0)),
        "{turn}"
    );
    assert_eq!(calls(&mut worker, 1), ["done"], "each turn begins anew");
}

#[test]
fn turns_reset_budgets_and_sessions_do_not_share() {
    let daemon = Daemon::start_in(home(0.0));
    let mut orchestrator = daemon.agent();
    let terms = json!({"allowlist": ["read_file"]});
    let (one, two) = (open(&mut orchestrator, &terms), open(&mut orchestrator, &terms));
    let (mut first, mut again, mut second) = (worker(&one), worker(&one), worker(&two));
    let over = "hop_budget_exhausted";
    assert_eq!(calls(&mut first, 1), ["done"]);
    assert_eq!(calls(&mut again, 2), ["done", over], "another connection is the same session");
    assert_eq!(calls(&mut first, 2), [over, over]);
    assert_eq!(calls(&mut second, 3), ["done", "done", over], "another session has its own budget");
    orchestrator.request("sinew/session.turn", &json!({"session_id": one["session_id"]}));
    assert_eq!(calls(&mut again, 3), ["done", "done", over]);
    assert_eq!(calls(&mut second, 1), [over], "and its own turns");
    // The orchestrator is no worker and has no budget.
    assert_eq!(calls(&mut orchestrator, 5), ["done"; 5]);
}

#[test]
fn budget_and_cost_are_checked_before_the_allowlist() {
    let daemon = Daemon::start_in(home(2.0));
    let mut orchestrator = daemon.agent();
    let code = |worker: &mut Client| {
        worker.execute("write_file", &json!({"wrong": 1}))["metadata"]["refusal"]["code"].clone()
    };
    let session = open(&mut orchestrator, &json!({"allowlist": ["read_file"], "hop_budget": 1}));
    let mut one = worker(&session);
    assert_eq!(code(&mut one), "not_in_allowlist");
    assert_eq!(code(&mut one), "hop_budget_exhausted", "no call is left, whatever it names");
    let mut costly = worker(&capped(&mut orchestrator, "enforce", 1.0));
    assert_eq!(calls(&mut costly, 1), ["done"]);
    assert_eq!(code(&mut costly), "cost_cap_exceeded", "no money is left, whatever it names");
}
