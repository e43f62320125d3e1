//! What the arguments of a call go through before its tool gets them: the processor that its manifest names. What was
//! judged stays as it was: paths, commands and addresses are not the processor's to change.

use governance::Permit;
use knowledge::{Function, Workers};
use serde_json::Value;
use tool::{Arguments, Failure, FailureKind, SESSION_ARGUMENT};

/// What arguments go through.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    pub(crate) processor: Option<Function>,
    pub(crate) workers: Workers,
}

impl Before {
    /// The arguments as the tool gets them.
    pub(crate) async fn process(&self, arguments: Arguments, permit: &Permit) -> Result<Arguments, Failure> {
        let Some(processor) = &self.processor else { return Ok(arguments) };
        let failed = |why: String| {
            let message = format!("nothing was run: the arguments could not be processed: {why}");
            Failure::new(FailureKind::Crashed, message)
                .hint("the tool's processor is at fault: its manifest must be mended")
        };
        let input = Value::Object(arguments);
        let made =
            self.workers.compute(processor, &input).await.map_err(|error| failed(error.to_string()))?;
        let (Value::Object(given), Value::Object(made)) = (input, made) else {
            return Err(failed(format!("`{}` did not answer with an object", processor.id)));
        };
        let definition = permit.call().definition();
        let paths = definition.path_arguments().iter().map(|argument| argument.key.as_str());
        let outward = definition.outward_arguments().iter().map(|argument| argument.key.as_str());
        match paths.chain(outward).chain([SESSION_ARGUMENT]).find(|key| given.get(*key) != made.get(*key)) {
            Some(key) => {
                Err(failed(format!("`{}` changed `{key}`, which was judged as it was", processor.id)))
            }
            None => Ok(made),
        }
    }

    /// For the person who is asked about a call.
    pub(crate) fn fact(&self) -> Option<(String, String)> {
        let processor = self.processor.as_ref()?;
        Some(("before".to_owned(), format!("the processor `{}` rewrites its arguments", processor.id)))
    }
}
