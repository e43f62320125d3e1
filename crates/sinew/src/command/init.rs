//! `sinew init`: writes the built-in configuration out for editing. Edited files are kept.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use server::WorkspaceAccess;

use crate::cli::InitArgs;
use crate::command::{pin, schema, workspace};
use crate::exit::{Exit, Problem};
use crate::host_table;
use crate::setting::Setting;
use crate::terminal::{NOTE, paint, say, tell};

/// Treatment of an existing file that differs from the built-in one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Keep the file.
    Keep,
    /// Replace the file and keep the old one beside it.
    Replace,
}

pub(crate) fn run(args: &InitArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    write(&setting, if args.force { Existing::Replace } else { Existing::Keep })?;
    match args.pin {
        true => pin::set(&setting, args.pin_source).map(drop)?,
        false => warn_without_pin(&setting),
    }
    match &args.workspace {
        Some(dir) => workspace::add(&setting, dir, WorkspaceAccess::ReadWrite)?,
        None => tell("next: run `sinew workspace add DIR` to let callers work in a folder"),
    }
    Ok(Exit::Done)
}

/// Warns if there is no operator PIN: without one, any process of this user can approve its own calls. It asks
/// nothing, because a prompt would take the next line that a person has already typed.
fn warn_without_pin(setting: &Setting) {
    if !pin::is_set(setting) {
        tell(paint(
            NOTE,
            "no operator PIN is set: any process that runs as you, including an agent's shell, can approve calls",
        ));
        tell("run `sinew pin set` to set one");
    }
}

/// Returns true if the configuration has not been written out yet.
pub(crate) fn missing(setting: &Setting) -> bool {
    is_absent(&setting.home().settings_file())
}

/// Returns true if the path does not exist. A dangling link, or a path without access, counts as existing,
/// because it must not be overwritten.
fn is_absent(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Writes every missing file, and the JSON Schemas that editors use.
pub(crate) fn write(setting: &Setting, existing: Existing) -> Result<(), Problem> {
    let governance = setting.home().config().join("governance");
    private_folder(&governance)?;
    put(&setting.home().settings_file(), server::SETTINGS_TEMPLATE, existing)?;
    for (name, text) in policy_files() {
        put(&governance.join(name), text, existing)?;
    }
    let hosts = setting.home().config().join("hosts");
    private_folder(&hosts)?;
    for (name, text) in host_table::EMBEDDED {
        put(&hosts.join(format!("{name}.yaml")), text, existing)?;
    }
    let names: Vec<&str> = policy_files().map(|(name, _)| name.trim_end_matches(".yaml")).collect();
    write_schemas(&governance.join("schema"), &names)?;
    write_schemas(&hosts.join("schema"), &["host"])
}

/// Returns the names and texts of the built-in policy files.
fn policy_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    governance::EMBEDDED.into_iter().chain([guardrail::EMBEDDED])
}

fn put(file: &Path, text: &str, existing: Existing) -> Result<(), Problem> {
    let shown = file.display();
    if is_absent(file) {
        replace(file, text)?;
        return say(format!("wrote     {shown}"));
    }
    match (fs::read(file), existing) {
        (Ok(current), _) if current == text.as_bytes() => say(format!("unchanged {shown}")),
        (Ok(_), Existing::Keep) => say(format!("kept      {shown} (edited)")),
        (Err(error), Existing::Keep) => {
            let problem = Problem::configuration(format!("{shown} exists, but cannot be read: {error}"));
            Err(problem.hint("fix it, or run `sinew init --force` to move it aside and write a new one"))
        }
        (_, Existing::Replace) => {
            keep_beside(file)?;
            replace(file, text)?;
            say(format!("replaced  {shown} (the old file is kept beside it)"))
        }
    }
}

/// Writes the schemas to the folder that the first line of each file refers to. They are not meant to be
/// edited, so they are overwritten each time.
fn write_schemas(folder: &Path, names: &[&str]) -> Result<(), Problem> {
    private_folder(folder)?;
    for (name, text) in names.iter().filter_map(|name| Some((name, schema::text(name)?))) {
        replace(&folder.join(format!("{name}.json")), &(text + "\n"))?;
    }
    say(format!("schemas   {} ({})", folder.display(), names.join(", ")))
}

/// Renames a file to a free name beside it.
fn keep_beside(file: &Path) -> Result<(), Problem> {
    let free = (1..1000).map(|number| {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{number}.old"));
        name
    });
    for name in free {
        if is_absent(Path::new(&name)) {
            return fs::rename(file, &name).map_err(|error| cannot_write(file, &error));
        }
    }
    Err(Problem::configuration(format!("too many old copies of {}", file.display())))
}

fn private_folder(folder: &Path) -> Result<(), Problem> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| cannot_write(folder, &error))
}

/// Replaces a private file atomically.
pub(crate) fn replace(file: &Path, text: &str) -> Result<(), Problem> {
    strict_yaml::replace_private(file, text.as_bytes()).map_err(|error| cannot_write(file, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Problem {
    Problem::configuration(format!("{} cannot be written: {error}", path.display()))
}
