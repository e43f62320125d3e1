//! `sinew init`: writes a configuration to edit. Files that a person has edited are kept.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use server::settings::WorkspaceAccessSetting;

use crate::cli::InitArgs;
use crate::command::{pin, schema, workspace};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::host_table;
use crate::terminal::{print_message, print_result_line, print_warning};

/// Treatment of an existing file that differs from the built-in one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingFile {
    /// Keep the file.
    Keep,
    /// Replace the file and keep the old one beside it.
    Replace,
}

pub(crate) fn run(args: &InitArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let existing = if args.force { ExistingFile::Replace } else { ExistingFile::Keep };
    let extent = if args.full { ConfigExtent::Full } else { ConfigExtent::Start };
    let tools = match args.preset {
        Some(preset) => {
            refuse_existing_policy(&context, existing)?;
            preset.show_home_policy()?
        }
        None => START_TOOLS,
    };
    write_configuration(&context, extent, tools, existing)?;
    match args.pin {
        true => pin::set(&context, args.pin_source).map(drop)?,
        false => warn_without_pin(&context),
    }
    match &args.workspace {
        Some(dir) => workspace::add(&context, dir, WorkspaceAccessSetting::ReadWrite)?,
        None => print_message("next: run `sinew workspace add DIR` to let callers work in a folder"),
    }
    Ok(ExitKind::Done)
}

/// Refuses to write a preset to a home with a `tools.yaml`: it would be kept, and the preset would not apply.
fn refuse_existing_policy(context: &CommandContext, existing: ExistingFile) -> Result<(), CommandError> {
    let file = context.home().config_dir().join("governance/tools.yaml");
    if existing == ExistingFile::Replace || is_absent(&file) {
        return Ok(());
    }
    let problem = CommandError::usage(format!("`{}` exists already", file.display()));
    Err(problem
        .with_hint("edit it, or run the command with `--force`, which keeps the old file beside the new one"))
}

/// Warns if there is no operator PIN: without one, any process of this user can approve its own calls. It
/// does not prompt, because a prompt would read the next line that a person has already typed.
fn warn_without_pin(context: &CommandContext) {
    if !pin::is_set(context) {
        print_warning(
            "no operator PIN is set: any process that runs as you, including an agent's shell, can approve calls",
        );
        print_message("run `sinew pin set` to set one");
    }
}

/// Returns true if the configuration has not been written out yet.
pub(crate) fn is_uninitialised(context: &CommandContext) -> bool {
    is_absent(&context.home().settings_file())
}

/// Returns true if the path does not exist. A dangling link, or a path without access, counts as existing,
/// because it must not be overwritten.
fn is_absent(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Files that `sinew init` writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigExtent {
    /// A short settings file and a short `tools.yaml`. The built-in configuration applies below them.
    Start,
    /// Every file with all its built-in content. They replace the built-in ones.
    Full,
}

/// Writes the settings file of a home that has none.
pub(crate) fn write_settings(context: &CommandContext) -> Result<(), CommandError> {
    create_private_folder(context.home().config_dir())?;
    write_file(&context.home().settings_file(), START_SETTINGS, ExistingFile::Keep)
}

/// Writes every missing file, and the JSON Schemas that editors use.
fn write_configuration(
    context: &CommandContext,
    extent: ConfigExtent,
    tools: &str,
    existing: ExistingFile,
) -> Result<(), CommandError> {
    let governance = context.home().config_dir().join("governance");
    create_private_folder(&governance)?;
    let names: Vec<&str> = policy_files().map(|(name, _)| name.trim_end_matches(".yaml")).collect();
    match extent {
        ConfigExtent::Start => {
            write_file(&context.home().settings_file(), START_SETTINGS, existing)?;
            write_file(&governance.join("tools.yaml"), tools, existing)?;
        }
        ConfigExtent::Full => {
            write_file(&context.home().settings_file(), server::settings::SETTINGS_TEMPLATE, existing)?;
            for (name, text) in policy_files() {
                write_file(&governance.join(name), &with_extends_none(text), existing)?;
            }
            let hosts = context.home().config_dir().join("hosts");
            create_private_folder(&hosts)?;
            for (name, text) in host_table::EMBEDDED {
                write_file(&hosts.join(format!("{name}.yaml")), text, existing)?;
            }
            write_schemas(&hosts.join("schema"), &["host"])?;
        }
    }
    write_schemas(&governance.join("schema"), &names)
}

/// Settings file of a new home.
const START_SETTINGS: &str = "\
# Settings of the Sinew daemon. Everything that is not here has its default: `sinew config show` lists all settings.
workspaces: []
";

/// `tools.yaml` of a new home.
const START_TOOLS: &str = "\
# yaml-language-server: $schema=schema/tools.json
# Your policy. It overrides the built-in one key by key; `sinew config show --effective` prints the result.
# A list replaces the built-in list; `{add: [...]}` extends it and `{remove: [...]}` shortens it. For example:
#
#   run_command:
#     allowed_commands: {add: [cargo, {argv: [npm, test]}]}
#   fetch_url:
#     allowed_domains: [docs.python.org]
#
# `sinew check` tests this file, `sinew explain TOOL KEY=VALUE` shows how a call would be decided. More: docs/policy.md.
tools: {}
";

/// Returns the first text of a file that a person begins to edit.
pub(crate) fn start_text(file: &str) -> &'static str {
    match file {
        "settings" => START_SETTINGS,
        "tools" => START_TOOLS,
        "modes" => "# Your modes. They override the built-in ones key by key.\nmodes: {}\n",
        "safety" => {
            "# Your safety rules. They override the built-in ones key by key.\noutbound_gateway: {}\n"
        }
        _ => "# Your argument requirements. They override the built-in ones key by key.\ntools: {}\n",
    }
}

/// Returns a built-in policy file with `extends: none`, so that it replaces the built-in one. A rule that is
/// deleted from it no longer applies.
fn with_extends_none(text: &str) -> String {
    let is_head = |line: &&str| line.starts_with('#');
    let head: usize = text.split_inclusive('\n').take_while(is_head).map(str::len).sum();
    let (head, rest) = text.split_at(head);
    format!("{head}extends: none\n{rest}")
}

/// Returns the names and texts of the built-in policy files.
fn policy_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    governance::EMBEDDED_FILES.into_iter().chain([guardrail::EMBEDDED_FILE])
}

fn write_file(file: &Path, text: &str, existing: ExistingFile) -> Result<(), CommandError> {
    let shown = file.display();
    if is_absent(file) {
        replace_atomically(file, text)?;
        return print_result_line(format!("wrote     {shown}"));
    }
    match (fs::read(file), existing) {
        (Ok(current), _) if current == text.as_bytes() => print_result_line(format!("unchanged {shown}")),
        (Ok(_), ExistingFile::Keep) => print_result_line(format!("kept      {shown} (edited)")),
        (Err(error), ExistingFile::Keep) => {
            let problem = CommandError::configuration(format!("{shown} exists, but cannot be read: {error}"));
            Err(problem.with_hint("fix it, or run `sinew init --force` to move it aside and write a new one"))
        }
        (_, ExistingFile::Replace) => {
            move_aside(file)?;
            replace_atomically(file, text)?;
            print_result_line(format!("replaced  {shown} (the old file is kept beside it)"))
        }
    }
}

/// Writes the schemas to the folder that the first line of each file refers to. They are not meant to be
/// edited, so they are overwritten each time.
fn write_schemas(folder: &Path, names: &[&str]) -> Result<(), CommandError> {
    create_private_folder(folder)?;
    for (name, text) in names.iter().filter_map(|name| Some((name, schema::schema_text(name)?))) {
        replace_atomically(&folder.join(format!("{name}.json")), &(text + "\n"))?;
    }
    print_result_line(format!("schemas   {} ({})", folder.display(), names.join(", ")))
}

/// Renames a file to a free name beside it.
fn move_aside(file: &Path) -> Result<(), CommandError> {
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
    Err(CommandError::configuration(format!("too many old copies of {}", file.display())))
}

fn create_private_folder(folder: &Path) -> Result<(), CommandError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| cannot_write(folder, &error))
}

/// Replaces a private file atomically.
pub(crate) fn replace_atomically(file: &Path, text: &str) -> Result<(), CommandError> {
    strict_yaml::replace_private_file(file, text.as_bytes()).map_err(|error| cannot_write(file, &error))
}

/// Replaces a private file atomically, unless it was edited since a command read it as `known`.
pub(crate) fn replace_unchanged(file: &Path, known: Option<&str>, text: &str) -> Result<(), CommandError> {
    let current = match std::fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            return Err(CommandError::configuration(format!("{} cannot be read: {error}", file.display())));
        }
    };
    if current.as_deref() != known {
        let problem = format!("{} was changed while this command ran", file.display());
        return Err(CommandError::configuration(problem).with_hint("run the command again"));
    }
    replace_atomically(file, text)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::configuration(format!("{} cannot be written: {error}", path.display()))
}
