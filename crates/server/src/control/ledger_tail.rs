//! `control/ledger.tail`: the newest records, oldest first.

use execution::LedgerFilter;

use super::{Control, ledger_filter, ledger_query};
use crate::rpc::RpcError;
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/ledger.tail", run };

const USUAL: u64 = 20;

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let count = ledger_filter::count(&mut params, "count", USUAL)?;
    params.finish()?;
    Ok(ledger_query::answer(control, LedgerFilter::default(), count))
}
