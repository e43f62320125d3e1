//! Input processing: runs the processor that a manifest names on the arguments before the tool receives them.
//! A processor cannot change values that were judged (paths, commands, URLs). If the operator approved a
//! preview, the tool receives exactly the previewed arguments and the processor does not run again.

use governance::Permit;
use knowledge::{Function, Workers};
use registry::{AtWork, Preview};
use serde_json::Value;
use tokio::runtime::Handle;
use tool::{Arguments, Failure, FailureKind, SESSION_ARGUMENT};

use crate::parsed;

/// Input processor of a command.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    pub(crate) processor: Option<Function>,
    pub(crate) workers: Workers,
}

impl Before {
    /// Returns the arguments that the tool receives.
    pub(crate) async fn process(&self, arguments: Arguments, permit: &Permit) -> Result<Arguments, Failure> {
        let Some(processor) = &self.processor else { return Ok(arguments) };
        match permit.foretold() {
            Some(foretold) => Ok(foretold.clone()),
            None => self.ask(processor, arguments, permit).await,
        }
    }

    async fn ask(
        &self,
        processor: &Function,
        arguments: Arguments,
        permit: &Permit,
    ) -> Result<Arguments, Failure> {
        let failed = |why: String| {
            let message = format!("nothing was run: the arguments could not be processed: {why}");
            Failure::new(FailureKind::Crashed, message).hint("the tool's processor failed: fix its manifest")
        };
        let input = Value::Object(arguments);
        let made = parsed::computed(&self.workers, processor, &input).await;
        let made = made.map_err(|error| failed(error.to_string()))?;
        let (Value::Object(given), Value::Object(made)) = (input, made) else {
            return Err(failed(format!("`{}` did not return an object", processor.id)));
        };
        let definition = permit.call().definition();
        let paths = definition.path_arguments().iter().map(|argument| argument.key.as_str());
        let outward = definition.outward_arguments().iter().map(|argument| argument.key.as_str());
        match paths.chain(outward).chain([SESSION_ARGUMENT]).find(|key| given.get(*key) != made.get(*key)) {
            Some(key) => Err(failed(format!("`{}` changed `{key}`, which was judged already", processor.id))),
            None => Ok(made),
        }
    }

    /// Processes the arguments for a preview, before the call is approved. Blocking.
    pub(crate) fn foresee(&self, arguments: Arguments, permit: &Permit) -> Result<Foreseen, Failure> {
        let Some(processor) = &self.processor else { return Ok(Foreseen { arguments, by: None }) };
        let runtime =
            Handle::try_current().map_err(|error| Failure::new(FailureKind::Crashed, error.to_string()))?;
        let arguments = runtime.block_on(self.ask(processor, arguments, permit))?;
        Ok(Foreseen { arguments, by: Some(processor.id.to_string()) })
    }
}

/// Arguments that the tool would receive.
pub(crate) struct Foreseen {
    pub(crate) arguments: Arguments,
    /// Id of the processor that rewrote them.
    by: Option<String>,
}

impl Foreseen {
    /// Builds the preview shown with an approval request.
    pub(crate) fn preview(self, mut facts: Vec<(String, String)>, at_work: AtWork) -> Preview {
        let Foreseen { arguments, by } = self;
        let Some(by) = by else { return Preview { facts, at_work, ..Preview::default() } };
        let given =
            format!("arguments rewritten by the processor `{by}`: {}", Value::Object(arguments.clone()));
        facts.push(("gets".to_owned(), given));
        Preview { facts, rewritten: Some(arguments), at_work, ..Preview::default() }
    }
}

/// Returns the arguments with every path replaced by the canonical path that was opened.
pub(crate) fn as_opened(permit: &Permit) -> Arguments {
    let mut arguments = permit.call().handed_over();
    for (key, value) in &mut arguments {
        let mut opened = permit.paths().iter().filter(|path| path.key() == key);
        let texts = match value {
            Value::Array(items) => items.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        for text in texts.iter_mut().filter(|text| text.is_string()) {
            if let Some(path) = opened.next() {
                *text = path.canonical().display().to_string().into();
            }
        }
    }
    arguments
}
