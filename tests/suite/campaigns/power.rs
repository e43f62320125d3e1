//! Power failures: of everything that was written, only what was synced is certain to survive, and any part of the
//! rest may. After each such cut the daemon starts, no acknowledged change is without its record, and no change
//! in the workspace is without its decision.
//!
//! `strace` lists what the daemon writes, syncs, renames and answers. Each cut is a moment in that list. The
//! files are put into a state that a journaling file system could leave. Contents are as of the last sync,
//! with any of the later writes, the last of which can be torn. Names are as of the last sync of a folder,
//! with some of the later changes in their order.

use std::collections::HashSet;

use serde_json::{Value, json};
use tests::{Campaign, Daemon, Home, Random, Strace};

use super::disk_model::{Disk, to_size};
use super::judged_paths;
use super::strace_log::{self, Event};

const TRACED: &str = "trace=openat,openat2,write,pwrite64,ftruncate,fallocate,fsync,fdatasync,rename,renameat,\
    renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,sendto";
/// Cuts of one recorded session.
const CUTS: u64 = 12;
const QUICK_CUTS: u64 = 3;

/// Records one session of calls. Returns the home, the disk before it, and the events.
fn record(random: &mut Random) -> Option<(Home, Disk, Vec<Event>)> {
    let home = Home::initialised().without_rate_limits().without_automatic_modes();
    (0..4).for_each(|number| drop(home.file(&format!("old-{number}"), "old")));
    let home = Daemon::start_in(home).stop();
    let roots = [home.root().join("state"), home.workspace()];
    let daemon = Daemon::start_debuggable(home);
    let log = daemon.home().workspace().with_file_name("strace.log");
    let words = ["-y", "-s", "1000000", "-e", TRACED];
    let strace = Strace::attach_with(daemon.pid(), &words, &log)?;
    let disk = Disk::read(&roots);
    let mut agent = daemon.agent();
    for number in 0..6 + random.below(6) {
        let old = format!("old-{}", random.below(4));
        let call = match random.below(5) {
            0 | 1 => ("write_file", json!({"path": format!("new-{number}"), "content": "n".repeat(9000)})),
            2 => ("write_file", json!({"path": old, "content": format!("changed {number}")})),
            3 => ("delete_file", json!({"path": old})),
            _ => ("create_directory", json!({"path": format!("folder-{number}")})),
        };
        agent.execute(call.0, &call.1);
    }
    drop(agent);
    let home = daemon.crash();
    drop(strace);
    let events = strace_log::parse(&std::fs::read_to_string(&log).expect("a log"));
    Some((home, disk, events))
}

/// Calls whose success was sent to the client before the cut.
fn acknowledged(events: &[Event]) -> Vec<Value> {
    let replies = events.iter().filter_map(|event| match event {
        Event::Reply { text } => serde_json::from_slice::<Value>(text).ok(),
        _ => None,
    });
    replies.map(|reply| reply["result"].clone()).filter(|result| result["success"] == true).collect()
}

/// Checks what a cut left, with a daemon that was started on it, against what was acknowledged.
fn check_cut(daemon: Daemon, events: &[Event], before: &HashSet<String>, context: &str) -> Home {
    let result = daemon.agent().execute("write_file", &json!({"path": "after", "content": "x"}));
    let modes: Vec<Value> = daemon.home().complete_records();
    let modes: Vec<&Value> = modes.iter().filter(|record| record["kind"] == "mode").collect();
    assert_eq!(result["success"], true, "{context}: {result}, after {modes:?}");
    let home = daemon.stop();
    let records = home.records();
    let decided: HashSet<&str> = records
        .iter()
        .filter(|record| tests::holds(record, "decision"))
        .filter_map(|record| record["call_id"].as_str())
        .collect();
    for result in acknowledged(events) {
        let id = result["metadata"]["call_id"].as_str().expect("an id");
        assert!(decided.contains(id), "{context}: acknowledged without a record: {result}");
    }
    let judged = judged_paths(&records);
    for entry in std::fs::read_dir(home.workspace()).expect("a workspace").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let changed =
            !before.contains(&name) || std::fs::read_to_string(&path).is_ok_and(|text| text != "old");
        assert!(!changed || judged.contains(&path), "{context}: an effect without a record: {name}");
        assert!(!name.starts_with(".sinew-tmp-"), "{context}: litter {name}");
    }
    let report = home.run(&["ledger", "verify", "--json"]).json();
    assert_eq!(report["intact"], true, "{context}: {report}");
    home
}

#[test]
fn soak_power_cuts_lose_no_record_of_an_acknowledged_change() {
    let mut campaign = Campaign::start(QUICK_CUTS);
    let (mut cuts, mut sessions, mut changes) = (0, 0, 0);
    while campaign.goes_on(cuts)
        && let Some(round) = campaign.next_round()
    {
        let mut random = campaign.random(round);
        let Some((mut home, disk, events)) = record(&mut random) else { return };
        let before: HashSet<String> = (0..4).map(|number| format!("old-{number}")).collect();
        changes += acknowledged(&events).len();
        for number in 0..CUTS {
            if !campaign.goes_on(cuts) {
                break;
            }
            let moment = to_size(random.below(events.len() as u64 + 1));
            let mut disk = disk.clone();
            events[..moment].iter().for_each(|event| disk.apply(event));
            disk.write_cut(&mut random);
            let context = format!("session {round}, cut {number} at event {moment} of {}", events.len());
            let boot_id = format!("{:08x}-0000-4000-8000-{:012x}", round, random.below(1 << 40));
            let Ok(daemon) = Daemon::start_after_reboot(home, &boot_id) else { return };
            home = check_cut(daemon, &events[..moment], &before, &context);
            cuts += 1;
        }
        sessions += 1;
    }
    let notes = format!("{sessions} sessions with {changes} acknowledged changes; none without a record");
    campaign.finish(cuts, &notes);
}
