//! `sinew manifest new`: a commented manifest of each type to start from.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use crate::cli::ManifestKind;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::print_result_line;

/// Beginning of every manifest.
const CORE: &str = "\
# See docs/manifests.md. Check this file with `sinew manifest check`, then run `sinew reload`.
tool:
  schema_version: 2.0
  id: NAME                      # the tools are NAME.COMMAND
  type: TYPE
  name: NAME
  version: 1.0.0
  description: Describe the purpose of the tool here
";
const CLI: &str = "  cli_specific:
    executable: echo              # a program in a system folder, without arguments
    # install_check: echo --version
    # install_guide: Say here how to install it.
  commands:
    - name: say
      description: Describe the command here
      category: read_only         # enforced: the sandbox mounts its folders read-only
      risk_level: low
      parameters:
        - {name: text, type: string, description: Text to print}
      argv: [--, \"{text}\"]        # one word each, never a shell; {text} is one whole argument
";
const LOCAL: &str = "  local_specific:
    entry_point: ./NAME.py        # gets {command, arguments} as JSON on standard input, replies with JSON
    runtime: python               # node | python | binary
  commands:
    - name: run
      description: Describe the command here
      category: read_only         # enforced: the sandbox mounts its folders read-only
      risk_level: low
      parameters:
        - {name: text, type: string, description: Text to process}
";
const MCP: &str = "  mcp_specific:
    transport: stdio              # stdio | streamable_http | sse | websocket; the last three need `url`
    server_command: PROGRAM       # `sinew manifest import` writes this section and the commands for you
    # server_args: [stdio]        # further arguments, one word each
    # environment_variables: [{name: API_KEY}]   # the value comes from `keys` in sinew.yaml
  commands:
    - name: tool_of_the_server
      description: Describe the command here
      # category: read_only       # if it changes nothing; the sandbox enforces it
";
const META: &str = "  meta_specific:
    aggregates: [list_directory]  # the tools it may call
    orchestration: helpers.plan
  executable_knowledge:
    helpers:
      - id: plan
        language: javascript
        runtime: isolated_vm
        function: |
          ({ steps: [{ id: \"list\", tool: \"list_directory\", arguments: { path: args.path } }] })
  commands:
    - name: run
      description: Describe the command here
      parameters:
        - {name: path, type: string, format: path}
";

pub(super) fn run(
    context: &CommandContext,
    name: &str,
    kind: ManifestKind,
) -> Result<ExitKind, CommandError> {
    let (word, section) = match kind {
        ManifestKind::Cli => ("cli", CLI),
        ManifestKind::Local => ("local", LOCAL),
        ManifestKind::Mcp => ("mcp", MCP),
        ManifestKind::Meta => ("meta", META),
    };
    let text = format!("{CORE}{section}").replace("NAME", name).replace("TYPE", word);
    let file = write(context, name, &text)?;
    print_result_line(format!("{} was written. Edit it, then: sinew manifest check {0}", file.display()))?;
    Ok(ExitKind::Done)
}

/// Writes a manifest into the folder of this home. An existing file is not replaced.
pub(super) fn write(context: &CommandContext, name: &str, text: &str) -> Result<PathBuf, CommandError> {
    check_name(name)?;
    let folder = context.home().tools_dir();
    let file = folder.join(format!("{name}.yaml"));
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => {
            CommandError::configuration(format!("`{}` exists and was not changed", file.display()))
                .with_hint("remove it first, or choose another name")
        }
        _ => CommandError::failed(format!("`{}` cannot be written: {error}", file.display())),
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut created = std::fs::File::options().write(true).create_new(true).open(&file).map_err(failed)?;
    created.write_all(text.as_bytes()).map_err(failed)?;
    Ok(file)
}

/// Checks the id of a new manifest, which becomes a file name and a part of tool names.
pub(super) fn check_name(name: &str) -> Result<(), CommandError> {
    let word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if name.len() <= 40 && name.split('-').all(word) {
        return Ok(());
    }
    Err(CommandError::configuration("the name must be kebab-case, at most 40 characters")
        .with_hint("use lower-case letters, digits and single hyphens, such as `my-server`"))
}
