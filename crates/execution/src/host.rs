//! Tools of another program (a host) that Sinew judges and never runs.
//!
//! A host asks Sinew before it uses a tool of its own. These tools have definitions but no executor. They are
//! in a table beside the registry, where nothing that runs a call can find them.

mod arguments;
mod command_line;
mod directory_contents;
mod judge;
mod reading_line;
mod reading_programs;
mod repeated_advice;
mod review;
mod unconfined;
mod unrecorded_judge;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use governance::Policy;
use guardrail::InputSchema;
use ledger::LedgerRecovery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{RuleRef, ToolDefinition};

use crate::limits::CallLimits;

pub use arguments::{HostArgument, PATCHED_FILES};
pub use command_line::split_pipeline;
pub use directory_contents::RecursiveListing;
pub use judge::{HostCall, HostCallOrigin, HostVerdict, NotJudgedReason, UnknownHost};
use repeated_advice::RepeatedAdvice;
pub use review::{Advice, HostCallOutcome, joined, reported_error, secrets_advice};
pub use unrecorded_judge::HostJudge;

/// State kept between host calls, which are only judged here.
pub(crate) struct HostCallState {
    /// Rate limits of host calls, which must not use up the limits of calls that run.
    limits: CallLimits,
    /// Host calls that were refused with advice. Repeating such a call overrides the refusal.
    advice: RepeatedAdvice,
}

impl HostCallState {
    pub(crate) fn new() -> Self {
        let limits = CallLimits::restore(0, &LedgerRecovery::default(), |_| false);
        HostCallState { limits, advice: RepeatedAdvice::default() }
    }
}

/// Answer to the host for a permitted call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnPermit {
    /// The host runs the call without asking its user. The host's own deny and ask rules still apply.
    #[default]
    Allow,
    /// No decision: the host's own rules and its user decide, as without Sinew.
    None,
}

/// Answer to the host for a call that needs approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnApproval {
    /// The host asks its user.
    #[default]
    Ask,
    /// The call is denied, for a host that cannot ask on behalf of a hook.
    Deny,
    /// No decision: the host's own rules and its user decide, as without Sinew.
    None,
}

/// One host and its tools.
#[derive(Debug)]
pub struct Host {
    /// Name of the host.
    pub name: String,
    /// Answer for a permitted call.
    pub on_permit: OnPermit,
    /// Answer for a call that needs approval.
    pub on_approval: OnApproval,
    /// Home directory that `~` denotes in the host's paths.
    pub user_home: Option<PathBuf>,
    /// Tools by name or name prefix.
    pub tools: Vec<(HostToolName, HostTool)>,
}

/// Tool name in the host's spelling. Compared exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostToolName {
    /// The whole name.
    Exact(String),
    /// Prefix of the name.
    Prefix(String),
}

/// Treatment of a host tool.
#[derive(Debug)]
pub enum HostTool {
    /// Judged by Sinew's rules.
    Judged(Box<JudgedTool>),
    /// A tool of Sinew. Its calls reach Sinew through an endpoint and are judged there.
    SinewTool,
}

/// A tool that is judged and cannot be run: it has no executor.
#[derive(Debug)]
pub struct JudgedTool {
    shape: ToolShape,
    /// Shape used if the policy lists commands for this tool: its command lines are arguments that rules can
    /// allow and forbid.
    command_shape: Option<ToolShape>,
    arguments: Vec<HostArgument>,
    /// Set if the tool lists what is below the folders it is given.
    listing: Option<RecursiveListing>,
    /// Argument with a shell line that is permitted without approval if it only reads.
    reading_lines: Option<String>,
    /// Line of the host table that requires approval.
    approval_rule: Option<RuleRef>,
    /// False if an entry of the curated map with the same name describes another tool.
    is_curated: bool,
}

/// Definition of a tool and its compiled schema.
#[derive(Debug)]
struct ToolShape {
    definition: Arc<ToolDefinition>,
    /// Compiled on first use: a hook process judges one call, and a table has many tools.
    schema: OnceLock<Result<InputSchema, String>>,
}

impl ToolShape {
    fn new(definition: ToolDefinition) -> Self {
        ToolShape { definition: Arc::new(definition), schema: OnceLock::new() }
    }

    fn schema(&self) -> Result<&InputSchema, &str> {
        self.schema.get_or_init(|| self.compile()).as_ref().map_err(String::as_str)
    }

    /// Compiles the schema. An example that the schema rejects is an error, because refusals show it as a
    /// valid call.
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
    /// Creates a tool from its definition and the meaning of its arguments.
    pub fn new(definition: ToolDefinition, arguments: Vec<HostArgument>) -> Self {
        JudgedTool {
            shape: ToolShape::new(definition),
            command_shape: None,
            arguments,
            listing: None,
            reading_lines: None,
            approval_rule: None,
            is_curated: true,
        }
    }

    /// Adds the definition for policies that list commands for this tool. A host runs whole lines in a shell,
    /// which the command rules do not cover. Without such rules a command line is a plain text argument.
    pub fn with_commands(self, definition: ToolDefinition) -> Self {
        JudgedTool { command_shape: Some(ToolShape::new(definition)), ..self }
    }

    /// Marks the tool as one that lists what is below the folders it is given.
    pub fn with_listing(self, below: RecursiveListing) -> Self {
        JudgedTool { listing: Some(below), ..self }
    }

    /// Permits lines in this argument that only read, by the rules of `run_command` and `read_file`.
    pub fn with_reading_lines(self, argument: String) -> Self {
        JudgedTool { reading_lines: Some(argument), ..self }
    }

    /// Excludes the tool from the curated map, whose entry of the same name describes another tool.
    pub fn without_curated_map(self) -> Self {
        JudgedTool { is_curated: false, ..self }
    }

    /// Adds the line of the host table that requires approval.
    pub fn with_approval_rule(self, rule: RuleRef) -> Self {
        JudgedTool { approval_rule: Some(rule), ..self }
    }

    /// Checks that calls of the tool can be judged. An error here also refuses every call of it.
    pub fn check(&self) -> Result<(), String> {
        let shapes = [Some(&self.shape), self.command_shape.as_ref()];
        shapes.into_iter().flatten().try_for_each(|shape| shape.schema().map(drop).map_err(str::to_owned))
    }

    /// Definition of the tool.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.shape.definition
    }

    fn shape_for(&self, policy: &Policy) -> &ToolShape {
        let lists_commands = policy.lists_commands(self.definition().name());
        self.command_shape.as_ref().filter(|_| lists_commands).unwrap_or(&self.shape)
    }
}

impl Host {
    /// Finds a tool by its whole name, else by the longest matching prefix. A prefix of Sinew's tools matches
    /// only if the rest of the name is unambiguous, which needs a separator that no tool name contains.
    pub fn tool(&self, name: &str) -> Option<&HostTool> {
        let fits = |known: &HostToolName, tool: &HostTool| match known {
            HostToolName::Exact(whole) => (whole == name).then_some(usize::MAX),
            HostToolName::Prefix(start) => {
                let rest = name.strip_prefix(start.as_str())?;
                let is_sinew = || start.ends_with("__") && is_plain_tool_name(rest);
                (!matches!(tool, HostTool::SinewTool) || is_sinew()).then_some(start.len())
            }
        };
        let schema_checked = self.tools.iter().filter_map(|(known, tool)| Some((fits(known, tool)?, tool)));
        schema_checked.max_by_key(|(length, _)| *length).map(|(_, tool)| tool)
    }

    /// Text that identifies everything in the table of this host.
    pub(crate) fn fingerprint(&self) -> String {
        let tool = |(name, tool): &(HostToolName, HostTool)| match tool {
            HostTool::Judged(judged) => {
                let JudgedTool { arguments, listing, reading_lines, is_curated, .. } = &**judged;
                let hash = judged.definition().hash();
                format!("{name:?} {hash} {arguments:?} {listing:?} {reading_lines:?} {is_curated}")
            }
            HostTool::SinewTool => format!("{name:?}"),
        };
        let tools: Vec<String> = self.tools.iter().map(tool).collect();
        let answers = (self.on_permit, self.on_approval);
        format!("{} {answers:?} {:?} {}", self.name, self.user_home, tools.join("\n"))
    }

    /// Definitions by which a policy judges this host's tools.
    pub fn judged_definitions(&self, policy: &Policy) -> impl Iterator<Item = &ToolDefinition> {
        self.tools.iter().filter_map(move |(_, tool)| match tool {
            HostTool::Judged(judged) => Some(&*judged.shape_for(policy).definition),
            HostTool::SinewTool => None,
        })
    }
}

/// Returns true if `rest`, which follows `mcp__sinew__`, can only be a tool name. Hosts join names with `__`:
/// `mcp__sinew__x__y` can also be the tool `y` of a server `sinew__x`, and `mcp__sinew___y` that of a server
/// `sinew_`.
fn is_plain_tool_name(rest: &str) -> bool {
    rest.starts_with(|first: char| first.is_ascii_alphanumeric()) && !rest.contains("__")
}
