//! `control/execute`: a tool call by the operator, through the same pipeline as any other call. Only this
//! method can skip the curated map, to replay a call unchanged. The schema check and the judge cannot be
//! skipped.

use std::sync::Arc;

use execution::CuratedMap;
use tool::{Caller, Door};

use super::Control;
use crate::methods::execute;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/execute", run };

fn run(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let (mut request, mut params) = execute::request(session, call)?;
    if params.want("skip_guardrail")?.unwrap_or(false) {
        request.curated_map = CuratedMap::LeftOut;
    }
    params.finish()?;
    request.caller = Caller { door: Door::Control, ..request.caller };
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move { rpc::answer(&layer.execute(request).await) }))
}
