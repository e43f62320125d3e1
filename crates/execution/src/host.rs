//! The tools of another program (a host), judged by our rules and never run by us.
//!
//! A host asks before it uses a tool of its own. Its tools have definitions here, and no executor: they stand in a
//! table beside the registry, and nothing that runs a call can find them.

mod arguments;
mod below;
mod glance;
mod judged;
mod review;
mod unconfined;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use governance::Policy;
use guardrail::InputSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::ToolDefinition;

pub use arguments::HostArgument;
pub use below::Below;
pub use glance::HostJudge;
pub use judged::{HostCall, HostVerdict, Origin, Silence, UnknownHost};
pub use review::{Advice, HostReview, secrets_in};

/// What a permit says to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnPermit {
    /// Run it without asking us again; the host's own rules that deny or ask still hold.
    #[default]
    Allow,
    /// Nothing: the host's own rules and its user decide, as without us.
    None,
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
    shape: Shape,
    /// The same tool, whose lines are commands that rules can allow and forbid.
    with_commands: Option<Shape>,
    arguments: Vec<HostArgument>,
    /// Whether it shows what is below the folders it is given.
    below: Option<Below>,
}

/// What the rules see of a tool.
#[derive(Debug)]
struct Shape {
    definition: Arc<ToolDefinition>,
    /// Compiled when the first call needs it: a hook judges one call, and a table has many tools.
    schema: OnceLock<Result<InputSchema, String>>,
}

impl Shape {
    fn new(definition: ToolDefinition) -> Self {
        Shape { definition: Arc::new(definition), schema: OnceLock::new() }
    }

    fn schema(&self) -> Result<&InputSchema, &str> {
        self.schema.get_or_init(|| self.compile()).as_ref().map_err(String::as_str)
    }

    /// An example that would be refused as malformed is an error, since a refusal shows it as one that is not.
    fn compile(&self) -> Result<InputSchema, String> {
        let schema =
            InputSchema::compile(self.definition.input_schema()).map_err(|error| error.to_string())?;
        if let Some(example) = self.definition.example() {
            guardrail::check(&self.definition, &schema, example.clone())
                .map_err(|refusal| format!("the example would be refused: {}", refusal.reason))?;
        }
        Ok(schema)
    }
}

impl JudgedTool {
    /// A definition and what its arguments mean.
    pub fn new(definition: ToolDefinition, arguments: Vec<HostArgument>) -> Self {
        JudgedTool { shape: Shape::new(definition), with_commands: None, arguments, below: None }
    }

    /// The same tool with the definition that holds where the policy says which commands it may run. A host has a shell
    /// to run whole lines with, and those rules know none: where there are none, a line is a text like others.
    pub fn with_commands(self, definition: ToolDefinition) -> Self {
        JudgedTool { with_commands: Some(Shape::new(definition)), ..self }
    }

    /// The same tool, which shows what is below the folders it is given.
    pub fn showing(self, below: Below) -> Self {
        JudgedTool { below: Some(below), ..self }
    }

    /// Whether calls of it can be judged at all. What fails here also refuses every call.
    pub fn check(&self) -> Result<(), String> {
        let shapes = [Some(&self.shape), self.with_commands.as_ref()];
        shapes.into_iter().flatten().try_for_each(|shape| shape.schema().map(drop).map_err(str::to_owned))
    }

    /// What the rules see.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.shape.definition
    }

    fn shape(&self, policy: &Policy) -> &Shape {
        let name = self.definition().name().as_str();
        let lists_commands = policy.files().tools.tools.iter().any(|(key, entry)| {
            let lists = entry.allowed_commands.is_some() || entry.forbidden_commands.is_some();
            lists && key.eq_ignore_ascii_case(name)
        });
        self.with_commands.as_ref().filter(|_| lists_commands).unwrap_or(&self.shape)
    }
}

impl Host {
    /// What is known of a tool: by its whole name, else by the longest beginning. What may be another's is not ours.
    pub fn tool(&self, name: &str) -> Option<&HostTool> {
        let fits = |known: &HostToolName, tool: &HostTool| match known {
            HostToolName::Is(whole) => (whole == name).then_some(usize::MAX),
            HostToolName::Begins(start) => {
                let rest = name.strip_prefix(start.as_str())?;
                (is_one_word(rest) || !matches!(tool, HostTool::Ours)).then_some(start.len())
            }
        };
        let fitting = self.tools.iter().filter_map(|(known, tool)| Some((fits(known, tool)?, tool)));
        fitting.max_by_key(|(length, _)| *length).map(|(_, tool)| tool)
    }

    /// Stands for all that is known of its tools.
    pub(crate) fn fingerprint(&self) -> String {
        let tool = |(name, tool): &(HostToolName, HostTool)| match tool {
            HostTool::Judged(judged) => {
                format!("{name:?} {} {:?} {:?}", judged.definition().hash(), judged.arguments, judged.below)
            }
            HostTool::Ours => format!("{name:?}"),
        };
        let tools: Vec<String> = self.tools.iter().map(tool).collect();
        format!("{} {:?} {:?} {}", self.name, self.on_permit, self.user_home, tools.join("\n"))
    }

    /// What the rules of a policy see of its tools.
    pub(crate) fn judged(&self, policy: &Policy) -> impl Iterator<Item = &ToolDefinition> {
        self.tools.iter().filter_map(move |(_, tool)| match tool {
            HostTool::Judged(judged) => Some(&*judged.shape(policy).definition),
            HostTool::Ours => None,
        })
    }

    /// The definitions that rules may name.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.tools.iter().filter_map(|(_, tool)| match tool {
            HostTool::Judged(judged) => Some(judged.definition()),
            HostTool::Ours => None,
        })
    }
}

/// Whether what follows `mcp__sinew__` can only be a tool's name. Hosts join names by `__`, and `mcp__sinew__x__y` is also
/// what they call the tool `y` of a server `sinew__x`, as `mcp__sinew___y` is that of a server `sinew_`.
fn is_one_word(rest: &str) -> bool {
    rest.starts_with(|first: char| first.is_ascii_alphanumeric()) && !rest.contains("__")
}
