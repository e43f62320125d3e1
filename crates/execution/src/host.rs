//! The tools of another program (a host), judged by our rules and never run by us.
//!
//! A host asks before it uses a tool of its own. Its tools have definitions here, and no executor: they stand in a
//! table beside the registry, and nothing that runs a call can find them.

mod arguments;
mod judged;

use std::path::PathBuf;
use std::sync::Arc;

use guardrail::InputSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::ToolDefinition;

pub use arguments::HostArgument;
pub use judged::{HostCall, HostVerdict, Origin, Silence, UnknownHost};

/// What a permit says to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnPermit {
    /// Nothing: the host's own rules and its user decide, as without us.
    #[default]
    None,
    /// Run it without asking.
    Allow,
}

/// One host and what we know of its tools.
#[derive(Debug)]
pub struct Host {
    /// What it is called.
    pub name: String,
    /// What a permit says to it.
    pub on_permit: OnPermit,
    /// What `~` stands for in the paths it is given.
    pub user_home: Option<PathBuf>,
    /// By name, or by the beginning of one.
    pub tools: Vec<(HostToolName, HostTool)>,
}

/// A tool's name in the host's spelling. Compared exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostToolName {
    /// This one.
    Is(String),
    /// Every one that begins so.
    Begins(String),
}

/// What is to be said of a tool.
#[derive(Debug)]
pub enum HostTool {
    /// Our rules decide.
    Judged(Box<JudgedTool>),
    /// Its calls come to us by themselves, and are judged there.
    Ours,
}

/// A tool that is judged and cannot be run: it has no executor.
#[derive(Debug)]
pub struct JudgedTool {
    definition: Arc<ToolDefinition>,
    schema: InputSchema,
    arguments: Vec<HostArgument>,
}

impl JudgedTool {
    /// A definition and what its arguments mean. An example that would be refused as malformed is an error, since a
    /// refusal shows it as one that is not.
    pub fn new(definition: ToolDefinition, arguments: Vec<HostArgument>) -> Result<Self, String> {
        let definition = Arc::new(definition);
        let schema = InputSchema::compile(definition.input_schema()).map_err(|error| error.to_string())?;
        if let Some(example) = definition.example() {
            guardrail::check(&definition, &schema, example.clone())
                .map_err(|refusal| format!("the example would be refused: {}", refusal.reason))?;
        }
        Ok(JudgedTool { definition, schema, arguments })
    }

    /// What the rules see.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }
}

impl Host {
    /// What is known of a tool: by its whole name, else by the longest beginning.
    pub fn tool(&self, name: &str) -> Option<&HostTool> {
        let fits = |known: &HostToolName| match known {
            HostToolName::Is(whole) => (whole == name).then_some(usize::MAX),
            HostToolName::Begins(start) => name.starts_with(start.as_str()).then_some(start.len()),
        };
        let fitting = self.tools.iter().filter_map(|(known, tool)| Some((fits(known)?, tool)));
        fitting.max_by_key(|(length, _)| *length).map(|(_, tool)| tool)
    }

    /// The definitions that rules may name.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.tools.iter().filter_map(|(_, tool)| match tool {
            HostTool::Judged(judged) => Some(judged.definition()),
            HostTool::Ours => None,
        })
    }
}
