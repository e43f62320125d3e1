//! `sinew/review_host`: advice for a hook, after another host ran one of its own tools. It blocks nothing.

use std::sync::Arc;

use execution::HostReview;
use serde_json::json;

use super::execute::tool_name;
use super::judge_host::unknown_host;
use crate::agent::Agent;
use crate::rpc::{self, Params, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/review_host", run };

fn run(agent: &Agent, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let host = tool_name(&mut params, "host")?;
    let review = review(&mut params)?;
    params.finish()?;
    let layer = Arc::clone(&agent.layer);
    Ok(Answer::later(async move {
        let advice = layer.review_host(&host, review).await.map_err(|error| unknown_host(&error))?;
        rpc::answer(&json!({"advice": advice}))
    }))
}

/// Parses the outcome: a response or an error, not both.
fn review(params: &mut Params) -> Result<HostReview, RpcError> {
    let tool = tool_name(params, "tool_name")?;
    match (params.want("error")?, params.take("tool_response")) {
        (Some(error), None) => Ok(HostReview::Failed { tool, error }),
        (None, Some(answer)) => Ok(HostReview::Answered(answer)),
        (Some(_), Some(_)) => {
            Err(RpcError::invalid_params("error", "a call has a `tool_response` or an `error`, not both"))
        }
        (None, None) => Err(RpcError::missing("tool_response", "any value, or `error`")),
    }
}
