//! `sinew/tools`: the tool definitions, in the format the client requests.

use execution::ToolFilter;
use serde_json::{Value, json};
use tool::Format;

use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/tools", run };

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let filter = ToolFilter { mode: params.want("mode")?, category: params.want("category")? };
    let format: Format = params.want("format")?.unwrap_or_default();
    params.finish()?;
    let tools = agent.layer.tools_in(session.worker.as_deref(), &filter);
    let tools: Vec<Value> = tools.iter().map(|definition| format.export(definition)).collect();
    Ok(Answer::Now(rpc::answer(&json!({"format": format, "tools": tools}))))
}
