//! `sinew init`: writes the built-in configuration out for editing. What was edited stays.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use server::WorkspaceAccess;

use crate::cli::{InitArgs, PinArgs};
use crate::command::{pin, schema, workspace};
use crate::exit::{Exit, Problem};
use crate::host_table;
use crate::setting::Setting;
use crate::terminal::{NOTE, agrees, is_attended, paint, say, tell};

/// What to do with a file that is there and differs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Leave it.
    Keep,
    /// Replace it, and keep its content beside it.
    Replace,
}

pub(crate) fn run(args: &InitArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    write(&setting, if args.force { Existing::Replace } else { Existing::Keep })?;
    match args.pin {
        true => pin::set(&setting, args.pin_source).map(drop)?,
        false => offer_pin(&setting)?,
    }
    match &args.workspace {
        Some(dir) => workspace::add(&setting, dir, WorkspaceAccess::ReadWrite)?,
        None => tell("next: `sinew workspace add DIR` lets callers work in a folder"),
    }
    Ok(Exit::Done)
}

/// Without a PIN whatever runs as this user can say yes to itself: a person should know, and decide.
fn offer_pin(setting: &Setting) -> Result<(), Problem> {
    if pin::is_set(setting) {
        return Ok(());
    }
    tell(paint(
        NOTE,
        "there is no operator PIN: any process that runs as you, an agent's shell included, can approve",
    ));
    match is_attended() && agrees("set one now?") {
        true => pin::set(setting, PinArgs { pin_stdin: false }).map(drop),
        false => {
            tell("`sinew pin set` sets one");
            Ok(())
        }
    }
}

/// Whether nothing has been written out yet.
pub(crate) fn missing(setting: &Setting) -> bool {
    is_absent(&setting.home().settings_file())
}

/// A link that leads nowhere, or a name we may not look at, is there: somebody put it there.
fn is_absent(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Writes every file that is missing, and the schemas by which editors help with them.
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

/// The files of the policy folder, by name.
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
            let problem = Problem::configuration(format!("{shown} is there, but cannot be read: {error}"));
            Err(problem.hint("look at it; `sinew init --force` puts it aside and writes a new one"))
        }
        (_, Existing::Replace) => {
            keep_beside(file)?;
            replace(file, text)?;
            say(format!("replaced  {shown} (what was there is kept beside it)"))
        }
    }
}

/// Where the first line of each file says that its schema is. Nobody edits them: they are written anew each time.
fn write_schemas(folder: &Path, names: &[&str]) -> Result<(), Problem> {
    private_folder(folder)?;
    for (name, text) in names.iter().filter_map(|name| Some((name, schema::text(name)?))) {
        replace(&folder.join(format!("{name}.json")), &(text + "\n"))?;
    }
    say(format!("schemas   {} ({})", folder.display(), names.join(", ")))
}

/// Moves a file aside under a name that is free.
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

/// Replaces a file whole: no reader ever sees half of it.
pub(crate) fn replace(file: &Path, text: &str) -> Result<(), Problem> {
    let mut draft = file.as_os_str().to_owned();
    draft.push(format!(".{}.new", std::process::id()));
    let write = || {
        let options = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).to_owned();
        let mut handle = options.open(&draft)?;
        handle.write_all(text.as_bytes())?;
        handle.sync_all()?;
        fs::rename(&draft, file)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&draft);
        cannot_write(file, &error)
    })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Problem {
    Problem::configuration(format!("{} cannot be written: {error}", path.display()))
}
