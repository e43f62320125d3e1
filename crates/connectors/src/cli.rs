//! Executor for `cli` tools: a program with a command line from its manifest.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use governance::Permit;
use manifest::{ARGS_ARGUMENT, ArgvPart, CliSection, ManifestCommandSpec as ToolCommand, OutputForm};
use registry::{CallPreview, ExecutionSite, ExecutorFuture, RecordedPermit, ToolExecutor};
use sandbox::{FolderAccess, Sandbox, SandboxCommand, WorkingDirectory};
use serde_json::Value;
use tool::{Arguments, Category, Failure, FailureKind, Progress, ToolOutput};

use crate::argv;
use crate::file_pin::FilePin;
use crate::input_processor::InputProcessor;
use crate::output_processor::OutputProcessor;
use crate::sandboxed_program::ToolProgram;

/// Executor of a `cli` tool.
#[derive(Clone)]
pub(crate) struct CliTool {
    program: ToolProgram,
    template: Arc<CommandTemplate>,
    input_processor: InputProcessor,
    output_processor: OutputProcessor,
}

/// Command line and write permission of a program.
struct CommandTemplate {
    executable: String,
    argv: Vec<ArgvPart>,
    /// Words of the command's name, for a command without `argv`. The words of the argument `args` follow them.
    implicit_args: Option<Vec<String>>,
    grant: FolderAccess,
    /// Arguments of the installation check.
    check_arguments: Option<Vec<String>>,
    check_passed: AtomicBool,
}

impl CliTool {
    pub(crate) fn new(
        sandbox: &Sandbox,
        section: &CliSection,
        (command, implicit_args): (&ToolCommand, Option<Vec<String>>),
        (before, after): (InputProcessor, OutputProcessor),
        pin: FilePin,
    ) -> Self {
        let guide = section.install_guide.clone();
        let line = CommandTemplate {
            executable: section.executable.clone(),
            argv: command.argv.clone(),
            implicit_args,
            grant: grant_for_category(command.category.as_ref()),
            check_arguments: section
                .install_check_args()
                .map(|args| args.into_iter().map(str::to_owned).collect()),
            check_passed: AtomicBool::new(false),
        };
        CliTool {
            program: ToolProgram {
                sandbox: sandbox.clone(),
                pin,
                output: command.output,
                install_guide: guide,
            },
            template: Arc::new(line),
            input_processor: before,
            output_processor: after,
        }
    }

    async fn execute(
        self,
        recorded_permit: Arc<RecordedPermit>,
        progress: Progress,
    ) -> Result<ToolOutput, Failure> {
        self.check_installed(&recorded_permit).await?;
        let permit = recorded_permit.value();
        let arguments = self.input_processor.process(permit.call().tool_arguments(), permit).await?;
        let line = Arc::clone(&self.template);
        let command = move |permit: &Permit, deadline| line.command(permit, &arguments, deadline);
        self.output_processor.process(self.program.run(recorded_permit, &progress, command).await?).await
    }

    /// Runs the installation check of the manifest until it has succeeded once.
    async fn check_installed(&self, recorded_permit: &Arc<RecordedPermit>) -> Result<(), Failure> {
        let Some(args) = self
            .template
            .check_arguments
            .clone()
            .filter(|_| !self.template.check_passed.load(Ordering::Relaxed))
        else {
            return Ok(());
        };
        let (executable, shown) = (self.template.executable.clone(), args.join(" "));
        let program = ToolProgram { output: OutputForm::Text, ..self.program.clone() };
        let command = move |_: &Permit, deadline: Instant| {
            let deadline = deadline.min(Instant::now() + CHECK_TIMEOUT);
            Ok(SandboxCommand::read_only(executable, args.iter().map(Into::into).collect(), deadline))
        };
        let tried = program.run(Arc::clone(recorded_permit), &Progress::default(), command).await?;
        if tried.value.get("exit_code").and_then(Value::as_i64) == Some(0) {
            self.template.check_passed.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let message = format!("nothing was run: the check `{} {shown}` failed", self.template.executable);
        let guide = self.program.install_guide.as_deref().unwrap_or("install it again").trim().to_owned();
        Err(Failure {
            output: Some(tried.value),
            ..Failure::new(FailureKind::NotFound, message).with_hint(guide)
        })
    }
}

/// Returns the write permission for a category. A read-only or network tool is confined to reading: its
/// declaration is enforced.
pub(crate) fn grant_for_category(category: Option<&Category>) -> FolderAccess {
    let only_looks = [Category::READ_ONLY, Category::NETWORK].iter().any(|one| category == Some(one));
    if only_looks { FolderAccess::ReadOnly } else { FolderAccess::AsPermitted }
}

/// Timeout of the installation check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Argument that names the working directory of a tool.
const CWD_ARGUMENT: &str = "cwd";

impl CommandTemplate {
    fn command(
        &self,
        permit: &Permit,
        arguments: &Arguments,
        deadline: Instant,
    ) -> Result<SandboxCommand, Failure> {
        let folder = permit.path(CWD_ARGUMENT).map(|path| path.canonical().to_owned());
        let args = match &self.implicit_args {
            Some(args) => implicit_args(args, arguments),
            None => argv::build_argv(&self.argv, permit, arguments)?,
        };
        Ok(SandboxCommand {
            working_directory: WorkingDirectory::from_request(folder),
            folder_access: self.grant,
            ..SandboxCommand::read_only(&self.executable, args, deadline)
        })
    }
}

/// Returns the words of a command without `argv`. The schema permits only a list of texts as `args`, and the
/// command rules of the policy have judged the whole command.
fn implicit_args(prefix_args: &[String], arguments: &Arguments) -> Vec<OsString> {
    let caller_args = arguments.get(ARGS_ARGUMENT).and_then(Value::as_array).into_iter().flatten();
    prefix_args
        .iter()
        .map(String::as_str)
        .chain(caller_args.filter_map(Value::as_str))
        .map(Into::into)
        .collect()
}

impl ToolExecutor for CliTool {
    fn preview(&self, permit: &Permit) -> Result<CallPreview, Failure> {
        let preview = self.input_processor.preview(permit.call().tool_arguments(), permit)?;
        let command = self.template.command(permit, &preview.arguments, Instant::now())?;
        let facts = self.program.preview_facts(permit, &command, &command.arguments)?;
        Ok(preview.into_preview(facts, ExecutionSite::AsDefined))
    }

    fn backing(&self) -> Vec<(&'static str, String)> {
        let display_part = |part: &ArgvPart| match part {
            ArgvPart::Word(word) => word.clone(),
            ArgvPart::Optional(group) => format!("[{}]", group.join(" ")),
        };
        let mut argv: Vec<String> = self.template.argv.iter().map(display_part).collect();
        if let Some(args) = &self.template.implicit_args {
            argv.extend(args.iter().cloned().chain([format!("{{{ARGS_ARGUMENT}}}")]));
        }
        vec![("program", self.template.executable.clone()), ("argv", argv.join(" "))]
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        self.run_with_progress(recorded_permit, Progress::default())
    }

    fn run_with_progress(&self, recorded_permit: Arc<RecordedPermit>, progress: Progress) -> ExecutorFuture {
        Box::pin(self.clone().execute(recorded_permit, progress))
    }
}
