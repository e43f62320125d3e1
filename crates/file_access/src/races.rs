//! Races: a thread exchanges what a name leads to while it is opened, read and written. The test permits
//! canonical names in the workspace, as governance would, and nothing outside may be touched.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tool::definition::PathAccess;

use crate::testing::WorkspaceFixture;
use crate::{ContentPrecondition, ObjectKind, OpenedPath};

/// Minimum number of exchanges per race; more than 10^5 over all races.
const EXCHANGES: u64 = 26_000;

/// Number of exchanges between two undisturbed attempts.
const BURST: u64 = 100;

/// Two names in the workspace that are exchanged repeatedly: a real object, and a link out of the workspace.
struct NameSwapRace<'a> {
    world: &'a WorkspaceFixture,
    names: [PathBuf; 2],
    target: &'a str,
    exchanges: AtomicU64,
    attempts: AtomicU64,
    stop: AtomicU64,
}

impl NameSwapRace<'_> {
    /// Exchanges the names in bursts. After each burst it waits for one undisturbed attempt, alternately with
    /// the real object and with the link, so that both cases are seen under any scheduling.
    fn run(&self) {
        for round in 0_u64.. {
            for _ in 0..BURST {
                self.exchange();
            }
            let leads_outside = round % 2 == 1;
            if fs::symlink_metadata(&self.names[0]).is_ok_and(|found| found.is_symlink() != leads_outside) {
                self.exchange();
            }
            let seen = self.attempts.load(SeqCst);
            while self.attempts.load(SeqCst) < seen + 2 {
                if self.stop.load(SeqCst) > 0 {
                    return;
                }
                std::thread::yield_now();
            }
        }
    }

    fn exchange(&self) {
        let [first, second] = &self.names;
        if renameat_with(CWD, first, CWD, second, RenameFlags::EXCHANGE).is_ok() {
            self.exchanges.fetch_add(1, SeqCst);
        }
        // A reverted write may replace the link between two exchanges; then the race continues with a new
        // one.
        if !self.names.iter().any(|name| name.is_symlink()) {
            let _ = fs::remove_file(second);
            let _ = std::os::unix::fs::symlink(self.target, second);
        }
    }
}

/// Runs `attempt` at least `times` times while the names are exchanged.
fn race(fixture: &WorkspaceFixture, names: [&str; 2], target: &str, times: u64, attempt: impl Fn(u64)) {
    fixture.link(&format!("ws/{}", names[1]), target);
    let names = names.map(|name| fixture.path("ws").join(name));
    let (exchanges, attempts, over) = <(AtomicU64, AtomicU64, AtomicU64)>::default();
    let race = NameSwapRace { world: fixture, names, target, exchanges, attempts, stop: over };
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(|| race.run());
        let _end = StopOnDrop(&race.stop);
        while race.attempts.load(SeqCst) < times || race.exchanges.load(SeqCst) < EXCHANGES {
            attempt(race.attempts.fetch_add(1, SeqCst));
            assert!(Instant::now() < deadline, "no race: {} exchanges", race.exchanges.load(SeqCst));
        }
    });
    assert_eq!(race.world.names("outside"), ["secret"]);
    assert_eq!(race.world.content("outside/secret"), "secret");
}

/// Stops the racing thread even if an attempt panics; otherwise the scope would wait forever.
struct StopOnDrop<'a>(&'a AtomicU64);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(1, SeqCst);
    }
}

/// Opens a path and returns it if governance would permit it.
fn permitted(fixture: &WorkspaceFixture, text: &str, access: PathAccess) -> Option<OpenedPath> {
    let opened = fixture.try_open(text, access).unwrap();
    opened.canonical().starts_with(fixture.path("ws")).then_some(opened)
}

#[test]
fn read_content_matches_the_judged_name() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/target", "inside");
    let (inside, outside) = <(AtomicU64, AtomicU64)>::default();
    race(&fixture, ["target", "swap"], "../outside/secret", 1000, |_| {
        let opened = fixture.read("target");
        if opened.kind() != ObjectKind::File {
            return;
        }
        let bytes = opened.read_range(0, 100).unwrap().bytes;
        let is_inside = opened.canonical().starts_with(fixture.path("ws"));
        assert_eq!(bytes == b"inside", is_inside, "{:?}", opened.canonical());
        if is_inside { &inside } else { &outside }.fetch_add(1, SeqCst);
    });
    assert!(inside.into_inner() > 0 && outside.into_inner() > 0, "both must have been seen");
}

#[test]
fn folder_swapped_for_a_link_leaks_nothing() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/folder/secret", "inside the folder");
    let (read, listed) = <(AtomicU64, AtomicU64)>::default();
    race(&fixture, ["folder", "swap"], "../outside", 1000, |_| {
        if let Some(opened) = permitted(&fixture, "folder/secret", PathAccess::Read)
            && opened.kind() == ObjectKind::File
        {
            assert_eq!(opened.read_range(0, 100).unwrap().bytes, b"inside the folder");
            read.fetch_add(1, SeqCst);
        }
        if let Some(folder) = permitted(&fixture, "folder", PathAccess::Read)
            && folder.kind() == ObjectKind::Directory
        {
            assert_eq!(folder.list(10).unwrap().entries[0].size, Some(17));
            listed.fetch_add(1, SeqCst);
        }
    });
    assert!(read.into_inner() > 0 && listed.into_inner() > 0, "the racer must not have won every time");
}

#[test]
fn write_never_lands_outside() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/target", "inside");
    let written = AtomicU64::new(0);
    race(&fixture, ["target", "swap"], "../outside/secret", 200, |round| {
        let Some(opened) = permitted(&fixture, "target", PathAccess::Write) else { return };
        let new = format!("inside {round}");
        let done =
            opened.replace(new.as_bytes(), &ContentPrecondition::Anything, &fixture.recorder()).is_ok();
        written.fetch_add(u64::from(done), SeqCst);
    });
    let leftovers: Vec<String> =
        fixture.names("ws").into_iter().filter(|name| name.starts_with(".sinew-tmp-")).collect();
    assert_eq!(leftovers, [""; 0], "no temporary name survives");
    assert!(written.into_inner() > 0, "the racer must not have won every time");
}

#[test]
fn write_into_a_swapped_folder_never_lands_outside() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/folder/secret", "inside");
    let (replaced, created) = <(AtomicU64, AtomicU64)>::default();
    race(&fixture, ["folder", "swap"], "../outside", 200, |round| {
        let new = format!("new{round}");
        for (text, expected, count) in [
            ("secret", ContentPrecondition::Anything, &replaced),
            (new.as_str(), ContentPrecondition::Absent, &created),
        ] {
            let Some(opened) = permitted(&fixture, &format!("folder/{text}"), PathAccess::Write) else {
                continue;
            };
            count.fetch_add(
                u64::from(opened.replace(b"inside", &expected, &fixture.recorder()).is_ok()),
                SeqCst,
            );
        }
    });
    assert!(replaced.into_inner() > 0 && created.into_inner() > 0, "the racer must not have won every time");
}

#[test]
fn created_folders_never_lead_outside() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/new/secret", "inside");
    let made = AtomicU64::new(0);
    race(&fixture, ["new", "swap"], "../outside", 200, |round| {
        let Some(opened) = permitted(&fixture, &format!("new/{round}/file"), PathAccess::Write) else {
            return;
        };
        let done = opened.replace_with_folders(b"inside", &ContentPrecondition::Absent, &fixture.recorder());
        made.fetch_add(u64::from(done.is_ok()), SeqCst);
    });
    assert!(made.into_inner() > 0, "the racer must not have won every time");
}
