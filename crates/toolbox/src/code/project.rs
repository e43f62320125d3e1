//! A project as its tools find it: what is there, and the variables they all run with.

use std::ffi::OsString;
use std::path::Path;

use sandbox::{End, Grant};
use tool::Failure;

use crate::in_walls::{Errand, Walls};

/// Whether the project has a file of this name. Asked inside the walls, where only what was granted can be seen.
pub(super) async fn has(walls: &mut Walls, folder: &Path, name: &str) -> Result<bool, Failure> {
    let errand = Errand {
        program: "test".into(),
        arguments: vec!["-f".into(), name.into()],
        folder: folder.to_owned(),
        grant: Grant::ReadOnly,
        variables: Vec::new(),
        output_bytes: 1024,
    };
    Ok(walls.run(errand).await?.end == End::Exited(0))
}

/// Nothing is fetched, nothing is asked, nothing is left behind in the project that it does not make itself.
pub(super) fn variables() -> Vec<(String, OsString)> {
    [
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONNOUSERSITE", "1"),
        ("CARGO_TARGET_DIR", "/tmp/target"),
        ("CARGO_NET_OFFLINE", "true"),
        ("CARGO_TERM_COLOR", "never"),
        ("npm_config_offline", "true"),
        ("npm_config_update_notifier", "false"),
        ("CI", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
    .to_vec()
}
