//! Executor for `meta` tools, which call other tools. A helper plans the calls; each runs through the whole
//! pipeline on behalf of the original caller, one after the other, in the slot of the meta tool. A refused
//! inner call is refused.

use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use knowledge::{KnowledgeFunction, WorkerPool};
use registry::{CallPreview, ExecutorFuture, RecordedPermit, ToolExecutor};
use serde_json::{Value, json};
use tool::{Failure, FailureKind, ToolOutput, ToolResult, TraceContext};

use crate::bounded_json;
use crate::input_processor::with_opened_paths;
use crate::output_processor::OutputProcessor;
use crate::pipeline_entry::{InnerCall, PipelineEntry};
use crate::plan::{CallPlan, PlanStep, StepResults};

/// Executor of a `meta` tool.
#[derive(Clone)]
pub(crate) struct MetaTool {
    pub(crate) pipeline: PipelineEntry,
    /// Names of callable tools, or of manifests whose tools are callable.
    pub(crate) aggregates: Arc<[String]>,
    /// Helper that plans the calls. Without one, each aggregate is called in turn.
    pub(crate) orchestration: Option<KnowledgeFunction>,
    pub(crate) workers: WorkerPool,
    pub(crate) output_processor: OutputProcessor,
}

impl MetaTool {
    async fn execute(self, recorded_permit: Arc<RecordedPermit>) -> Result<ToolOutput, Failure> {
        let deadline = Instant::now() + recorded_permit.value().timeout();
        let plan = self.plan(&recorded_permit).await?;
        let mut step_results = StepResults::new();
        for step in &plan.steps {
            let result = self
                .run_step(step, &step_results, &recorded_permit, deadline)
                .await
                .map_err(|failure| with_step_results(failure, &step_results))?;
            let is_done = result.success;
            let entry = json!({"success": is_done, "output": result.output, "error": result.error});
            step_results.insert(step.id.clone(), entry);
            if !is_done && !step.optional {
                return Err(with_step_results(step_failure(step, result), &step_results));
            }
        }
        let value = plan
            .output(&step_results)
            .map_err(|reason| with_step_results(invalid_plan(&reason), &step_results))?;
        self.output_processor.process(ToolOutput { value, ..ToolOutput::default() }).await
    }

    async fn plan(&self, recorded_permit: &RecordedPermit) -> Result<CallPlan, Failure> {
        let arguments = with_opened_paths(recorded_permit.value());
        let plan = match &self.orchestration {
            None => CallPlan::call_each(&self.aggregates, &arguments),
            Some(helper) => {
                let computed = bounded_json::compute(&self.workers, helper, &Value::Object(arguments)).await;
                CallPlan::parse(computed.map_err(|error| invalid_plan(&error.to_string()))?)
            }
        };
        plan.map_err(|reason| invalid_plan(&reason))
    }

    async fn run_step(
        &self,
        step: &PlanStep,
        step_results: &StepResults,
        recorded_permit: &RecordedPermit,
        deadline: Instant,
    ) -> Result<ToolResult, Failure> {
        if !self.may_call(&step.tool) {
            let reason = format!(
                "`{}` is not among its aggregates",
                tool::text::shorten(&step.tool, tool::text::MAX_QUOTED_CHARS)
            );
            return Err(invalid_plan(&reason));
        }
        let arguments = step.resolved_arguments(step_results).map_err(|reason| invalid_plan(&reason))?;
        let call = InnerCall {
            tool: step.tool.clone(),
            arguments,
            caller: (*recorded_permit.call().caller).clone(),
            trace: TraceContext::from_traceparent(&recorded_permit.call().trace.traceparent()),
            deadline: deadline.saturating_duration_since(Instant::now()),
        };
        Ok(self.pipeline.start(call)?.await)
    }

    /// Returns true if the tool or its manifest is among the aggregates.
    fn may_call(&self, tool: &str) -> bool {
        let of = |listed: &String| {
            tool.strip_prefix(listed.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.aggregates.iter().any(of)
    }
}

/// Builds the failure for an invalid plan of the helper.
fn invalid_plan(reason: &str) -> Failure {
    let message = format!("the plan of this tool cannot be executed: {reason}");
    Failure::new(FailureKind::Crashed, message).with_hint("this is an error in its manifest, not in the call")
}

/// Builds the failure for a failed step. A refusal of the inner call is passed on unchanged.
fn step_failure(step: &PlanStep, result: ToolResult) -> Failure {
    let error = result.error.unwrap_or_else(|| "it failed".to_owned());
    let message = format!("the step `{}` ({}) did not succeed: {error}", step.id, result.tool_name);
    let metadata = result.metadata;
    let kind = metadata.failure.as_ref().map_or(FailureKind::Denied, |failure| failure.kind);
    let hint = metadata.failure.and_then(|failure| failure.hint);
    let hint = hint.or_else(|| metadata.refusal.as_ref().and_then(|refusal| refusal.hint.clone()));
    Failure { hint, refusal: metadata.refusal.map(Box::new), ..Failure::new(kind, message) }
}

/// Adds the results of the completed steps, whose effects remain.
fn with_step_results(failure: Failure, step_results: &StepResults) -> Failure {
    Failure { output: Some(json!({"steps": step_results})), ..failure }
}

impl ToolExecutor for MetaTool {
    fn preview(&self, _permit: &Permit) -> Result<CallPreview, Failure> {
        let calls = format!("{}; each call is judged on its own", self.aggregates.join(", "));
        Ok(CallPreview { facts: vec![("may call".to_owned(), calls)], ..CallPreview::default() })
    }

    fn backing(&self) -> Vec<(&'static str, String)> {
        vec![("calls", self.aggregates.join(", "))]
    }

    fn makes_inner_calls(&self) -> bool {
        true
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        Box::pin(self.clone().execute(recorded_permit))
    }
}
