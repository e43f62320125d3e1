//! Delegated control groups: the process that starts launchers checks if a group is delegated to the user and
//! moves into a subgroup, so that every run can have a sibling group. `cgroup` implements the group of a
//! single run.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};
use rustix::fs::{Access, AtFlags, CWD, accessat, statfs};

use crate::linux::cgroup::{self, CgroupController};

/// Subgroup of the daemon. The kernel allows no processes in a group whose subgroups have limits.
pub(crate) const DAEMON_GROUP: &str = "sinew-daemon";
/// Magic number of the cgroup v2 file system.
const CGROUP2_MAGIC: u64 = 0x6367_7270;

/// The delegated group and the controllers it can use.
#[derive(Debug)]
pub(crate) struct DelegatedCgroup {
    base: PathBuf,
    controllers: Vec<CgroupController>,
}

impl DelegatedCgroup {
    /// Returns the group delegated to this process, or the reason why there is none. Must be called before
    /// the first launcher starts: this process could not move afterwards without leaving the launcher behind.
    pub(crate) fn of_this_process() -> Result<&'static DelegatedCgroup, &'static str> {
        static FOUND: OnceLock<Result<DelegatedCgroup, String>> = OnceLock::new();
        FOUND.get_or_init(find).as_ref().map_err(String::as_str)
    }

    /// Returns the controllers that limit each run.
    pub(crate) fn controllers(&self) -> &[CgroupController] {
        &self.controllers
    }

    /// Returns the launcher argument with which it creates a group for its run.
    pub(crate) fn launcher_argument(&self) -> OsString {
        cgroup::launcher_argument(&self.controllers, &self.base)
    }

    /// Removes the groups of launchers that were killed, of any daemon. A live launcher removes its own.
    pub(crate) fn sweep(&self) {
        for entry in std::fs::read_dir(&self.base).into_iter().flatten().flatten() {
            if let Some(launcher) = cgroup::launcher_of(&entry.file_name())
                && kill(Pid::from_raw(launcher), None) == Err(Errno::ESRCH)
            {
                cgroup::discard(&self.base, &entry.file_name());
            }
        }
    }

    /// Sets up the group that this process is in.
    fn adopt(own: &Path) -> Result<DelegatedCgroup, String> {
        let is_below = own.file_name() == Some(OsStr::new(DAEMON_GROUP));
        let base = if is_below { own.parent().unwrap_or(own) } else { own };
        check_delegated(base)?;
        let controllers = CgroupController::parse_list(&text(base, "cgroup.controllers")?);
        if controllers.is_empty() {
            return Err(format!("neither memory nor pids is delegated to {}", base.display()));
        }
        let (listed, process) = (text(base, "cgroup.procs")?, std::process::id().to_string());
        if listed.lines().any(|other| is_below || other != process) {
            return Err(format!("other processes are in {}; Sinew needs its own group", base.display()));
        }
        let groups = DelegatedCgroup { base: base.to_owned(), controllers };
        if !is_below {
            groups.move_into_subgroup(&process)?;
        }
        groups.enable().inspect_err(|_| groups.move_back(is_below, &process))?;
        groups.sweep();
        Ok(groups)
    }

    fn move_into_subgroup(&self, process: &str) -> Result<(), String> {
        let below = self.base.join(DAEMON_GROUP);
        match std::fs::create_dir(&below) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(path_error(&below, &error)),
            _ => write(&below.join("cgroup.procs"), process),
        }
    }

    /// Undoes `move_into_subgroup`.
    fn move_back(&self, was_below: bool, process: &str) {
        if !was_below && write(&self.base.join("cgroup.procs"), process).is_ok() {
            let _ = std::fs::remove_dir(self.base.join(DAEMON_GROUP));
        }
    }

    fn enable(&self) -> Result<(), String> {
        let controllers: Vec<String> =
            self.controllers.iter().map(|one| format!("+{}", one.as_str())).collect();
        write(&self.base.join("cgroup.subtree_control"), &controllers.join(" "))
    }
}

fn find() -> Result<DelegatedCgroup, String> {
    if geteuid().is_root() {
        return Err("root owns all control groups, so none is known to be delegated to Sinew".to_owned());
    }
    let read = |path| std::fs::read_to_string(path).map_err(|error| path_error(Path::new(path), &error));
    let own = own_folder(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?);
    let own = own.ok_or("cgroup v2 is not mounted on this machine")?;
    let kind = statfs(&own).map_err(|error| path_error(&own, &error.into()))?.f_type;
    match u64::try_from(kind) {
        Ok(CGROUP2_MAGIC) => DelegatedCgroup::adopt(&own),
        _ => Err(format!("{} is not a cgroup v2 file system", own.display())),
    }
}

/// Finds the cgroup folder of a process from its `/proc` files.
fn own_folder(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (facts, kind) = line.split_once(" - ")?;
        let mut facts = facts.split(' ').skip(3);
        let (root, mounted_at) = (facts.next()?, facts.next()?);
        // The kernel escapes unusual bytes in these paths; cgroups are not mounted at such paths in practice.
        if !kind.starts_with("cgroup2 ") || root.contains('\\') || mounted_at.contains('\\') {
            return None;
        }
        let below = Path::new(group).strip_prefix(root).ok()?;
        Some(Path::new(mounted_at).join(below))
    })
}

/// Checks that the user owns and may write the files with which subgroups are created and joined.
fn check_delegated(base: &Path) -> Result<(), String> {
    let refused = || format!("{} is not delegated to this user", base.display());
    if text(base, "cgroup.type").map_err(|_| refused())?.trim() != "domain" {
        return Err(refused());
    }
    let is_ours = |path: PathBuf| {
        let is_owner = path.metadata().is_ok_and(|facts| facts.uid() == geteuid().as_raw());
        is_owner && accessat(CWD, &path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    };
    let delegated = ["", "cgroup.procs", "cgroup.subtree_control"];
    match delegated.iter().all(|name| is_ours(base.join(name))) {
        true => Ok(()),
        false => Err(refused()),
    }
}

fn text(base: &Path, name: &str) -> Result<String, String> {
    let path = base.join(name);
    std::fs::read_to_string(&path).map_err(|error| path_error(&path, &error))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let written =
        OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| path_error(path, &error))
}

fn path_error(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folder that looks like a cgroup with this process in it. The kernel does not manage it, so its files
    /// only store what is written.
    struct FakeCgroup {
        _folder: tempfile::TempDir,
        own: PathBuf,
    }

    impl FakeCgroup {
        fn new(own: &str, controllers: &str, processes: &str) -> FakeCgroup {
            let folder = tempfile::tempdir().unwrap();
            let own = folder.path().join(own);
            std::fs::create_dir_all(own.join(DAEMON_GROUP)).unwrap();
            let look = FakeCgroup { _folder: folder, own };
            for (name, text) in [
                ("cgroup.type", "domain\n"),
                ("cgroup.controllers", controllers),
                ("cgroup.subtree_control", ""),
                ("cgroup.procs", processes),
                ("sinew-daemon/cgroup.procs", ""),
            ] {
                look.set(name, text);
            }
            look
        }

        fn set(&self, name: &str, text: &str) {
            std::fs::write(self.own.join(name), text).unwrap();
        }

        fn get(&self, name: &str) -> String {
            std::fs::read_to_string(self.own.join(name)).unwrap()
        }
    }

    fn own() -> String {
        std::process::id().to_string()
    }

    #[test]
    fn delegated_group_is_used_and_the_daemon_moves_below_it() {
        let look = FakeCgroup::new("sinew.service", "cpu io memory pids\n", &format!("{}\n", own()));
        let groups = DelegatedCgroup::adopt(&look.own).unwrap();
        assert_eq!(groups.controllers(), [CgroupController::Memory, CgroupController::Processes]);
        assert_eq!(look.get("sinew-daemon/cgroup.procs"), own());
        assert_eq!(look.get("cgroup.subtree_control"), "+memory +pids");
        let word = groups.launcher_argument().into_string().unwrap();
        assert_eq!(word, format!("memory,pids:{}", look.own.display()));
    }

    #[test]
    fn daemon_started_in_its_subgroup_stays_there() {
        let look = FakeCgroup::new("sinew.service", "pids\n", "");
        let groups = DelegatedCgroup::adopt(&look.own.join(DAEMON_GROUP)).unwrap();
        assert_eq!(
            (groups.base.as_path(), look.get("cgroup.subtree_control")),
            (&*look.own, "+pids".to_owned())
        );
        assert_eq!(look.get("sinew-daemon/cgroup.procs"), "", "no process is moved");
    }

    #[test]
    fn undelegated_or_shared_group_is_left_unchanged() {
        let alone = format!("{}\n", own());
        let why = |look: &FakeCgroup| {
            let why = DelegatedCgroup::adopt(&look.own).unwrap_err();
            assert_eq!(look.get("cgroup.subtree_control"), "", "{why}");
            assert_eq!(look.get("sinew-daemon/cgroup.procs"), "", "{why}");
            why
        };
        assert!(why(&FakeCgroup::new("a", "cpu io\n", &alone)).contains("neither memory nor pids"));
        assert!(why(&FakeCgroup::new("a", "memory\n", &format!("1\n{alone}"))).contains("other processes"));
        let threads = FakeCgroup::new("a", "memory\n", &alone);
        threads.set("cgroup.type", "threaded\n");
        assert!(why(&threads).contains("not delegated"));
        let root = FakeCgroup::new("a", "memory\n", &alone);
        std::fs::remove_file(root.own.join("cgroup.type")).unwrap();
        assert!(why(&root).contains("not delegated"), "the root group has no `cgroup.type`");
        let below = FakeCgroup::new("a", "memory\n", "1\n");
        assert!(
            DelegatedCgroup::adopt(&below.own.join(DAEMON_GROUP)).unwrap_err().contains("other processes")
        );
    }

    #[test]
    fn daemon_moves_back_if_controllers_cannot_be_enabled() {
        let look = FakeCgroup::new("a", "memory\n", "");
        let limits = look.own.join("cgroup.subtree_control");
        std::fs::remove_file(&limits).unwrap();
        // A folder cannot be written to.
        std::fs::create_dir(&limits).unwrap();
        assert!(DelegatedCgroup::adopt(&look.own).unwrap_err().contains("subtree_control"));
        assert_eq!(look.get("cgroup.procs"), own());
    }

    #[test]
    fn own_group_is_found_from_proc_files() {
        let groups = "12:pids:/x\n0::/user.slice/sinew.service\n";
        let mounts = "24 1 0:22 / /sys rw - sysfs sysfs rw\n30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let found = |groups, mounts| own_folder(groups, mounts);
        let expected = Path::new("/sys/fs/cgroup/user.slice/sinew.service");
        assert_eq!(found(groups, mounts).as_deref(), Some(expected));
        let part = mounts.replace("0:26 / ", "0:26 /user.slice ");
        assert_eq!(found(groups, &part).as_deref(), Some(Path::new("/sys/fs/cgroup/sinew.service")));
        assert_eq!(found("0::/../elsewhere", &part), None, "outside the mounted subtree");
        assert_eq!(found("3:memory:/x\n", mounts), None, "only cgroup v1");
        assert_eq!(found(groups, "24 1 0:22 / /sys rw - sysfs sysfs rw\n"), None);
    }

    #[test]
    fn only_groups_of_dead_launchers_are_removed() {
        let look = FakeCgroup::new("a", "memory\n", &format!("{}\n", own()));
        let gone = (1..).map(|number| i32::MAX - number).find(|id| kill(Pid::from_raw(*id), None).is_err());
        let names = [
            format!("sinew-run-{}", gone.unwrap()),
            format!("sinew-run-{}", own()),
            "sinew-run-x".to_owned(),
            "other".to_owned(),
        ];
        names.iter().for_each(|name| std::fs::create_dir(look.own.join(name)).unwrap());
        DelegatedCgroup::adopt(&look.own).unwrap();
        let left: Vec<bool> = names.iter().map(|name| look.own.join(name).exists()).collect();
        assert_eq!(left, [false, true, true, true]);
    }
}
