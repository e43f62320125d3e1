//! Programs with a command line, by the words their manifest puts together.

use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use manifest::{ArgvPart, CliSection, Command as ToolCommand};
use registry::{Order, Preview, Running, ToolExecutor};
use sandbox::{Command, Grant, Sandbox};
use tool::{Category, Failure};

use crate::argv;
use crate::behind_walls::Program;
use crate::payload::After;
use crate::pinned::Pin;

/// The body of a `cli` tool.
pub(crate) struct Cli {
    program: Program,
    line: Arc<Line>,
    after: After,
}

/// A command line and what its program may do.
struct Line {
    executable: String,
    argv: Vec<ArgvPart>,
    grant: Grant,
}

impl Cli {
    pub(crate) fn new(
        sandbox: &Sandbox,
        section: &CliSection,
        command: &ToolCommand,
        after: After,
        pin: Pin,
    ) -> Self {
        let guide = section.install_guide.clone();
        let line = Line {
            executable: section.executable.clone(),
            argv: command.argv.clone(),
            grant: grant_of(command.category.as_ref()),
        };
        Cli {
            program: Program { sandbox: sandbox.clone(), pin, output: command.output, guide },
            line: Arc::new(line),
            after,
        }
    }
}

/// A tool that says it only reads, or only asks elsewhere, is taken at its word: it cannot change anything here.
pub(crate) fn grant_of(category: Option<&Category>) -> Grant {
    let only_looks = [Category::READ_ONLY, Category::NETWORK].iter().any(|one| category == Some(one));
    if only_looks { Grant::ReadOnly } else { Grant::AsPermitted }
}

/// The argument that names the folder a tool runs in, if it has one.
const FOLDER: &str = "cwd";

impl Line {
    fn command(&self, permit: &Permit, deadline: Instant) -> Result<Command, Failure> {
        let folder = permit.path(FOLDER);
        Ok(Command {
            program: self.executable.clone().into(),
            arguments: argv::words(&self.argv, permit)?,
            input: None,
            folder: folder.map(|path| path.canonical().to_owned()),
            deadline,
            output_bytes: 0,
            grant: self.grant,
            variables: Vec::new(),
        })
    }
}

impl ToolExecutor for Cli {
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        let command = self.line.command(permit, Instant::now())?;
        let facts = self.program.foresee(permit, &command, &command.arguments)?;
        Ok(Preview { facts, ..Preview::default() })
    }

    fn run(&self, order: Arc<Order>) -> Running {
        let (program, line, after) = (self.program.clone(), Arc::clone(&self.line), self.after.clone());
        Box::pin(async move {
            let answer = program.run(order, move |permit, deadline| line.command(permit, deadline));
            after.process(answer.await?).await
        })
    }
}
