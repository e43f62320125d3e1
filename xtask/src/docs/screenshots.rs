//! Screenshots of the web console for the documentation, made by its tests in a real browser.

use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};

use crate::test;
use crate::tree::Root;

/// Variable by which the test of the pages finds the folder for its pictures.
const VARIABLE: &str = "SINEW_SCREENSHOTS";
const TEST: &str = "every_screen_is_accessible_and_clean_in_both_themes";
const FOLDER: &str = "docs/images";
/// Pictures that the documentation shows.
const PICTURES: [&str; 6] = [
    "overview-light",
    "overview-dark",
    "request-light",
    "ledger-light",
    "policy-candidate-light",
    "policy-reach-dark",
];

/// Runs the test, and copies the pictures that the documentation shows.
pub(crate) fn command(root: &Root) -> Result<()> {
    let pictures = tempfile::tempdir().context("cannot make a folder for the pictures")?;
    // As root, the tests run as another user.
    std::fs::set_permissions(pictures.path(), std::fs::Permissions::from_mode(0o777))?;
    test::command_with(root, &[TEST.to_owned()], &[(VARIABLE, pictures.path())])?;
    let folder = root.path().join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    for name in PICTURES {
        let (from, to) = (pictures.path().join(format!("{name}.png")), format!("console-{name}.png"));
        std::fs::copy(&from, folder.join(&to))
            .with_context(|| format!("the test made no picture `{name}`"))?;
        println!("wrote {FOLDER}/{to}");
    }
    Ok(())
}
