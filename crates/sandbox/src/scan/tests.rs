//! Tests of the directory scan: what it finds, which folders it makes accessible and restores, and where it
//! stops.

use std::time::Duration;

use super::*;
use crate::scan::cancellation::WorkDeadline;
use crate::scan::test_folder::TestFolder;

impl TestFolder {
    /// Scans with temporary access to inaccessible folders.
    fn opened(&self) -> Inventory {
        let mut found = Inventory::default();
        let problem = scan_each(
            &self.root,
            &ScanBounds::after_run(),
            UnlistableFolders::MakeAccessible,
            &|_| true,
            &mut |part| {
                found.extend(part);
                Ok(())
            },
        );
        assert!(problem.is_none(), "{problem:?}");
        found
    }

    fn taken(&self) -> Inventory {
        let shows = |path: &Path| !path.ends_with(".env") && !path.ends_with("secret");
        scan(&self.root, &ScanBounds::after_run(), shows)
    }
}

#[test]
fn hidden_and_protected_paths_are_found_anywhere() {
    let fixture = TestFolder::with(
        &[".git/hooks/deep/.vscode", "src", "secret/.vscode", "bare/objects", "bare/refs", "bare/hooks"],
        &[
            ".git/config",
            ".git/HEAD",
            ".git/hooks/deep/.env",
            "bare/HEAD",
            "bare/hooks/.env",
            "src/.env",
            "src/main.rs",
            "secret/key",
        ],
    );
    let root = &fixture.root;
    std::os::unix::fs::symlink("/etc/profile", root.join(".profile")).unwrap();
    let found = fixture.taken().into_complete().unwrap();
    let mut hidden: Vec<_> = found.hidden.iter().map(|expected| expected.path.clone()).collect();
    hidden.sort();
    let expect = [".git/hooks/deep/.env", "bare/hooks/.env", "secret", "src/.env"];
    assert_eq!(hidden, expect.map(|name| root.join(name)));
    let kept: Vec<_> = found.mountable().map(|expected| expected.path).collect();
    let expect = [".git/config", ".git/hooks", "bare/hooks"];
    assert_eq!(kept, expect.map(|name| root.join(name)), "protected contents are not listed again");
    assert!(
        found.protected.contains_key(&root.join(".profile")),
        "a link is listed, though no mount protects it"
    );

    std::fs::write(root.join("src/.git"), "gitdir: ../elsewhere").unwrap();
    assert!(
        fixture.taken().protected.contains_key(&root.join("src/.git")),
        "it redirects git to another folder"
    );
}

#[test]
fn too_deep_folders_are_reported_and_the_rest_is_found() {
    let fixture = TestFolder::with(&["a", "z/.vscode"], &[]);
    let name = "d".repeat(200);
    let mut folder = open_folder::open(&fixture.root.join("a"), OFlags::RDONLY).unwrap();
    for _ in 0..40 {
        rustix::fs::mkdirat(&folder, &name, rustix::fs::Mode::RWXU).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        folder = rustix::fs::openat(&folder, &name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    let found = fixture.taken().into_complete().unwrap();
    assert_eq!(found.too_deep.len(), 1, "one folder, and nothing below it");
    assert!(found.too_deep[0].path.starts_with(fixture.root.join("a")) && found.too_deep[0].path.is_dir());
    assert!(found.protected.contains_key(&fixture.root.join("z/.vscode")));
}

#[test]
fn results_before_a_bound_are_kept() {
    let fixture = TestFolder::with(&["many", ".vscode"], &[]);
    (0..20).for_each(|number| std::fs::write(fixture.root.join(format!("many/{number}")), "").unwrap());
    let up_to = |entries| scan(&fixture.root, &ScanBounds { entries, ..ScanBounds::after_run() }, |_| true);
    assert!(up_to(22).into_complete().is_ok());
    let found = up_to(21);
    assert!(found.protected.contains_key(&fixture.root.join(".vscode")), "{found:?}");
    assert!(matches!(found.into_complete(), Err(SandboxError::TooLarge { limit: 21, .. })));
}

#[test]
fn unlistable_folders_are_reported_or_temporarily_opened() {
    use std::os::unix::fs::PermissionsExt;
    ::tests::drop_root_permanently();
    for mode in [0o444, 0o311, 0o000] {
        let fixture = TestFolder::with(&["d/e/.vscode"], &["d/.envrc"]);
        let folder = fixture.root.join("d");
        let set = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        set(mode);
        let reported = fixture.taken().into_complete().unwrap();
        assert_eq!(
            reported.unlistable.iter().map(|expected| &expected.path).collect::<Vec<_>>(),
            [&folder],
            "{mode:o}"
        );
        assert!(reported.protected.is_empty());
        let opened = fixture.opened();
        assert_eq!(opened.protected.len(), 2, "{mode:o}: {opened:?}");
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, mode);
        set(0o755);
    }
    let fixture = TestFolder::with(&[".vscode"], &[]);
    std::fs::set_permissions(&fixture.root, std::fs::Permissions::from_mode(0o311)).unwrap();
    assert!(fixture.taken().into_complete().is_err(), "its contents cannot be granted");
    assert_eq!(fixture.opened().protected.len(), 1);
    assert!(fixture.taken().into_complete().is_ok(), "it stays accessible");
}

/// Returns the number of entries with full owner permissions.
fn open_in(folder: &Path) -> usize {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().metadata().unwrap().mode() & 0o700 == 0o700).count()
}

#[test]
fn inaccessible_folders_are_opened_one_at_a_time() {
    ::tests::drop_root_permanently();
    let names: Vec<String> = (0..9).map(|number| format!("c/{number}/.vscode")).collect();
    let fixture = TestFolder::with(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let closed = fixture.root.join("c");
    for number in 0..9 {
        fixture.set_mode(&format!("c/{number}"), 0o000);
    }
    let mut open = Vec::new();
    let problem = scan_each(
        &fixture.root,
        &ScanBounds::after_run(),
        UnlistableFolders::MakeAccessible,
        &|_| true,
        &mut |_| {
            open.push(open_in(&closed));
            Ok(())
        },
    );
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(open, [1; 9], "only the folder whose results are passed on is accessible");
    assert_eq!(open_in(&closed), 0);
    (0..9).for_each(|number| fixture.set_mode(&format!("c/{number}"), 0o755));
}

#[test]
fn nested_folders_are_restored_when_the_scan_stops_early() {
    ::tests::drop_root_permanently();
    let fixture = TestFolder::with(&["a/b/c/.vscode"], &[]);
    let nested = ["a", "a/b", "a/b/c"];
    nested.iter().rev().for_each(|name| fixture.set_mode(name, 0o000));
    let stopped = scan_each(
        &fixture.root,
        &ScanBounds::after_run(),
        UnlistableFolders::MakeAccessible,
        &|_| true,
        &mut |part| Err(too_many_paths(part.paths(), &[&fixture.root])),
    );
    assert!(matches!(stopped, Some(SandboxError::TooManyPaths { count: 1, .. })), "{stopped:?}");
    for name in nested {
        assert_eq!(fixture.mode(name), 0o000, "{name}");
        fixture.set_mode(name, 0o755);
    }
}

#[test]
fn scan_stops_at_the_name_limit() {
    let names: Vec<String> = (0..50).map(|number| format!("{number}/.vscode")).collect();
    let fixture = TestFolder::with(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let found = scan(&fixture.root, &ScanBounds { names: 3, ..ScanBounds::after_run() }, |_| true);
    assert_eq!(found.count(), 4);
    assert!(matches!(found.into_complete(), Err(SandboxError::TooManyPaths { count: 4, .. })));
    let name_bytes = 2 * fixture.root.as_os_str().len();
    let found = scan(&fixture.root, &ScanBounds { name_bytes, ..ScanBounds::after_run() }, |_| true);
    assert_eq!(found.count(), 2);

    let many: Vec<String> = (0..MAX_BATCH * 2).map(|number| format!("{number}.env")).collect();
    let fixture = TestFolder::with(&[], &many.iter().map(String::as_str).collect::<Vec<_>>());
    let found = scan(&fixture.root, &ScanBounds { names: 3, ..ScanBounds::after_run() }, |_| false);
    assert_eq!(found.count(), MAX_BATCH, "within one folder too");
}

#[test]
fn scan_stops_at_the_deadline_and_at_the_queue_limit() {
    let names: Vec<String> = (0..20).map(|number| format!("{number}/.vscode")).collect();
    let fixture = TestFolder::with(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let late = scan(
        &fixture.root,
        &ScanBounds { deadline: WorkDeadline::after(Duration::ZERO), ..ScanBounds::after_run() },
        |_| true,
    );
    assert_eq!(late.count(), 0);
    assert!(matches!(late.into_complete(), Err(SandboxError::ScanTimedOut(_))));
    let heavy = scan(&fixture.root, &ScanBounds { queued_bytes: 500, ..ScanBounds::after_run() }, |_| true);
    assert!(matches!(heavy.into_complete(), Err(SandboxError::TooLarge { limit: 1..20, .. })));
    assert!(fixture.taken().into_complete().is_ok());
}

#[test]
fn bare_repository_is_recognised_by_its_contents() {
    let fixture = TestFolder::with(
        &["a/objects", "a/refs", "a/hooks", "a/rebase-merge", "b/objects", "b/hooks", "c"],
        &["a/HEAD", "a/config", "b/HEAD", "b/config", "c/HEAD", "c/commondir"],
    );
    let found = fixture.taken().into_complete().unwrap();
    let expect = ["a/config", "a/hooks", "a/rebase-merge", "c/commondir"].map(|name| fixture.root.join(name));
    assert_eq!(found.protected.keys().cloned().collect::<Vec<_>>(), expect);
    assert_eq!(found.repositories.len(), 2);
}
