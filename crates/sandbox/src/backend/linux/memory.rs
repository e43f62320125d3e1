//! How much memory a run uses, all of its processes together.

use super::reduced;

/// The processes of a run in namespaces of its own: all that its list has. Where the list is the machine's, which this
/// process is on too, they are those below it.
pub(crate) fn processes_here() -> Vec<i32> {
    if std::fs::read_link("/proc/self").is_ok() {
        return reduced::descendants();
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect()
}

/// The memory of these. Counted quickly, pages that a fork left shared count for each; only where that is more than there
/// is room for are they counted slowly, each for its share.
pub(crate) fn of_all(processes: &[i32], room: u64) -> u64 {
    let quick: u64 = processes.iter().map(|process| quick(*process)).sum();
    if quick <= room {
        return quick;
    }
    processes.iter().map(|process| share(*process).unwrap_or_else(|| self::quick(*process))).sum()
}

/// Resident pages that are no file's.
fn quick(process: i32) -> u64 {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{process}/statm")) else { return 0 };
    let mut numbers = text.split(' ').map(|word| word.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (numbers.nth(1).unwrap_or(0), numbers.next().unwrap_or(0));
    resident.saturating_sub(shared) * page()
}

/// How large the kernel's pages are.
fn page() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
}

/// Its share of the pages that are no file's; nothing where the kernel does not say.
fn share(process: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Pss_Anon:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The scratch space of a run, which is memory too.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Which file systems had these names before the run got its own.
    before: [Option<u64>; 2],
}

impl Scratch {
    const NAMES: [&str; 2] = ["/tmp", "/dev/shm"];

    /// Asked before a run can have one.
    pub(crate) fn before() -> Scratch {
        Scratch { before: Scratch::NAMES.map(device) }
    }

    /// What it holds. As long as a name still leads to the machine's own, nothing.
    pub(crate) fn used(&self) -> u64 {
        let names = Scratch::NAMES.into_iter().zip(self.before);
        names.filter(|(name, before)| device(name) != *before).filter_map(|(name, _)| held(name)).sum()
    }
}

fn device(path: &str) -> Option<u64> {
    rustix::fs::stat(path).ok().map(|facts| facts.st_dev)
}

fn held(path: &str) -> Option<u64> {
    let space = rustix::fs::statvfs(path).ok()?;
    Some(space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize)
}
