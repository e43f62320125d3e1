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
use manifest::{Command as ToolCommand, LocalRuntime, LocalSection, OutputForm};
use registry::{AtWork, Order, Preview, Running, ToolExecutor};
use sandbox::{Command, Grant, Sandbox};
use serde_json::json;
use strict_yaml::Document;
use tool::{Arguments, Failure, FailureKind, canonical};

use crate::before::{Before, as_opened};
use crate::behind_walls::Program;
use crate::cli::grant_of;
use crate::payload::After;
use crate::pinned::Pin;

/// Below the kernel limit of 128 KiB for one argument.
const LONGEST_SCRIPT: usize = 120 * 1024;

/// Interpreter and the arguments that carry the script.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    interpreter: String,
    words: Vec<String>,
    /// Text that determines the behaviour of the script, for the origin digest.
    pub(crate) pinned: String,
}

impl Script {
    /// Reads the entry point of a manifest in `folder`. A file that another user could have changed is
    /// refused.
    pub(crate) fn read(section: &LocalSection, folder: &Path) -> Result<Self, String> {
        let path = folder.join(&section.entry_point);
        if section.runtime == LocalRuntime::Binary {
            strict_yaml::check_trusted(&path).map_err(|error| error.to_string())?;
            let interpreter = path.display().to_string();
            return Ok(Script { interpreter, words: Vec::new(), pinned: String::new() });
        }
        let source = Document::read_trusted(&path).map_err(|error| error.to_string())?;
        let source = with_dependencies(section, source.text());
        if source.len() > LONGEST_SCRIPT {
            return Err(format!("`{}` is longer than {LONGEST_SCRIPT} bytes", path.display()));
        }
        let (interpreter, flags): (_, &[&str]) = match section.runtime {
            LocalRuntime::Node => ("node", &["-e"]),
            // Isolated mode: no modules from the working directory or from the user's packages.
            LocalRuntime::Python | LocalRuntime::Binary => ("python3", &["-I", "-c"]),
        };
        let words = flags.iter().map(ToString::to_string).chain([source.clone()]).collect();
        Ok(Script { interpreter: interpreter.to_owned(), words, pinned: source })
    }

    pub(crate) fn pin(&self) -> Pin {
        Pin::of(self.interpreter.as_ref())
    }

    /// Returns the arguments for display, with the script replaced by its size and digest.
    fn shown_words(&self) -> Vec<String> {
        let is_source = |word: &String| !self.pinned.is_empty() && *word == self.pinned;
        let shown = |word: &String| match is_source(word) {
            true => format!(
                "(the script: {} bytes, sha256 {})",
                word.len(),
                canonical::sha256_hex(word.as_bytes())
            ),
            false => word.clone(),
        };
        self.words.iter().map(shown).collect()
    }
}

/// Prepends a check that reports a missing package by name before the script starts.
fn with_dependencies(section: &LocalSection, source: &str) -> String {
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
pub(crate) struct Local {
    program: Program,
    feed: Arc<Feed>,
    before: Before,
    after: After,
}

/// Script and the command that it receives on standard input.
struct Feed {
    script: Arc<Script>,
    command: String,
    grant: Grant,
}

impl Local {
    pub(crate) fn new(
        sandbox: &Sandbox,
        script: &Arc<Script>,
        command: &ToolCommand,
        (before, after): (Before, After),
        pin: Pin,
    ) -> Self {
        let guide = Some(format!("install `{}`", script.interpreter));
        let grant = grant_of(command.category.as_ref());
        Local {
            program: Program { sandbox: sandbox.clone(), pin, output: OutputForm::Json, guide },
            feed: Arc::new(Feed { script: Arc::clone(script), command: command.name.clone(), grant }),
            before,
            after,
        }
    }
}

impl Feed {
    fn command(&self, arguments: &Arguments, deadline: Instant) -> Result<Command, Failure> {
        let input = json!({"command": self.command, "arguments": arguments});
        let input = serde_json::to_vec(&input);
        let input = input.map_err(|error| Failure::new(FailureKind::Crashed, error.to_string()))?;
        let words = self.script.words.iter().map(Into::into).collect();
        Ok(Command {
            input: Some(input),
            grant: self.grant,
            ..Command::read_only(&self.script.interpreter, words, deadline)
        })
    }
}

impl ToolExecutor for Local {
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        let foreseen = self.before.foresee(as_opened(permit), permit)?;
        let command = self.feed.command(&foreseen.arguments, Instant::now())?;
        // The operator reviewed the script when accepting it, and it has not changed, so its digest
        // identifies it.
        let words: Vec<OsString> = self.feed.script.shown_words().into_iter().map(Into::into).collect();
        let facts = self.program.foresee(permit, &command, &words)?;
        Ok(foreseen.preview(facts, AtWork::AsDefined))
    }

    fn stands_for(&self) -> Vec<(&'static str, String)> {
        let Script { interpreter, .. } = &*self.feed.script;
        vec![("program", interpreter.clone()), ("argv", self.feed.script.shown_words().join(" "))]
    }

    fn run(&self, order: Arc<Order>) -> Running {
        let (program, feed) = (self.program.clone(), Arc::clone(&self.feed));
        let (before, after) = (self.before.clone(), self.after.clone());
        Box::pin(async move {
            let arguments = before.process(as_opened(order.value()), order.value()).await?;
            let answer = program.run(order, move |_, deadline| feed.command(&arguments, deadline));
            after.process(answer.await?).await
        })
    }
}
