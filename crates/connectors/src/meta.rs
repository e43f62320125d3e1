//! Executor for `meta` tools, which call other tools. A helper plans the calls; each runs through the whole
//! pipeline on behalf of the original caller, one after the other, in the slot of the meta tool. A refused
//! inner call is refused.

use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use knowledge::{Function, Workers};
use registry::{Order, Preview, Running, ToolExecutor};
use serde_json::{Value, json};
use tool::{Failure, FailureKind, Output, ToolResult, TraceContext};

use crate::before::as_opened;
use crate::parsed;
use crate::payload::After;
use crate::plan::{Given, Plan, Step};
use crate::road::{InnerCall, Road};

/// Executor of a `meta` tool.
#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) road: Road,
    /// Names of callable tools, or of manifests whose tools are callable.
    pub(crate) aggregates: Arc<[String]>,
    /// Helper that plans the calls. Without one, each aggregate is called in turn.
    pub(crate) orchestration: Option<Function>,
    pub(crate) workers: Workers,
    pub(crate) after: After,
}

impl Meta {
    async fn conduct(self, order: Arc<Order>) -> Result<Output, Failure> {
        let deadline = Instant::now() + order.value().timeout();
        let plan = self.plan(&order).await?;
        let mut given = Given::new();
        for step in &plan.steps {
            let result = self
                .walk(step, &given, &order, deadline)
                .await
                .map_err(|failure| stopped(failure, &given))?;
            let is_done = result.success;
            let entry = json!({"success": is_done, "output": result.output, "error": result.error});
            given.insert(step.id.clone(), entry);
            if !is_done && !step.optional {
                return Err(stopped(failed(step, result), &given));
            }
        }
        let value = plan.answer(&given).map_err(|why| stopped(no_plan(&why), &given))?;
        self.after.process(Output { value, ..Output::default() }).await
    }

    async fn plan(&self, order: &Order) -> Result<Plan, Failure> {
        let arguments = as_opened(order.value());
        let plan = match &self.orchestration {
            None => Plan::of_each(&self.aggregates, &arguments),
            Some(helper) => {
                let answer = parsed::computed(&self.workers, helper, &Value::Object(arguments)).await;
                Plan::read(answer.map_err(|error| no_plan(&error.to_string()))?)
            }
        };
        plan.map_err(|why| no_plan(&why))
    }

    async fn walk(
        &self,
        step: &Step,
        given: &Given,
        order: &Order,
        deadline: Instant,
    ) -> Result<ToolResult, Failure> {
        if !self.may_call(&step.tool) {
            let why =
                format!("`{}` is not among its aggregates", tool::shorten(&step.tool, tool::LONGEST_WORD));
            return Err(no_plan(&why));
        }
        let arguments = step.arguments(given).map_err(|why| no_plan(&why))?;
        let call = InnerCall {
            tool: step.tool.clone(),
            arguments,
            caller: order.call().caller.clone(),
            trace: TraceContext::from_traceparent(&order.call().trace.traceparent()),
            deadline: deadline.saturating_duration_since(Instant::now()),
        };
        Ok(self.road.walk(call)?.await)
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
fn no_plan(why: &str) -> Failure {
    let message = format!("the plan of this tool cannot be executed: {why}");
    Failure::new(FailureKind::Crashed, message).hint("this is an error in its manifest, not in the call")
}

/// Builds the failure for a failed step. A refusal of the inner call is passed on unchanged.
fn failed(step: &Step, result: ToolResult) -> Failure {
    let error = result.error.unwrap_or_else(|| "it failed".to_owned());
    let message = format!("the step `{}` ({}) did not succeed: {error}", step.id, result.tool_name);
    let metadata = result.metadata;
    let kind = metadata.failure.as_ref().map_or(FailureKind::Denied, |failure| failure.kind);
    let hint = metadata.failure.and_then(|failure| failure.hint);
    let hint = hint.or_else(|| metadata.refusal.as_ref().and_then(|refusal| refusal.hint.clone()));
    Failure { hint, refusal: metadata.refusal.map(Box::new), ..Failure::new(kind, message) }
}

/// Adds the results of the completed steps, whose effects remain.
fn stopped(failure: Failure, given: &Given) -> Failure {
    Failure { output: Some(json!({"steps": given})), ..failure }
}

impl ToolExecutor for Meta {
    fn preview(&self, _permit: &Permit) -> Result<Preview, Failure> {
        let calls = format!("{}; each call is judged on its own", self.aggregates.join(", "));
        Ok(Preview { facts: vec![("may call".to_owned(), calls)], ..Preview::default() })
    }

    fn stands_for(&self) -> Vec<(&'static str, String)> {
        vec![("calls", self.aggregates.join(", "))]
    }

    fn makes_calls(&self) -> bool {
        true
    }

    fn run(&self, order: Arc<Order>) -> Running {
        Box::pin(self.clone().conduct(order))
    }
}
