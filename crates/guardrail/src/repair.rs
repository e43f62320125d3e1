//! What a malformed call was probably meant to be. One proposal, made of every obvious repair at once; where two would
//! do there is none. No value is invented: what is proposed is what came, under other keys or read as what it says.

mod keys;
mod values;
mod wrapping;

use std::io;

use serde_json::Value;
use tool::{Arguments, Refusal, Repair};

use crate::Fitting;
use crate::guard::{Guard, Known};

/// Larger arguments are not looked at: the caller knows them better.
const LARGEST: usize = 4 << 20;
/// Larger arguments are not repeated, only what to change in them.
const LARGEST_REPEATED: usize = 64 << 10;
/// More changes than this are no repair but another call.
const MOST_CHANGES: usize = 16;

/// Arguments that would pass the guardrail where the given ones did not. They have been judged by nobody.
#[derive(Debug)]
pub struct Proposal {
    call: Fitting,
    offer: Offer,
}

/// What is offered once the proposal has been proven.
#[derive(Debug)]
pub struct Offer {
    /// Without the tool's defaults; absent where they are too large to be repeated.
    arguments: Option<Arguments>,
    note: String,
}

impl Proposal {
    /// The call to validate and judge, and what to offer if it would be permitted.
    pub fn into_parts(self) -> (Fitting, Offer) {
        (self.call, self.offer)
    }
}

impl Offer {
    /// Puts the repair into the refusal of what it repairs.
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

/// What was changed, in words.
#[derive(Default)]
struct Changes(Vec<String>);

impl Changes {
    fn add(&mut self, change: String) {
        self.0.push(change);
    }

    /// Whether it is another call by now: what is left to change is not worth looking for.
    fn are_too_many(&self) -> bool {
        self.0.len() > MOST_CHANGES
    }
}

/// The one obvious repair of a call, if there is one and the guard would let it pass.
pub(crate) fn propose(guard: &Guard<'_>, known: Known<'_>, arguments: Value) -> Option<Proposal> {
    if size(&arguments) > LARGEST {
        return None;
    }
    let mut changes = Changes::default();
    let mut arguments = wrapping::unwrap(known.definition, arguments, &mut changes)?;
    keys::rename(known.definition, &mut arguments, &mut changes);
    values::retype(known.definition, &mut arguments, &mut changes);
    if changes.0.is_empty() || changes.are_too_many() {
        return None;
    }
    let note = changes.0.join("; ");
    let repeated = Value::Object(arguments.clone());
    let arguments = (size(&repeated) <= LARGEST_REPEATED).then_some(arguments);
    let call = guard.accept(known, repeated).ok()?;
    Some(Proposal { call, offer: Offer { arguments, note } })
}

/// How many bytes a value takes as JSON; a little more than [`LARGEST`] where it is more.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            if self.0 > LARGEST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // The only error is ours, and says what the count says.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests;
