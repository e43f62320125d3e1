//! Detects paths that mean one file to the program and another to the daemon: those that lead through a
//! process, such as `/proc/self/cwd`.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Same number of symbolic links as the kernel follows.
const MAX_SYMLINKS: usize = 40;

/// Returns true if a path leads through a process, directly or by a symbolic link. Links of processes are not
/// followed.
pub(crate) fn leads_through_process(path: &Path) -> bool {
    let mut remaining_components = components(path);
    let mut reached = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = remaining_components.pop_front() {
        if part == ".." {
            reached.pop();
            continue;
        }
        reached.push(&part);
        if is_process_path(&reached) {
            return true;
        }
        let Ok(target) = reached.read_link() else { continue };
        links += 1;
        if links > MAX_SYMLINKS {
            // The kernel does not follow so many links either, so its meaning to the program is unknown.
            return true;
        }
        reached.pop();
        if target.is_absolute() {
            reached = PathBuf::from("/");
        }
        let mut ahead = components(&target);
        ahead.append(&mut remaining_components);
        remaining_components = ahead;
    }
    false
}

/// Returns true for paths below `/proc/PID`, `/proc/self` and `/proc/thread-self`, which depend on the
/// process. Other files of `/proc` describe the machine.
fn is_process_path(path: &Path) -> bool {
    let mut below = match path.strip_prefix("/proc") {
        Ok(below) => below.components(),
        Err(_) => return false,
    };
    let first = below.next().map(|part| part.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
    let is_process = first == "self" || first == "thread-self" || first.parse::<u32>().is_ok();
    is_process && below.next().is_some()
}

fn components(path: &Path) -> VecDeque<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn process_paths_are_found_by_name_and_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plain"), "").unwrap();
        for (name, target) in [
            ("by_link", "/proc/self/cwd/x.sh"),
            ("of_another", "/proc/2/root"),
            ("twice", "by_link"),
            ("up", "../../../../../../../proc/thread-self/cwd"),
            ("fine", "plain"),
            ("round", "round"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        let check =
            |path: &Path, expect: bool| assert_eq!(leads_through_process(path), expect, "{}", path.display());
        for own in ["by_link", "of_another/etc", "twice", "up/x.sh", "round"] {
            check(&at(own), true);
        }
        for other in ["fine", "plain", "missing/x"] {
            check(&at(other), false);
        }
        for own in
            ["/proc/self/cwd/x.sh", "/proc/./self/../self/fd/3", "/proc/1/root/etc", "/a/../proc/9/cwd"]
        {
            check(Path::new(own), true);
        }
        for other in ["/proc/meminfo", "/proc/sys/kernel/ostype", "/proc", "/etc/passwd"] {
            check(Path::new(other), false);
        }
    }
}
