//! Programs with a command line, by the words their manifest puts together.

use std::sync::Arc;

use manifest::{ArgvPart, CliSection, Command as ToolCommand};
use registry::{Order, Running, ToolExecutor};
use sandbox::{Command, Grant, Sandbox};
use tool::Category;

use crate::argv;
use crate::behind_walls::Program;
use crate::payload::After;
use crate::pinned::Pin;

/// The body of a `cli` tool.
pub(crate) struct Cli {
    program: Program,
    executable: String,
    argv: Arc<[ArgvPart]>,
    grant: Grant,
    after: After,
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
        Cli {
            program: Program { sandbox: sandbox.clone(), pin, output: command.output, guide },
            executable: section.executable.clone(),
            argv: command.argv.clone().into(),
            grant: grant_of(command.category.as_ref()),
            after,
        }
    }
}

/// A tool that says it only reads is taken at its word: it cannot do anything else.
pub(crate) fn grant_of(category: Option<&Category>) -> Grant {
    if category == Some(&Category::READ_ONLY) { Grant::ReadOnly } else { Grant::AsPermitted }
}

/// The argument that names the folder a tool runs in, if it has one.
const FOLDER: &str = "cwd";

impl ToolExecutor for Cli {
    fn run(&self, order: Arc<Order>) -> Running {
        let (program, executable) = (self.program.clone(), self.executable.clone());
        let (template, grant, after) = (Arc::clone(&self.argv), self.grant, self.after.clone());
        Box::pin(async move {
            let answer = program.run(order, move |permit, deadline| {
                let folder = permit.path(FOLDER);
                Ok(Command {
                    program: executable.into(),
                    arguments: argv::words(&template, permit)?,
                    input: None,
                    folder: folder.map(|path| path.canonical().to_owned()),
                    deadline,
                    output_bytes: 0,
                    grant,
                    variables: Vec::new(),
                })
            });
            after.process(answer.await?).await
        })
    }
}
