//! A racer exchanges what a name leads to while it is opened, read and written. The judge's part is played by the
//! test: it permits what has a canonical name in the workspace, and nothing outside may then be touched.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tool::PathAccess;

use crate::testing::World;
use crate::{Expected, ObjectKind, OpenedPath};

/// Runs `work` some number of times while two names of the workspace keep changing places.
fn while_exchanging(world: &World, names: [&str; 2], times: usize, work: impl Fn(usize)) {
    let [first, second] = names.map(|name| world.path("ws").join(name));
    let (done, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // A writer may hold one of the names for an instant; the next round finds it again.
                if renameat_with(CWD, &first, CWD, &second, RenameFlags::EXCHANGE).is_ok() {
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let finish = Finish(&done);
        (0..times).for_each(&work);
        drop(finish);
    });
    let swaps = swaps.load(Ordering::Relaxed);
    assert!(swaps > times as u64, "{swaps} exchanges are no race");
}

/// Stops the racer also when the work panics, or the scope would wait for ever.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A path the judge would permit.
fn permitted(world: &World, text: &str, access: PathAccess) -> Option<OpenedPath> {
    let opened = world.try_open(text, access).unwrap();
    opened.canonical().starts_with(world.path("ws")).then_some(opened)
}

fn assert_outside_is_untouched(world: &World) {
    assert_eq!(world.names("outside"), ["secret"]);
    assert_eq!(world.content("outside/secret"), "secret");
    let litter: Vec<_> =
        world.names("ws").into_iter().filter(|name| name.starts_with(".sinew-tmp-")).collect();
    assert_eq!(litter, Vec::<String>::new());
}

#[test]
fn what_is_read_belongs_to_the_name_that_was_judged() {
    let world = World::new();
    world.file("ws/target", "inside");
    world.link("ws/swap", "../outside/secret");
    let (inside, outside) = (AtomicU64::new(0), AtomicU64::new(0));
    while_exchanging(&world, ["target", "swap"], 3000, |_| {
        let opened = world.read("target");
        if opened.kind() != ObjectKind::File {
            return;
        }
        let bytes = opened.read_range(0, 100).unwrap().bytes;
        let is_inside = opened.canonical().starts_with(world.path("ws"));
        assert_eq!(bytes == b"inside", is_inside, "{:?}", opened.canonical());
        if is_inside { &inside } else { &outside }.fetch_add(1, Ordering::Relaxed);
    });
    assert!(
        inside.into_inner() > 0 && outside.into_inner() > 0,
        "both ends of the exchange must have been seen"
    );
    assert_outside_is_untouched(&world);
}

#[test]
fn a_folder_exchanged_for_a_link_leaks_nothing() {
    let world = World::new();
    world.file("ws/folder/secret", "inside");
    world.link("ws/swap", "../outside");
    while_exchanging(&world, ["folder", "swap"], 3000, |_| {
        let Some(opened) = permitted(&world, "folder/secret", PathAccess::Read) else { return };
        if opened.kind() == ObjectKind::File {
            assert_eq!(opened.read_range(0, 100).unwrap().bytes, b"inside");
        }
        if let Some(folder) = permitted(&world, "folder", PathAccess::Read)
            && let Ok(listing) = folder.list(10)
        {
            assert_eq!(listing.entries[0].size, Some(6));
        }
    });
    assert_outside_is_untouched(&world);
}

#[test]
fn a_write_never_lands_outside() {
    let world = World::new();
    world.file("ws/target", "inside");
    world.link("ws/swap", "../outside/secret");
    let written = AtomicU64::new(0);
    while_exchanging(&world, ["target", "swap"], 300, |round| {
        let Some(opened) = permitted(&world, "target", PathAccess::Write) else { return };
        let new = format!("inside {round}");
        let done = opened.replace(new.as_bytes(), &Expected::Anything).is_ok();
        written.fetch_add(u64::from(done), Ordering::Relaxed);
    });
    assert!(written.into_inner() > 0, "the racer must not have won every time");
    assert_outside_is_untouched(&world);
}

#[test]
fn a_write_into_a_folder_exchanged_for_a_link_never_lands_outside() {
    let world = World::new();
    world.file("ws/folder/secret", "inside");
    world.link("ws/swap", "../outside");
    let written = AtomicU64::new(0);
    while_exchanging(&world, ["folder", "swap"], 300, |round| {
        for (text, expected) in [("folder/secret", Expected::Anything), ("folder/new", Expected::Absent)] {
            let Some(opened) = permitted(&world, text, PathAccess::Write) else { continue };
            let done = opened.replace(format!("inside {round}").as_bytes(), &expected).is_ok();
            written.fetch_add(u64::from(done), Ordering::Relaxed);
        }
        for name in ["folder/new", "swap/new"] {
            // Only ever the workspace's own: the name is removed through what is really a folder.
            let path = world.path("ws").join(name);
            if path.parent().is_some_and(|parent| !parent.is_symlink()) && !world.path("outside/new").exists()
            {
                let _ = fs::remove_file(path);
            }
        }
    });
    assert!(written.into_inner() > 0, "the racer must not have won every time");
    assert_outside_is_untouched(&world);
}
