//! The judgement of a host's call: by the road's own rules, with every denial on record.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use governance::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use telemetry::{Stage, redact};
use tool::{LONGEST_WORD, Refusal, RefusalCode, RuleRef, shorten};

use crate::call::{Call, Request};
use crate::explain::{self, Explanation, Finding};
use crate::host::{Host, HostTool, JudgedTool, OnPermit, below, unconfined};
use crate::layer::ToolExecutionLayer;
use crate::pipeline::{self, Deciding};
use crate::recorder;
use crate::world::World;

/// A call that a host is about to make with a tool of its own.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// Which host.
    pub host: String,
    /// The call, in the host's words.
    pub request: Request,
    /// Where it comes from, as the host tells it.
    pub origin: Origin,
}

/// How the host finds the call again in its own records. Told, not known: for the record alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The call itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// The agent inside the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What the person had asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
}

/// What we have to say about a host's call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "opinion", rename_all = "snake_case")]
pub enum HostVerdict {
    /// Nothing.
    None {
        /// Why not.
        because: Silence,
    },
    /// Our rules have judged.
    Judged {
        /// How, and why.
        #[serde(flatten)]
        explanation: Explanation,
        /// What a permit says to this host.
        on_permit: OnPermit,
    },
}

/// Why there is nothing to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// The table has no such tool.
    UnknownTool,
    /// The call comes to us by itself, and is judged there.
    JudgedOnArrival,
}

/// A host that no table describes.
#[derive(Debug, thiserror::Error)]
#[error("no table describes the host `{}`", .0.escape_debug())]
pub struct UnknownHost(String);

impl World {
    /// The host of that name.
    pub(super) fn host(&self, name: &str) -> Result<&Host, UnknownHost> {
        let known = self.hosts.iter().find(|host| host.name == name);
        known.ok_or_else(|| UnknownHost(shorten(name, LONGEST_WORD).to_string()))
    }
}

impl Host {
    /// The tool a call is judged as, or why it is not.
    pub(super) fn judges(&self, name: &str) -> Result<&JudgedTool, Silence> {
        match self.tool(name) {
            None => Err(Silence::UnknownTool),
            Some(HostTool::Ours) => Err(Silence::JudgedOnArrival),
            Some(HostTool::Judged(tool)) => Ok(tool),
        }
    }
}

impl ToolExecutionLayer {
    /// Judges a host's call. What it permits counts against the rates, what it denies is on record; nothing is run.
    pub async fn judge_host(&self, asked: HostCall) -> Result<HostVerdict, UnknownHost> {
        let world = self.world.load_full();
        let host = world.host(&asked.host)?;
        let tool = match host.judges(&asked.request.tool_name) {
            Ok(tool) => tool,
            Err(because) => return Ok(HostVerdict::None { because }),
        };
        let told = (asked.origin, asked.request.tool_name.clone());
        let (call, input) = Call::suppose(asked.request, &self.ledger, Arc::clone(&world), self.mode());
        let judging = async {
            self.admits(&call)?;
            let deciding = Deciding { limits: &self.host_limits, ..self.deciding() };
            judge(deciding, &call, tool, (input, host.user_home.as_deref())).await
        };
        let verdict =
            AssertUnwindSafe(judging).catch_unwind().await.unwrap_or_else(|_| Err(explain::fault(&call)));
        let (finding, rules) = explain::found(verdict);
        if matches!(finding, Finding::Deny { .. }) {
            self.refusals.turn().await;
        }
        let (call, finding) = self.on_record(call, finding, (&host.name, &told));
        let explanation = explanation(&call, tool, finding, rules);
        Ok(HostVerdict::Judged { explanation, on_permit: host.on_permit })
    }

    /// A denial that cannot be recorded is still one, and says so.
    fn on_record(
        &self,
        call: Call,
        finding: Finding,
        (host, (origin, tool)): (&str, &(Origin, String)),
    ) -> (Call, Finding) {
        let Finding::Deny { refusal } = finding else { return (call, finding) };
        let call = call.of_host(origin.on_record(host, tool));
        let result = recorder::refused(self, &call, (*refusal).clone());
        (call, Finding::Deny { refusal: result.metadata.refusal.map_or(refusal, Box::new) })
    }
}

pub(super) fn explanation(
    call: &Call,
    tool: &JudgedTool,
    finding: Finding,
    rules: Vec<RuleRef>,
) -> Explanation {
    let tool_name = tool.definition().name().to_string();
    let policy_hash = call.world.policy.hash().to_owned();
    Explanation { tool_name, mode: call.mode, finding, rules, policy_hash }
}

/// The road's own judgement, and the count of what it permits: the host runs it without telling us again.
pub(super) async fn judge(
    deciding: Deciding<'_>,
    call: &Call,
    tool: &JudgedTool,
    (input, home): (Value, Option<&Path>),
) -> Result<Verdict, Box<Refusal>> {
    refuse_malformed(call, &input)?;
    let shows = tool.shows(&input);
    let input = tool.spelt_out(input, home)?;
    let shape = tool.shape(&call.world.policy);
    let schema = shape.schema().map_err(|mistake| unjudgeable(call, mistake))?;
    let valid = call.timed(Stage::Check, || guardrail::check(&shape.definition, schema, input))?;
    let verdict = pipeline::decide(deciding, call, valid).await?;
    let verdict = unconfined::refuse(call, &shape.definition, verdict)?;
    let verdict = below::refuse(deciding, call, tool, (verdict, shows)).await?;
    match &verdict {
        Verdict::Permit(permit) => {
            deciding.limits.count(permit).map_err(|denial| call.denied(denial))?;
        }
        Verdict::Denial(denial) => call.keep_facts(denial.facts()),
        Verdict::Question(_) => {}
    }
    Ok(verdict)
}

/// The table has a mistake that nobody has looked for yet.
fn unjudgeable(call: &Call, mistake: &str) -> Box<Refusal> {
    let reason = format!("Permission denied: The table of this host cannot be used: {mistake}");
    let refusal = Refusal::new(&call.tool_name, RefusalCode::InvalidArguments, reason);
    Box::new(refusal.detail("host_table").hint("`sinew check` shows the place"))
}

/// The curated map speaks of tools by the names that hosts give them.
fn refuse_malformed(call: &Call, input: &Value) -> Result<(), Box<Refusal>> {
    match call.world.guarded(|guard| guard.check_unknown(&call.tool_name, input)) {
        None => Ok(()),
        Some(refusal) => Err(Box::new(refusal.hint("send the call again with the problem corrected"))),
    }
}

impl Origin {
    /// A host may say anything here, so it is cut and redacted like all that others wrote.
    fn on_record(&self, host: &str, tool: &str) -> Value {
        let short = |text: &str| redact::shared().redact_text(&shorten(text, LONGEST_WORD)).into_owned();
        let told = [
            ("session_id", &self.session_id),
            ("tool_use_id", &self.tool_use_id),
            ("agent_id", &self.agent_id),
            ("prompt_id", &self.prompt_id),
        ];
        let mut facts = json!({"name": host, "tool": short(tool)});
        if let Some(facts) = facts.as_object_mut() {
            let told = told.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?)));
            facts.extend(told.map(|(key, text)| (key.to_owned(), json!(short(text)))));
        }
        facts
    }
}
