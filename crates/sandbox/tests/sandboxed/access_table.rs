//! One table of file operations with the expected decision, for both backends. On Linux a sandboxed program
//! tries each operation. For macOS the evaluator decides each by the profile that the same run would get.

use std::path::{Path, PathBuf};

use governance::files::NetworkAccess;
use libtest_mimic::{Failed, Trial};
use tests::hostile::PYTHON;
use tool::result::SandboxTier;

use crate::controls::{TestWorkspace, run_without};
use crate::launch::spec::RunSpec;
use crate::macos::profile;
use crate::macos::profile_evaluator::{Operation, is_allowed};
use crate::report::RunEnd;
use crate::scan::file_identity::ExpectedFile;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Allowed,
    Denied,
}

use Decision::{Allowed, Denied};

/// Operation, place, name below that place, and the expected decision. The operations are tried in this
/// order, so those that remove something come last.
const TABLE: &[(&str, &str, &str, Decision)] = &[
    ("read", "workspace", "attempts.py", Allowed),
    ("stat", "workspace", "attempts.py", Allowed),
    ("write", "workspace", "attempts.py", Allowed),
    ("create", "workspace", "new", Allowed),
    ("create", "workspace", "vault/new", Allowed),
    ("read", "workspace", ".env", Denied),
    ("write", "workspace", ".env", Denied),
    ("read", "workspace", ".env.d/key", Denied),
    ("create", "workspace", ".env.d/new", Denied),
    ("read", "workspace", "vault/inner/.env", Denied),
    ("read", "workspace", ".git/config", Allowed),
    ("write", "workspace", ".git/config", Denied),
    ("read", "workspace", ".git/hooks/sample", Allowed),
    ("write", "workspace", ".git/hooks/sample", Denied),
    ("create", "workspace", ".git/hooks/new", Denied),
    ("remove", "workspace", ".git/hooks/sample", Denied),
    ("write", "workspace", ".bashrc", Denied),
    ("remove", "workspace", ".mcp.json", Denied),
    ("read", "read_only", "given", Allowed),
    ("stat", "read_only", "given", Allowed),
    ("write", "read_only", "given", Denied),
    ("create", "read_only", "new", Denied),
    ("remove", "read_only", "given", Denied),
    ("read", "outside", "note", Denied),
    ("stat", "outside", "note", Denied),
    ("write", "outside", "note", Denied),
    ("create", "outside", "new", Denied),
    ("create", "scratch", "new", Allowed),
    ("rename", "workspace", ".git", Denied),
    ("rename", "workspace", "vault", Denied),
    ("remove", "workspace", "new", Allowed),
];

/// Tries one operation after the other and prints a line for each: `allowed`, or the error.
const SCRIPT: &str = r#"
import json, os, sys
def attempt(operation, path):
    if operation == "read":
        open(path, "rb").read()
    elif operation == "stat":
        os.stat(path)
    elif operation == "write":
        open(path, "r+b").close()
    elif operation == "create":
        open(path, "xb").close()
    elif operation == "remove":
        os.unlink(path)
    elif operation == "rename":
        os.rename(path, path + ".moved")
for operation, path in json.loads(sys.argv[1]):
    try:
        attempt(operation, path)
        print("allowed")
    except OSError as error:
        print(error)
"#;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("linux_run_follows_the_access_table", linux_run_follows_the_table),
        Trial::test("macos_profile_follows_the_access_table", macos_profile_follows_the_table),
    ]
}

fn linux_run_follows_the_table() -> Result<(), Failed> {
    let fixture = TestWorkspace::new();
    let outside = tempfile::tempdir_in("/var/tmp")?;
    std::fs::write(outside.path().join("note"), "note")?;
    let place = |name: &str| match name {
        "workspace" => fixture.workspace.clone(),
        "read_only" => fixture.read_only.clone(),
        "outside" => outside.path().to_owned(),
        _ => PathBuf::from("/tmp"),
    };
    let attempts: Vec<(&str, PathBuf)> =
        TABLE.iter().map(|(operation, at, name, _)| (*operation, place(at).join(name))).collect();
    let attempts = serde_json::to_string(&attempts)?;
    let confined = fixture.confined(NetworkAccess::Off, &[PYTHON, "-c", SCRIPT, &attempts]);
    let finished = run_without(&[], &confined, SandboxTier::Full)?;
    let text = String::from_utf8_lossy(&finished.stdout.head).into_owned();
    if finished.end != RunEnd::Exited(0) {
        return Err(format!("{:?}: {text}{:?}", finished.end, finished.stderr.head).into());
    }
    let seen = text.lines().map(|line| if line == "allowed" { Allowed } else { Denied });
    compare(seen.collect(), &text)
}

fn macos_profile_follows_the_table() -> Result<(), Failed> {
    let fixture = TestWorkspace::new();
    let home = Path::new("/Users/me");
    let spec = fixture.confined(NetworkAccess::Off, &[PYTHON]).spec;
    let profile = profile::build(&below_home(spec, &fixture, home), &home.join("scratch"));
    let decide = |operation: &str, path: &Path| {
        let allowed = |name: &str| is_allowed(&profile, Operation::File(name, path));
        match operation {
            "read" => allowed("file-read-data"),
            "stat" => allowed("file-read-metadata"),
            "write" => allowed("file-write-data"),
            "create" => allowed("file-write-create"),
            "remove" | "rename" => allowed("file-write-unlink"),
            other => panic!("the operation `{other}` is unknown here"),
        }
    };
    let decisions =
        TABLE.iter().map(
            |(operation, at, name, _)| {
                if decide(operation, &home.join(at).join(name)) { Allowed } else { Denied }
            },
        );
    compare(decisions.collect(), &profile.text)
}

/// Moves the paths of a run to where they would be on a Mac: macOS hides homes, not all of the file system.
fn below_home(spec: RunSpec, fixture: &TestWorkspace, home: &Path) -> RunSpec {
    let moved = |path: PathBuf| {
        let below = |root: &Path, name: &str| Some(home.join(name).join(path.strip_prefix(root).ok()?));
        below(&fixture.workspace, "workspace")
            .or_else(|| below(&fixture.read_only, "read_only"))
            .unwrap_or(path)
    };
    let expected = |files: Vec<ExpectedFile>| {
        files.into_iter().map(|file| ExpectedFile { path: moved(file.path), ..file })
    };
    RunSpec {
        folder: moved(spec.folder),
        writable: spec.writable.into_iter().map(moved).collect(),
        readable: spec.readable.into_iter().map(moved).collect(),
        hidden: expected(spec.hidden).collect(),
        protected: expected(spec.protected).collect(),
        pinned: spec.pinned.into_iter().map(moved).collect(),
        ..spec
    }
}

fn compare(decisions: Vec<Decision>, detail: &str) -> Result<(), Failed> {
    assert_eq!(decisions.len(), TABLE.len(), "{detail}");
    let wrong: Vec<String> = TABLE
        .iter()
        .zip(decisions)
        .filter(|((.., expected), decision)| expected != decision)
        .map(|((operation, place, name, _), decision)| format!("{operation} {place}/{name}: {decision:?}"))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("{}\n{detail}", wrong.join("\n")).into()) }
}
