//! The daemon's memory is its own. Whoever could look into it, or stop and change it, would not need the operator's PIN; and
//! a core file would keep on disk what passed through it.

use std::io;

use nix::sys::resource::{Resource, setrlimit};

/// No debugger of the same user attaches from now on, and no core file is written. Programs that are started later decide
/// for themselves.
pub(crate) fn close() -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // A core that is piped to a program knows no limit; this is what keeps that from being written too.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}
