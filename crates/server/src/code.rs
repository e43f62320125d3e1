//! Lets go of the pages of this program that are in its memory only because its start, or a reload, ran through them.
//!
//! The program is large, and reading a configuration runs through most of it: 28 of 34 MiB of code counted as the daemon's
//! memory for as long as it lived. What is needed again comes back by itself, from the system's own copy of the file.

/// Lets go of all of its code. Does nothing where the system does not say what is where.
#[cfg(target_os = "linux")]
pub(crate) fn let_go() {
    let (Ok(maps), Ok(program)) =
        (std::fs::read_to_string("/proc/self/maps"), std::fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    let Some(program) = program.to_str().filter(|_| !is_traced()) else { return };
    for (from, to) in maps.lines().filter_map(|line| code_of(line, program)) {
        forget(from, to);
    }
}

/// Returns true if a debugger traces this process, or if that cannot be determined.
#[cfg(target_os = "linux")]
fn is_traced() -> bool {
    std::fs::read_to_string("/proc/self/status").map_or(true, |status| tracer_of(&status) != Some(0))
}

#[cfg(target_os = "linux")]
fn tracer_of(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim().parse().ok()
}

/// Elsewhere the system has its own ways.
#[cfg(not(target_os = "linux"))]
pub(crate) fn let_go() {}

/// Returns the address range of this line of `/proc/self/maps` if it maps code of the program: private, not
/// writable and executable. Data that is read-only after relocation is not writable either, but it is not
/// executable.
#[cfg(target_os = "linux")]
fn code_of(line: &str, program: &str) -> Option<(usize, usize)> {
    let mut words = line.splitn(6, ' ');
    let (place, allowed) = (words.next()?, words.next()?);
    if allowed != "r-xp" || words.nth(3)?.trim() != program {
        return None;
    }
    let (from, to) = place.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no safe crate offers it")]
fn forget(from: usize, to: usize) {
    let place = std::ptr::with_exposed_provenance_mut(from);
    // SAFETY: what is dropped is pages of our own text: private, of a file that cannot be written while it runs, and never
    // written by us, so clean. Code that runs there gets the same page again. Only a debugger writes there, its breakpoints:
    // where one is, this is not come to.
    unsafe {
        libc::madvise(place, to.saturating_sub(from), libc::MADV_DONTNEED);
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the resident size of this program's code in KiB.
    fn resident() -> usize {
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_code = false;
        let mut sum = 0;
        for line in smaps.lines() {
            match line.strip_prefix("Rss:") {
                Some(size) if is_code => {
                    sum += size.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
                }
                Some(_) => {}
                None if line.contains('-') => is_code = code_of(line, program.to_str().unwrap()).is_some(),
                None => {}
            }
        }
        sum
    }

    #[test]
    fn code_that_nobody_runs_goes_and_comes_back() {
        // Runs through much of it.
        let _ = format!("{:?}", crate::settings::Settings::default());
        let before = resident();
        let_go();
        let after = resident();
        assert!(before > 0 && after < before, "{before} KiB before, {after} KiB after");
    }

    #[test]
    fn a_debugger_is_seen() {
        let told = |pid: &str| tracer_of(&format!("Name:\tsinew\nTracerPid:\t{pid}\nUid:\t0\n"));
        assert_eq!([told("0"), told("42"), told(""), tracer_of("")], [Some(0), Some(42), None, None]);
    }

    #[test]
    fn only_code_of_this_program_is_let_go_of() {
        let line = |rest: &str| code_of(&format!("7f00-7fff {rest}"), "/opt/my sinew");
        assert_eq!(line("r-xp 00001000 fe:00 42                   /opt/my sinew"), Some((0x7f00, 0x7fff)));
        for other in [
            "r--p 00001000 fe:00 42                   /opt/my sinew",
            "rw-p 00001000 fe:00 42                   /opt/my sinew",
            "rwxp 00001000 fe:00 42                   /opt/my sinew",
            "r-xs 00001000 fe:00 42                   /opt/my sinew",
            "r-xp 00001000 fe:00 42                   /opt/my sinew (deleted)",
            "r-xp 00000000 00:00 0                    [vdso]",
            "r-xp 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(line(other), None, "{other}");
        }
    }
}
