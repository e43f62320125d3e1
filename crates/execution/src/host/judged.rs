//! Judges host calls by the rules of the pipeline and records every denial.

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

/// A call that a host is about to make with one of its own tools.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// Name of the host.
    pub host: String,
    /// The call, in the host's terms.
    pub request: Request,
    /// Ids of the call, as reported by the host.
    pub origin: Origin,
}

/// Ids by which the host identifies the call in its own logs. They are not verified and are only recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// Agent within the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// User prompt that led to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
}

/// Opinion of Sinew about a host call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "opinion", rename_all = "snake_case")]
pub enum HostVerdict {
    /// No opinion.
    None {
        /// Reason.
        because: Silence,
    },
    /// Sinew judged the call.
    Judged {
        /// Verdict and rules.
        #[serde(flatten)]
        explanation: Explanation,
        /// Answer of this host's table for a permitted call.
        on_permit: OnPermit,
    },
}

/// Reason for not judging a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// The host table has no such tool.
    UnknownTool,
    /// The call reaches Sinew through an endpoint and is judged there.
    JudgedOnArrival,
}

/// Error for a host without a host table.
#[derive(Debug, thiserror::Error)]
#[error("unknown host `{}`: no host table describes it", .0.escape_debug())]
pub struct UnknownHost(String);

impl World {
    /// Returns the host with this name.
    pub(super) fn host(&self, name: &str) -> Result<&Host, UnknownHost> {
        let known = self.hosts.iter().find(|host| host.name == name);
        known.ok_or_else(|| UnknownHost(shorten(name, LONGEST_WORD).to_string()))
    }
}

impl Host {
    /// Returns the tool that a call is judged as, or the reason why it is not judged.
    pub(super) fn judges(&self, name: &str) -> Result<&JudgedTool, Silence> {
        match self.tool(name) {
            None => Err(Silence::UnknownTool),
            Some(HostTool::Ours) => Err(Silence::JudgedOnArrival),
            Some(HostTool::Judged(tool)) => Ok(tool),
        }
    }
}

impl ToolExecutionLayer {
    /// Judges a host call. A permitted call counts against the rate limits of hosts, and a denial is
    /// recorded. Nothing is run.
    pub async fn judge_host(&self, host_call: HostCall) -> Result<HostVerdict, UnknownHost> {
        let world = self.world.load_full();
        let host = world.host(&host_call.host)?;
        let tool = match host.judges(&host_call.request.tool_name) {
            Ok(tool) => tool,
            Err(because) => return Ok(HostVerdict::None { because }),
        };
        let reported = (host_call.origin, host_call.request.tool_name.clone());
        let (call, input) = Call::suppose(host_call.request, &self.ledger, Arc::clone(&world), self.mode());
        let judging = async {
            self.admits(&call)?;
            let context = Deciding { limits: &self.host_limits, ..self.deciding() };
            judge(context, &call, tool, (input, host.user_home.as_deref())).await
        };
        let verdict =
            AssertUnwindSafe(judging).catch_unwind().await.unwrap_or_else(|_| Err(explain::fault(&call)));
        let (finding, rules) = explain::found(verdict);
        if matches!(finding, Finding::Deny { .. }) {
            self.refusals.turn().await;
        }
        let (call, finding) = self.on_record(call, finding, (&host.name, &reported));
        let explanation = explanation(&call, tool, finding, rules);
        Ok(HostVerdict::Judged { explanation, on_permit: host.on_permit })
    }

    /// Records a denial. If that fails, the call stays denied, and the refusal says that it could not be
    /// recorded.
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

/// Judges a host call with the pipeline's own stages and counts it if it is permitted, because the host runs
/// it without reporting back.
pub(super) async fn judge(
    context: Deciding<'_>,
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
    let verdict = pipeline::decide(context, call, valid).await?;
    let verdict = unconfined::refuse(call, &shape.definition, verdict)?;
    let verdict = below::refuse(context, call, tool, (verdict, shows)).await?;
    match &verdict {
        Verdict::Permit(permit) => {
            context.limits.count(permit).map_err(|denial| call.denied(denial))?;
        }
        Verdict::Denial(denial) => call.keep_facts(denial.facts()),
        Verdict::Question(_) => {}
    }
    Ok(verdict)
}

/// Refusal for an error in the host table that only this call brought up.
fn unjudgeable(call: &Call, mistake: &str) -> Box<Refusal> {
    let reason = format!("Permission denied: The host table is invalid: {mistake}");
    let refusal = Refusal::new(&call.tool_name, RefusalCode::InvalidArguments, reason);
    Box::new(refusal.detail("host_table").hint("run `sinew check` to see the location of the error"))
}

/// Checks the call against the curated map, which lists tools under the names that hosts use.
fn refuse_malformed(call: &Call, input: &Value) -> Result<(), Box<Refusal>> {
    match call.world.guarded(|guard| guard.check_unknown(&call.tool_name, input)) {
        None => Ok(()),
        Some(refusal) => Err(Box::new(refusal.hint("send the call again with the problem corrected"))),
    }
}

impl Origin {
    /// Facts for the ledger. The host controls these texts, so they are shortened and redacted.
    fn on_record(&self, host: &str, tool: &str) -> Value {
        let short = |text: &str| redact::shared().redact_text(&shorten(text, LONGEST_WORD)).into_owned();
        let reported = [
            ("session_id", &self.session_id),
            ("tool_use_id", &self.tool_use_id),
            ("agent_id", &self.agent_id),
            ("prompt_id", &self.prompt_id),
        ];
        let mut facts = json!({"name": host, "tool": short(tool)});
        if let Some(facts) = facts.as_object_mut() {
            let reported = reported.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?)));
            facts.extend(reported.map(|(key, text)| (key.to_owned(), json!(short(text)))));
        }
        facts
    }
}
