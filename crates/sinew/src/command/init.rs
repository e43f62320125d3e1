//! `sinew init`: writes the built-in configuration out for editing. What was edited stays.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::cli::InitArgs;
use crate::command::workspace;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use crate::terminal::{say, tell};

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
    match &args.workspace {
        Some(dir) => workspace::add(&setting, dir, false)?,
        None => tell("next: `sinew workspace add DIR` lets callers work in a folder"),
    }
    Ok(Exit::Done)
}

/// Whether nothing has been written out yet.
pub(crate) fn missing(setting: &Setting) -> bool {
    !setting.home().settings_file().exists()
}

/// Writes every file that is missing.
pub(crate) fn write(setting: &Setting, existing: Existing) -> Result<(), Problem> {
    let config = setting.home().config();
    let settings = ("sinew.yaml", server::SETTINGS_TEMPLATE);
    let governance = governance::EMBEDDED.iter().map(|(name, text)| (format!("governance/{name}"), *text));
    for (name, text) in std::iter::once((settings.0.to_owned(), settings.1)).chain(governance) {
        let file = config.join(&name);
        private_folder(file.parent().unwrap_or(config))?;
        match fs::read_to_string(&file) {
            Ok(current) if current == text => say(format!("unchanged {}", file.display())),
            Ok(_) if existing == Existing::Keep => say(format!("kept      {} (edited)", file.display())),
            Ok(_) => {
                keep_beside(&file)?;
                replace(&file, text)?;
                say(format!("replaced  {} (the edited file is kept beside it)", file.display()));
            }
            Err(_) => {
                replace(&file, text)?;
                say(format!("wrote     {}", file.display()));
            }
        }
    }
    Ok(())
}

/// Moves a file aside under a name that is free.
fn keep_beside(file: &Path) -> Result<(), Problem> {
    let free = (1..1000).map(|number| {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{number}.old"));
        name
    });
    for name in free {
        if !Path::new(&name).exists() {
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
