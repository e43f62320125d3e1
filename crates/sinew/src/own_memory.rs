//! Protects the daemon's memory. A process that could read or change it would not need the operator PIN, and
//! a core file would store secrets on disk.

use std::io;

use nix::sys::resource::{Resource, setrlimit};

/// Stops debuggers of the same user from attaching, and disables core files. Programs started later can set
/// both again for themselves.
pub(crate) fn close() -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // RLIMIT_CORE does not apply to a core that the kernel pipes to a program; the dumpable flag does.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}
