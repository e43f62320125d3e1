//! Programs that are not for every user of a machine, from where `cargo xtask test` puts them.

use std::path::{Path, PathBuf};

/// A folder of programs, if it is there. A test that goes on without it says so aloud.
pub fn programs(name: &str, needed: &str) -> Option<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/programs");
    let folder = std::env::var_os("SINEW_PROGRAMS").map_or_else(built, PathBuf::from).join(name);
    let found = folder.canonicalize().ok().filter(|folder| folder.join(needed).is_file());
    if found.is_none() {
        println!("LEFT OUT: there is no {needed} in {}: `cargo xtask test` puts it there", folder.display());
    }
    found
}
