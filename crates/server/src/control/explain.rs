//! `control/explain`: explains to the operator how a call on the agent socket would be decided, in any mode
//! and including facts about the files it names. Nothing runs, and nothing is recorded.

use execution::Hearer;

use super::Control;
use crate::methods::explain;
use crate::rpc::RpcError;
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/explain", run };

fn run(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    explain::explained(&control.layer, session, call, Hearer::Operator)
}
