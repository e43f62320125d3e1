//! Names that another process exchanges while every file tool works on them: no byte outside the workspace is
//! read or changed.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use tests::{Campaign, Client, Daemon, Home, Random};

/// Text that only files outside the workspace contain.
const CANARY: &str = "xqoutsidezq";
/// Calls between two looks at the outside.
const CALLS: u64 = 60;
const QUICK_SWAPS: u64 = 2_000;

/// State of the folder outside: name, content, inode and modification time of everything.
fn outside_state(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u64, i64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the outside stays") {
            let path = entry.expect("an entry").path();
            let facts = path.symlink_metadata().expect("facts");
            let content = if facts.is_file() { std::fs::read(&path).expect("a file") } else { Vec::new() };
            if facts.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, (content, facts.ino(), facts.mtime() * 1_000_000_000 + facts.mtime_nsec()));
        }
    }
    found
}

/// Pair of names that are exchanged: an object of the workspace, and a link that leads outside.
struct Pair {
    inside: PathBuf,
    link: PathBuf,
    target: PathBuf,
    is_folder: bool,
}

impl Pair {
    /// Exchanges the two names. Creates again what a tool removed.
    fn swap(&self) {
        if renameat_with(CWD, &self.inside, CWD, &self.link, RenameFlags::EXCHANGE).is_ok() {
            return;
        }
        if self.link.symlink_metadata().is_err() {
            let _ = symlink(&self.target, &self.link);
        }
        // Creates only what is not there, so that this process itself follows no link.
        let file = if self.is_folder && std::fs::create_dir(&self.inside).is_err() {
            return;
        } else if self.is_folder {
            self.inside.join("f")
        } else {
            self.inside.clone()
        };
        let _ = std::fs::File::create_new(file).and_then(|mut file| file.write_all(b"inside"));
    }
}

fn call(random: &mut Random) -> (&'static str, Value) {
    let folder = *random.pick(&["slot", "slot/deep", "."]);
    let file = *random.pick(&["slot/f", "file", "slot/deep/f", "slot/new", "link", "other"]);
    let name = format!("slot/{}", random.below(1000));
    match random.below(10) {
        0 => ("read_file", json!({"path": file})),
        1 => ("list_directory", json!({"path": folder})),
        2 => ("search_files", json!({"path": folder, "query": "xq"})),
        3 => ("write_file", json!({"path": file, "content": "changed"})),
        4 => ("write_file", json!({"path": file, "content": "more", "mode": "append"})),
        5 => ("write_file", json!({"path": format!("{name}/f"), "content": "x", "create_dirs": true})),
        6 => ("edit_file", json!({"path": file, "edits": [{"old_text": "xq", "new_text": "y"}]})),
        7 => ("delete_file", json!({"path": file})),
        8 => ("delete_file", json!({"path": folder, "recursive": true})),
        _ => ("create_directory", json!({"path": name})),
    }
}

/// Calls tools until the campaign looks at the outside. No result contains the canary.
fn run_agent(agent: &mut Client, mut random: Random) {
    for _ in 0..CALLS {
        let (tool, arguments) = call(&mut random);
        let result = agent.execute(tool, &arguments);
        assert!(!result.to_string().contains(CANARY), "{tool} {arguments}: {result}");
    }
}

#[test]
fn soak_exchanged_names_never_lead_a_file_tool_outside() {
    let home = Home::initialised().without_rate_limits().without_automatic_modes();
    let (work, outside) =
        (home.workspace(), home.user_home().canonicalize().expect("a home").join("outside"));
    std::fs::create_dir_all(outside.join("deep")).expect("folders");
    for name in ["f", "deep/f", "new"] {
        std::fs::write(outside.join(name), CANARY).expect("a file");
    }
    let pair = |inside: &str, link: &str, target: &Path, is_folder| Pair {
        inside: work.join(inside),
        link: work.join(link),
        target: target.to_owned(),
        is_folder,
    };
    let pairs = [pair("slot", "other", &outside, true), pair("file", "link", &outside.join("f"), false)];
    let daemon = Daemon::start_in(home);
    let before = outside_state(&outside);
    let (mut campaign, swaps, mut calls) = (Campaign::start(u64::MAX), AtomicU64::new(0), 0);
    while campaign.goes_on(swaps.load(Ordering::Relaxed))
        && (campaign.is_long() || swaps.load(Ordering::Relaxed) < QUICK_SWAPS)
        && let Some(round) = campaign.next_round()
    {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for pair in &pairs {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        pair.swap();
                        swaps.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut random = campaign.random(round);
            let agents = [random.fork(), random.fork()]
                .map(|random| scope.spawn(|| run_agent(&mut daemon.agent(), random)));
            let ended = agents.map(std::thread::ScopedJoinHandle::join);
            over.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok), "round {round}: a result came from outside");
        });
        calls += 2 * CALLS;
        assert_eq!(outside_state(&outside), before, "round {round}: something outside was changed");
        clear(&work);
    }
    let swaps = swaps.into_inner();
    let records = daemon.stop().records();
    let done = records.iter().filter(|record| record["outcome"] == "done").count();
    assert!(done > 0, "no call succeeded beside the exchanges");
    campaign
        .finish(swaps, &format!("{calls} calls of every file tool, {done} of them done; no byte outside"));
}

/// Empties the workspace, so that it does not grow.
fn clear(work: &Path) {
    for entry in std::fs::read_dir(work).expect("a workspace").flatten() {
        let path = entry.path();
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
}
