//! Executor for `cli` tools: a program with a command line from its manifest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use governance::Permit;
use manifest::{ArgvPart, CliSection, Command as ToolCommand, OutputForm};
use registry::{AtWork, Order, Preview, Running, ToolExecutor};
use sandbox::{Command, Grant, Sandbox, Workplace};
use serde_json::Value;
use tool::{Arguments, Category, Failure, FailureKind, Output};

use crate::argv;
use crate::before::Before;
use crate::behind_walls::Program;
use crate::payload::After;
use crate::pinned::Pin;

/// Executor of a `cli` tool.
#[derive(Clone)]
pub(crate) struct Cli {
    program: Program,
    line: Arc<Line>,
    before: Before,
    after: After,
}

/// Command line and write permission of a program.
struct Line {
    executable: String,
    argv: Vec<ArgvPart>,
    grant: Grant,
    /// Arguments of the installation check.
    check: Option<Vec<String>>,
    is_checked: AtomicBool,
}

impl Cli {
    pub(crate) fn new(
        sandbox: &Sandbox,
        section: &CliSection,
        command: &ToolCommand,
        (before, after): (Before, After),
        pin: Pin,
    ) -> Self {
        let guide = section.install_guide.clone();
        let line = Line {
            executable: section.executable.clone(),
            argv: command.argv.clone(),
            grant: grant_of(command.category.as_ref()),
            check: section.check().map(|words| words.into_iter().map(str::to_owned).collect()),
            is_checked: AtomicBool::new(false),
        };
        Cli {
            program: Program { sandbox: sandbox.clone(), pin, output: command.output, guide },
            line: Arc::new(line),
            before,
            after,
        }
    }

    async fn work(self, order: Arc<Order>) -> Result<Output, Failure> {
        self.check(&order).await?;
        let permit = order.value();
        let arguments = self.before.process(permit.call().handed_over(), permit).await?;
        let line = Arc::clone(&self.line);
        let command = move |permit: &Permit, deadline| line.command(permit, &arguments, deadline);
        self.after.process(self.program.run(order, command).await?).await
    }

    /// Runs the installation check of the manifest until it has succeeded once.
    async fn check(&self, order: &Arc<Order>) -> Result<(), Failure> {
        let Some(words) = self.line.check.clone().filter(|_| !self.line.is_checked.load(Ordering::Relaxed))
        else {
            return Ok(());
        };
        let (executable, shown) = (self.line.executable.clone(), words.join(" "));
        let program = Program { output: OutputForm::Text, ..self.program.clone() };
        let command = move |_: &Permit, deadline: Instant| {
            let deadline = deadline.min(Instant::now() + TIME_TO_CHECK);
            Ok(Command::read_only(executable, words.iter().map(Into::into).collect(), deadline))
        };
        let tried = program.run(Arc::clone(order), command).await?;
        if tried.value.get("exit_code").and_then(Value::as_i64) == Some(0) {
            self.line.is_checked.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let message = format!("nothing was run: the check `{} {shown}` failed", self.line.executable);
        let guide = self.program.guide.as_deref().unwrap_or("install it again").trim().to_owned();
        Err(Failure { output: Some(tried.value), ..Failure::new(FailureKind::NotFound, message).hint(guide) })
    }
}

/// Returns the write permission for a category. A read-only or network tool is confined to reading: its
/// declaration is enforced.
pub(crate) fn grant_of(category: Option<&Category>) -> Grant {
    let only_looks = [Category::READ_ONLY, Category::NETWORK].iter().any(|one| category == Some(one));
    if only_looks { Grant::ReadOnly } else { Grant::AsPermitted }
}

/// Timeout of the installation check.
const TIME_TO_CHECK: Duration = Duration::from_secs(10);

/// Argument that names the working directory of a tool.
const FOLDER: &str = "cwd";

impl Line {
    fn command(&self, permit: &Permit, arguments: &Arguments, deadline: Instant) -> Result<Command, Failure> {
        let folder = permit.path(FOLDER).map(|path| path.canonical().to_owned());
        let words = argv::words(&self.argv, permit, arguments)?;
        Ok(Command {
            workplace: Workplace::asked_for(folder),
            grant: self.grant,
            ..Command::read_only(&self.executable, words, deadline)
        })
    }
}

impl ToolExecutor for Cli {
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        let foreseen = self.before.foresee(permit.call().handed_over(), permit)?;
        let command = self.line.command(permit, &foreseen.arguments, Instant::now())?;
        let facts = self.program.foresee(permit, &command, &command.arguments)?;
        Ok(foreseen.preview(facts, AtWork::AsDefined))
    }

    fn stands_for(&self) -> Vec<(&'static str, String)> {
        let words = |part: &ArgvPart| match part {
            ArgvPart::Word(word) => word.clone(),
            ArgvPart::Optional(words) => format!("[{}]", words.join(" ")),
        };
        let argv: Vec<String> = self.line.argv.iter().map(words).collect();
        vec![("program", self.line.executable.clone()), ("argv", argv.join(" "))]
    }

    fn run(&self, order: Arc<Order>) -> Running {
        Box::pin(self.clone().work(order))
    }
}
