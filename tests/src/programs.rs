//! Programs that are not installed for every user of a machine, from the folder that `cargo xtask test`
//! fills.

use std::path::{Path, PathBuf};

use crate::left_out;

/// Returns a folder of programs, if it contains `needed`. Prints a line if not, so that a skipped test is
/// visible.
pub fn program_folder(name: &str, needed: &str) -> Option<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/programs");
    let folder = std::env::var_os("SINEW_PROGRAMS").map_or_else(built, PathBuf::from).join(name);
    let found = folder.canonicalize().ok().filter(|folder| folder.join(needed).is_file());
    if found.is_none() {
        let folder = folder.display();
        left_out(&format!("no {needed} in {folder} (`cargo xtask test` puts it there)"));
    }
    found
}
