//! Executor for `local` tools: scripts with JSON on standard input and standard output.
//!
//! The text of a script is read once with its manifest and passed to the interpreter on the command line. So
//! the hashed text is the text that runs, and the manifest folder, which no tool may access, stays hidden in
//! the sandbox. A script is therefore a single file.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use manifest::{LocalRuntime, LocalSection, ManifestCommandSpec as ToolCommand, OutputForm};
use registry::{CallPreview, ExecutionSite, ExecutorFuture, RecordedPermit, ToolExecutor};
use sandbox::{FolderAccess, Sandbox, SandboxCommand};
use serde_json::json;
use strict_yaml::Document;
use tool::{Arguments, Failure, FailureKind, Progress, canonical};

use crate::cli::grant_for_category;
use crate::file_pin::FilePin;
use crate::input_processor::{InputProcessor, with_opened_paths};
use crate::output_processor::OutputProcessor;
use crate::sandboxed_program::ToolProgram;

/// Maximum size of a script. It is below the kernel limit of 128 KiB for one argument (`MAX_ARG_STRLEN`).
const MAX_SCRIPT_BYTES: usize = 120 * 1024;

/// Interpreter and the arguments that carry the script.
#[derive(Clone, Debug)]
pub(crate) struct LocalScript {
    interpreter: String,
    arguments: Vec<String>,
    /// Text that determines the behaviour of the script, for the origin digest.
    pub(crate) pinned_text: String,
}

impl LocalScript {
    /// Reads the entry point of a manifest in `folder`. A file that another user could have changed is
    /// refused.
    pub(crate) fn read(section: &LocalSection, folder: &Path) -> Result<Self, String> {
        let path = folder.join(&section.entry_point);
        if section.runtime == LocalRuntime::Binary {
            strict_yaml::check_trusted(&path).map_err(|error| error.to_string())?;
            let interpreter = path.display().to_string();
            return Ok(LocalScript { interpreter, arguments: Vec::new(), pinned_text: String::new() });
        }
        let source = Document::read_trusted(&path).map_err(|error| error.to_string())?;
        let source = with_dependency_check(section, source.text());
        if source.len() > MAX_SCRIPT_BYTES {
            return Err(format!("`{}` is longer than {MAX_SCRIPT_BYTES} bytes", path.display()));
        }
        let (interpreter, flags): (_, &[&str]) = match section.runtime {
            LocalRuntime::Node => ("node", &["-e"]),
            // Isolated mode: no modules from the working directory or from the user's packages.
            LocalRuntime::Python | LocalRuntime::Binary => ("python3", &["-I", "-c"]),
        };
        let args = flags.iter().map(ToString::to_string).chain([source.clone()]).collect();
        Ok(LocalScript { interpreter: interpreter.to_owned(), arguments: args, pinned_text: source })
    }

    pub(crate) fn pin(&self) -> FilePin {
        FilePin::of_program(self.interpreter.as_ref())
    }

    /// Returns the arguments for display, with the script replaced by its size and digest.
    fn display_arguments(&self) -> Vec<String> {
        let is_source = |word: &String| !self.pinned_text.is_empty() && *word == self.pinned_text;
        let shown = |word: &String| match is_source(word) {
            true => format!(
                "(the script: {} bytes, sha256 {})",
                word.len(),
                canonical::sha256_hex(word.as_bytes())
            ),
            false => word.clone(),
        };
        self.arguments.iter().map(shown).collect()
    }
}

/// Prepends a check that reports a missing package by name before the script starts.
fn with_dependency_check(section: &LocalSection, source: &str) -> String {
    if section.dependencies.is_empty() {
        return source.to_owned();
    }
    let list = json!(section.dependencies);
    match section.runtime {
        LocalRuntime::Python => format!(
            "import importlib.util, sys\nfor name in {list}:\n    if importlib.util.find_spec(name) is None:\n        \
             sys.exit('the package ' + name + ' is not installed')\n{source}"
        ),
        LocalRuntime::Node => format!(
            "for (const name of {list}) {{ try {{ require.resolve(name); }} catch {{ \
             console.error('the package ' + name + ' is not installed'); process.exit(1); }} }}\n{source}"
        ),
        LocalRuntime::Binary => source.to_owned(),
    }
}

/// Executor of a `local` tool.
pub(crate) struct ScriptTool {
    program: ToolProgram,
    input: Arc<ScriptInput>,
    input_processor: InputProcessor,
    output_processor: OutputProcessor,
}

/// Script and the command that it receives on standard input.
struct ScriptInput {
    script: Arc<LocalScript>,
    command: String,
    grant: FolderAccess,
}

impl ScriptTool {
    pub(crate) fn new(
        sandbox: &Sandbox,
        script: &Arc<LocalScript>,
        command: &ToolCommand,
        (input_processor, output_processor): (InputProcessor, OutputProcessor),
        pin: FilePin,
    ) -> Self {
        let guide = Some(format!("install `{}`", script.interpreter));
        let grant = grant_for_category(command.category.as_ref());
        ScriptTool {
            program: ToolProgram {
                sandbox: sandbox.clone(),
                pin,
                output: OutputForm::Json,
                install_guide: guide,
            },
            input: Arc::new(ScriptInput { script: Arc::clone(script), command: command.name.clone(), grant }),
            input_processor,
            output_processor,
        }
    }
}

impl ScriptInput {
    fn command(&self, arguments: &Arguments, deadline: Instant) -> Result<SandboxCommand, Failure> {
        let input = json!({"command": self.command, "arguments": arguments});
        let input = serde_json::to_vec(&input);
        let input = input.map_err(|error| Failure::new(FailureKind::Crashed, error.to_string()))?;
        let args = self.script.arguments.iter().map(Into::into).collect();
        Ok(SandboxCommand {
            input: Some(input),
            folder_access: self.grant,
            ..SandboxCommand::read_only(&self.script.interpreter, args, deadline)
        })
    }
}

impl ToolExecutor for ScriptTool {
    fn preview(&self, permit: &Permit) -> Result<CallPreview, Failure> {
        let preview = self.input_processor.preview(with_opened_paths(permit), permit)?;
        let command = self.input.command(&preview.arguments, Instant::now())?;
        // The operator reviewed the script when accepting it, and it has not changed, so its digest
        // identifies it.
        let args: Vec<OsString> = self.input.script.display_arguments().into_iter().map(Into::into).collect();
        let facts = self.program.preview_facts(permit, &command, &args)?;
        Ok(preview.into_preview(facts, ExecutionSite::AsDefined))
    }

    fn backing(&self) -> Vec<(&'static str, String)> {
        let LocalScript { interpreter, .. } = &*self.input.script;
        vec![("program", interpreter.clone()), ("argv", self.input.script.display_arguments().join(" "))]
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        self.run_with_progress(recorded_permit, Progress::default())
    }

    fn run_with_progress(&self, recorded_permit: Arc<RecordedPermit>, progress: Progress) -> ExecutorFuture {
        let (program, feed) = (self.program.clone(), Arc::clone(&self.input));
        let (before, after) = (self.input_processor.clone(), self.output_processor.clone());
        Box::pin(async move {
            let arguments =
                before.process(with_opened_paths(recorded_permit.value()), recorded_permit.value()).await?;
            let output = program
                .run(recorded_permit, &progress, move |_, deadline| feed.command(&arguments, deadline));
            after.process(output.await?).await
        })
    }
}
