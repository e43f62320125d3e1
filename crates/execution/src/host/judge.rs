//! Judges host calls by the rules of the pipeline and records every denial.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use governance::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use telemetry::{Stage, redact};
use tool::text::{MAX_QUOTED_CHARS, shorten};
use tool::{Refusal, RefusalCode, RuleRef};

use crate::call::{CallRequest, PipelineCall};
use crate::config_snapshot::ConfigSnapshot;
use crate::explain::{self, ExplainedVerdict, Explanation};
use crate::host::repeated_advice::{self, RepeatedAdvice};
use crate::host::{
    Host, HostTool, HostToolName, JudgedTool, OnApproval, OnPermit, directory_contents, reading_line,
    unconfined,
};
use crate::layer::ToolExecutionLayer;
use crate::pipeline::{self, JudgeCapacity};
use crate::recorder::Recorder;
use crate::secret_screening;

/// A call that a host is about to make with one of its own tools.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// Name of the host.
    pub host: String,
    /// The call, in the host's terms.
    pub request: CallRequest,
    /// Ids of the call, as reported by the host.
    pub origin: HostCallOrigin,
    /// Programs of its command line that the host's PATH finds in a folder of the system.
    pub system_programs: Vec<String>,
}

/// Ids by which the host identifies the call in its own logs. They are not verified and are only recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCallOrigin {
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

/// Verdict on a host call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "opinion", rename_all = "snake_case")]
pub enum HostVerdict {
    /// The call was not judged.
    None {
        /// Reason.
        because: NotJudgedReason,
    },
    /// Sinew judged the call.
    Judged {
        /// Verdict and rules.
        #[serde(flatten)]
        explanation: Explanation,
        /// Answer of this host's table for a permitted call.
        on_permit: OnPermit,
        /// Answer of this host's table for a call that needs approval.
        #[serde(default)]
        on_approval: OnApproval,
    },
}

/// Reason for not judging a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotJudgedReason {
    /// The host table has no such tool.
    UnknownTool,
    /// The call reaches Sinew through an endpoint and is judged there.
    JudgedOnArrival,
}

/// Error for a host without a host table.
#[derive(Debug, thiserror::Error)]
#[error("unknown host `{}`: no host table describes it", .0.escape_debug())]
pub struct UnknownHost(String);

impl ConfigSnapshot {
    /// Returns the host with this name.
    pub(super) fn host(&self, name: &str) -> Result<&Host, UnknownHost> {
        let known = self.hosts.iter().find(|host| host.name == name);
        known.ok_or_else(|| UnknownHost(shorten(name, MAX_QUOTED_CHARS).to_string()))
    }
}

/// Subject of the judgement of a host call.
pub(super) enum HostCallSubject<'h> {
    /// Tool of the host table.
    Tool(&'h JudgedTool),
    /// Name that only the curated map knows, with its refusal of the call.
    CuratedName(Box<Refusal>),
}

impl HostCallSubject<'_> {
    /// Returns the name of the tool whose rules apply.
    pub(super) fn rules_tool_name(&self, request: &CallRequest) -> String {
        match self {
            HostCallSubject::Tool(tool) => tool.definition().name().to_string(),
            HostCallSubject::CuratedName(_) => shorten(&request.tool_name, MAX_QUOTED_CHARS).into_owned(),
        }
    }

    /// Returns the line of the host table that requires approval.
    pub(super) fn approval_rule(&self) -> Option<RuleRef> {
        match self {
            HostCallSubject::Tool(tool) => tool.approval_rule.clone(),
            HostCallSubject::CuratedName(_) => None,
        }
    }
}

impl Host {
    /// Returns the subject of the judgement, or the reason why the call is not judged. The curated map covers
    /// names without a row in the host table.
    pub(super) fn subject(
        &self,
        snapshot: &ConfigSnapshot,
        request: &CallRequest,
    ) -> Result<HostCallSubject<'_>, NotJudgedReason> {
        if self.is_own_tool(snapshot, &request.tool_name) {
            return Err(NotJudgedReason::JudgedOnArrival);
        }
        match self.tool(&request.tool_name) {
            None => curated_refusal(snapshot, &request.tool_name, &request.arguments)
                .map(HostCallSubject::CuratedName)
                .ok_or(NotJudgedReason::UnknownTool),
            Some(HostTool::SinewTool) => Err(NotJudgedReason::JudgedOnArrival),
            Some(HostTool::Judged(tool)) => Ok(HostCallSubject::Tool(tool)),
        }
    }
}

impl Host {
    /// Returns true if the name is that of a registered tool as `tools/list` shows it, after the prefix of
    /// Sinew's tools. Names of manifest tools contain `__`, so the prefix alone would be ambiguous.
    fn is_own_tool(&self, snapshot: &ConfigSnapshot, name: &str) -> bool {
        self.tools.iter().any(|(known, tool)| match (known, tool) {
            (HostToolName::Prefix(start), HostTool::SinewTool) => {
                let rest = name.strip_prefix(start.as_str());
                rest.is_some_and(|rest| !rest.contains('.') && snapshot.registry.get(rest).is_some())
            }
            _ => false,
        })
    }
}

impl ToolExecutionLayer {
    /// Judges a host call. A permitted call counts against the rate limits of hosts, and a denial is
    /// recorded. Nothing is run.
    pub async fn judge_host_call(&self, host_call: HostCall) -> Result<HostVerdict, UnknownHost> {
        let snapshot = self.current.snapshot.load_full();
        let host = snapshot.host(&host_call.host)?;
        let subject = match host.subject(&snapshot, &host_call.request) {
            Ok(subject) => subject,
            Err(reason) => return Ok(HostVerdict::None { because: reason }),
        };
        let (rules_tool, approval_rule) =
            (subject.rules_tool_name(&host_call.request), subject.approval_rule());
        let (origin, tool_name) = (host_call.origin, host_call.request.tool_name.clone());
        let host_facts = || origin.to_ledger_facts(&host.name, &tool_name);
        let session = origin.session_id.as_deref();
        let (call, input) = PipelineCall::judge_only(
            host_call.request,
            &self.recorder.ledger,
            Arc::clone(&snapshot),
            self.mode(),
        );
        let judging = async {
            self.check_admission(&call)?;
            let capacity =
                JudgeCapacity { limits: &self.host.limits, opening_slots: &self.capacity.opening_slots };
            let advice = AdviceMemory { memory: Some(&self.host.advice), host: &host.name, session };
            let system_programs = &host_call.system_programs;
            judge(capacity, &call, HostCallInput { host, subject, input, system_programs, advice }).await
        };
        let verdict = AssertUnwindSafe(judging)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(explain::internal_fault(&call)));
        let (finding, rules) = explain::explain_verdict(verdict);
        let (finding, rules) = with_location(approval_rule, finding, rules);
        let finding = match finding {
            ExplainedVerdict::Deny { refusal } => {
                let refusal = self.throttle.pace_refusal(&self.modes.watch, &call, refusal);
                ExplainedVerdict::Deny { refusal }
            }
            other => other,
        };
        let (call, finding) = record_denial(&self.recorder, call, finding, host_facts);
        let explanation = explanation(&call, rules_tool, finding, rules);
        Ok(HostVerdict::Judged { explanation, on_permit: host.on_permit, on_approval: host.on_approval })
    }
}

/// Records a denial. If that fails, the call stays denied, and the refusal states that it could not be
/// recorded.
fn record_denial(
    recorder: &Recorder,
    call: PipelineCall,
    finding: ExplainedVerdict,
    host_facts: impl FnOnce() -> Value,
) -> (PipelineCall, ExplainedVerdict) {
    let ExplainedVerdict::Deny { refusal } = finding else { return (call, finding) };
    let call = call.with_host_facts(host_facts());
    let result = recorder.record_refusal(&call, (*refusal).clone());
    (call, ExplainedVerdict::Deny { refusal: result.metadata.refusal.map_or(refusal, Box::new) })
}

pub(super) fn explanation(
    call: &PipelineCall,
    tool_name: String,
    finding: ExplainedVerdict,
    rules: Vec<RuleRef>,
) -> Explanation {
    let policy_hash = call.snapshot.policy.hash().to_owned();
    let (mode, notes) = (call.header.mode, Vec::new());
    Explanation { tool_name, mode, finding, rules, policy_hash, notes }
}

/// Names the line of the host table as the rule that requires approval, in place of the definition made from
/// it.
pub(super) fn with_location(
    table: Option<RuleRef>,
    finding: ExplainedVerdict,
    rules: Vec<RuleRef>,
) -> (ExplainedVerdict, Vec<RuleRef>) {
    let Some(table) = table else { return (finding, rules) };
    let locate = |rule: RuleRef| if rule.line == 0 && rule.id == table.id { table.clone() } else { rule };
    let in_refusal = |refusal: Box<Refusal>| Box::new(Refusal { rule: refusal.rule.map(locate), ..*refusal });
    let finding = match finding {
        ExplainedVerdict::Permit => ExplainedVerdict::Permit,
        ExplainedVerdict::Ask { refusal, asked_by } => ExplainedVerdict::Ask {
            refusal: in_refusal(refusal),
            asked_by: asked_by.into_iter().map(locate).collect(),
        },
        ExplainedVerdict::Deny { refusal } => ExplainedVerdict::Deny { refusal: in_refusal(refusal) },
    };
    (finding, rules.into_iter().map(locate).collect())
}

/// Memory of advice for the calls of one conversation.
#[derive(Clone, Copy)]
pub(super) struct AdviceMemory<'a> {
    /// None in a process that judges one call.
    pub(super) memory: Option<&'a RepeatedAdvice>,
    pub(super) host: &'a str,
    pub(super) session: Option<&'a str>,
}

impl AdviceMemory<'_> {
    fn key(self, tool: &str, input: &Value, refusal: &Refusal) -> Option<String> {
        self.memory?;
        repeated_advice::advice_key((self.host, self.session), tool, input, refusal)
    }

    fn is_repeated(self, key: &str) -> bool {
        self.memory.is_some_and(|memory| memory.is_repeated(key))
    }
}

/// Facts about a host call that the judge of Sinew's own calls does not have.
pub(super) struct HostCallInput<'a> {
    pub(super) host: &'a Host,
    pub(super) subject: HostCallSubject<'a>,
    /// Arguments in the host's terms.
    pub(super) input: Value,
    /// Programs of the command line that the host's PATH finds in a folder of the system.
    pub(super) system_programs: &'a [String],
    pub(super) advice: AdviceMemory<'a>,
}

/// Judges a host call with the pipeline's own stages and counts it if it is permitted, because the host runs
/// it without reporting back.
pub(super) async fn judge(
    capacity: JudgeCapacity<'_>,
    call: &PipelineCall,
    host_call: HostCallInput<'_>,
) -> Result<Verdict, Box<Refusal>> {
    let HostCallInput { host, subject, input, system_programs, advice } = host_call;
    let tool = match subject {
        HostCallSubject::Tool(tool) => tool,
        HostCallSubject::CuratedName(refusal) => return Err(refusal),
    };
    let curated = || curated_refusal(&call.snapshot, &call.tool_name, &input);
    let malformed = tool.is_curated.then(curated).flatten();
    let repeated = malformed.as_ref().and_then(|refusal| advice.key(&call.tool_name, &input, refusal));
    let shows = tool.listed_names(&input);
    let line = tool.command_line(&input);
    let input = tool.resolve_arguments(input, host.user_home.as_deref())?;
    let shape = tool.shape_for(&call.snapshot.policy);
    let schema = shape.schema().map_err(|mistake| host_table_error(call, mistake))?;
    let checked = call.time_stage(Stage::Check, || guardrail::check(&shape.definition, schema, input));
    // The curated map names more arguments of a malformed call than the host table does.
    let valid = match (checked, &malformed) {
        (Ok(valid), _) => valid,
        (Err(_), Some(refusal)) => return Err(refusal.clone()),
        (Err(refusal), None) => return Err(refusal),
    };
    secret_screening::refuse_blocked(&call.snapshot.policy, &valid)?;
    let verdict = pipeline::judge_only(capacity, call, valid).await?;
    let verdict = unconfined::refuse_if_sandbox_required(call, &shape.definition, verdict)?;
    let verdict =
        directory_contents::refuse_forbidden_contents(capacity.opening_slots, call, tool, (verdict, shows))
            .await?;
    // Policy comes first: advice on the shape of a call that is forbidden anyway only leads to a second denial.
    if let (Verdict::Permit(_) | Verdict::ApprovalRequired(_), Some(refusal)) = (&verdict, malformed) {
        match repeated {
            None => return Err(refusal),
            Some(key) if !advice.is_repeated(&key) => return Err(with_repetition_hint(refusal)),
            Some(_) => {}
        }
    }
    if let (Verdict::ApprovalRequired(question), Some(line)) = (&verdict, line)
        && is_asked_by_table_only(question.approval_rules())
        && let Some(permits) =
            reading_line::permit(capacity, call, &line, system_programs).await
        // A line beyond a limit of Sinew's tools is left to the user, like one that they do not permit.
        && capacity.limits.count_line(&call.caller_key, question.permit(), &permits.uses()).is_ok()
    {
        return Ok(Verdict::Permit(permits.run));
    }
    match &verdict {
        Verdict::Permit(permit) => {
            capacity.limits.count(&call.caller_key, permit).map_err(|denial| call.refusal_for(denial))?;
        }
        Verdict::Denial(denial) => call.keep_denial_facts(denial.facts()),
        Verdict::ApprovalRequired(question) if host.on_approval == OnApproval::Deny => {
            return Err(unaskable_refusal(host, question.no_approver_refusal()));
        }
        Verdict::ApprovalRequired(_) => {}
    }
    Ok(verdict)
}

/// Adds to advice on a text how to make the call if the text is intended.
fn with_repetition_hint(refusal: Box<Refusal>) -> Box<Refusal> {
    let hint =
        "if the text is meant to be this short, send exactly the same call again: it is then permitted";
    Box::new(refusal.with_hint(hint))
}

/// Returns true if no policy file requires the approval, only the definition of the host's tool.
fn is_asked_by_table_only(rules: &[RuleRef]) -> bool {
    rules.iter().all(|rule| rule.line == 0)
}

/// Refusal for a call that needs approval in a host that cannot ask for it.
fn unaskable_refusal(host: &Host, refusal: Refusal) -> Box<Refusal> {
    let reason =
        format!("Permission denied: Approval is required, and a hook cannot ask for it in {}", host.name);
    let hint = "use Sinew's own tools, which ask the operator, or a call that needs no approval";
    Box::new(Refusal { reason, ..refusal }.with_hint(hint))
}

/// Refusal for an error in the host table that only this call brought up.
fn host_table_error(call: &PipelineCall, mistake: &str) -> Box<Refusal> {
    let reason = format!("Permission denied: The host table is invalid: {mistake}");
    let refusal = Refusal::new(&call.tool_name, RefusalCode::InvalidArguments, reason);
    Box::new(
        refusal.with_detail("host_table").with_hint("run `sinew check` to see the location of the error"),
    )
}

/// Checks the call against the curated map, which lists tools under the names that hosts use.
fn curated_refusal(snapshot: &ConfigSnapshot, tool_name: &str, input: &Value) -> Option<Box<Refusal>> {
    let refusal = snapshot.with_guard(|guard| guard.check_unknown(tool_name, input))?;
    Some(Box::new(refusal.with_hint("send the call again with the problem corrected")))
}

impl HostCallOrigin {
    /// Facts for the ledger. The host controls these texts, so they are shortened and redacted.
    fn to_ledger_facts(&self, host: &str, tool: &str) -> Value {
        let short = |text: &str| redact::shared().redact_text(&shorten(text, MAX_QUOTED_CHARS)).into_owned();
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
