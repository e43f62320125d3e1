//! Repair proposals for malformed calls. There is one proposal, made of every obvious repair at once, and
//! none if a repair is ambiguous. No value is invented: the proposal has the given values, under other keys
//! or converted to the type they denote.

mod convert_values;
mod gather_items;
mod rename_keys;
mod unwrap_arguments;

use std::io;

use serde_json::Value;
use tool::refusal::Repair;
use tool::{Arguments, Refusal};

use crate::SchemaCheckedCall;
use crate::guardrail::{Guardrail, KnownTool};

/// Maximum size in bytes of arguments for which a repair is searched.
const MAX_REPAIRABLE_BYTES: usize = 4 << 20;
/// Maximum size in bytes of repaired arguments that are sent back; for larger ones the offer only lists the
/// changes.
const MAX_RETURNED_BYTES: usize = 64 << 10;
/// Maximum number of changes; with more, the result would be a different call.
const MAX_CHANGES: usize = 16;

/// Repaired call that would pass the guardrail. No policy has judged it.
#[derive(Debug)]
pub struct RepairProposal {
    call: SchemaCheckedCall,
    offer: RepairOffer,
}

/// Repair to offer once the proposed call is known to be permitted.
#[derive(Debug)]
pub struct RepairOffer {
    /// Repaired arguments without the tool's defaults; `None` if they are too large to send back.
    arguments: Option<Arguments>,
    note: String,
}

impl RepairProposal {
    /// Returns the call to validate and judge, and the offer to make if it would be permitted.
    pub fn into_parts(self) -> (SchemaCheckedCall, RepairOffer) {
        (self.call, self.offer)
    }
}

impl RepairOffer {
    /// Adds the repair to the refusal of the original call.
    pub fn add_to(self, refusal: &mut Refusal) {
        let accepted = match &self.arguments {
            Some(_) => "`repair` is accepted".to_owned(),
            None => format!("with this change it is accepted: {}", self.note),
        };
        refusal.hint = Some(match refusal.hint.take() {
            Some(hint) => format!("{hint}; {accepted}"),
            None => accepted,
        });
        refusal.repair = self.arguments.map(|arguments| Repair { arguments, note: self.note });
    }
}

/// Descriptions of the changes made.
#[derive(Default)]
struct RepairChanges(Vec<String>);

impl RepairChanges {
    fn add(&mut self, change: String) {
        self.0.push(change);
    }

    /// Returns true if there are more changes than a repair may have, so that the search can stop.
    fn are_too_many(&self) -> bool {
        self.0.len() > MAX_CHANGES
    }
}

/// Returns the one obvious repair of a call, if there is one and the guardrail accepts it.
pub(crate) fn propose(
    guard: &Guardrail<'_>,
    known: KnownTool<'_>,
    arguments: Value,
) -> Option<RepairProposal> {
    if json_size(&arguments) > MAX_REPAIRABLE_BYTES {
        return None;
    }
    let mut changes = RepairChanges::default();
    let mut arguments = unwrap_arguments::unwrap(known.definition, arguments, &mut changes)?;
    rename_keys::rename(known.definition, &mut arguments, &mut changes);
    gather_items::gather(known.definition, &mut arguments, &mut changes);
    convert_values::convert(known.definition, &mut arguments, &mut changes);
    if changes.0.is_empty() || changes.are_too_many() {
        return None;
    }
    let note = changes.0.join("; ");
    let repeated = Value::Object(arguments.clone());
    let arguments = (json_size(&repeated) <= MAX_RETURNED_BYTES).then_some(arguments);
    let call = guard.check_arguments(known, repeated).ok()?;
    Some(RepairProposal { call, offer: RepairOffer { arguments, note } })
}

/// Returns the size of a value as JSON in bytes. Counting stops soon after `MAX_REPAIRABLE_BYTES`.
fn json_size(value: &Value) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            if self.0 > MAX_REPAIRABLE_BYTES {
                Err(io::ErrorKind::FileTooLarge.into())
            } else {
                Ok(bytes.len())
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    // The only possible error is the one of `write` above, and the count already shows it.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests;
