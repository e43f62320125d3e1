//! Input processing: runs the processor that a manifest names on the arguments before the tool receives them.
//! A processor cannot change values that were judged (paths, commands, URLs). If the operator approved a
//! preview, the tool receives exactly the previewed arguments and the processor does not run again.

use governance::Permit;
use knowledge::{KnowledgeFunction, WorkerPool};
use registry::{CallPreview, ExecutionSite};
use serde_json::Value;
use tokio::runtime::Handle;
use tool::definition::SESSION_ARGUMENT;
use tool::{Arguments, Failure, FailureKind};

use crate::bounded_json;

/// Input processor of a command.
#[derive(Clone, Debug)]
pub(crate) struct InputProcessor {
    pub(crate) processor: Option<KnowledgeFunction>,
    pub(crate) workers: WorkerPool,
}

impl InputProcessor {
    /// Returns the arguments that the tool receives.
    pub(crate) async fn process(&self, arguments: Arguments, permit: &Permit) -> Result<Arguments, Failure> {
        let Some(processor) = &self.processor else { return Ok(arguments) };
        match permit.previewed_arguments() {
            Some(foretold) => Ok(foretold.clone()),
            None => self.run_processor(processor, arguments, permit).await,
        }
    }

    async fn run_processor(
        &self,
        processor: &KnowledgeFunction,
        arguments: Arguments,
        permit: &Permit,
    ) -> Result<Arguments, Failure> {
        let failed = |reason: String| {
            let message = format!("nothing was run: the arguments could not be processed: {reason}");
            Failure::new(FailureKind::Crashed, message)
                .with_hint("the tool's processor failed: fix its manifest")
        };
        let input = Value::Object(arguments);
        let processed = bounded_json::compute(&self.workers, processor, &input).await;
        let processed = processed.map_err(|error| failed(error.to_string()))?;
        let (Value::Object(original), Value::Object(processed)) = (input, processed) else {
            return Err(failed(format!("`{}` did not return an object", processor.id)));
        };
        let definition = permit.call().definition();
        let paths = definition.path_arguments().iter().map(|argument| argument.key.as_str());
        let external_keys =
            definition.external_target_arguments().iter().map(|argument| argument.key.as_str());
        match paths
            .chain(external_keys)
            .chain([SESSION_ARGUMENT])
            .find(|key| original.get(*key) != processed.get(*key))
        {
            Some(key) => Err(failed(format!("`{}` changed `{key}`, which was judged already", processor.id))),
            None => Ok(processed),
        }
    }

    /// Processes the arguments for a preview, before the call is approved. Blocking.
    pub(crate) fn preview(
        &self,
        arguments: Arguments,
        permit: &Permit,
    ) -> Result<PreviewedArguments, Failure> {
        let Some(processor) = &self.processor else {
            return Ok(PreviewedArguments { arguments, processor_id: None });
        };
        let runtime =
            Handle::try_current().map_err(|error| Failure::new(FailureKind::Crashed, error.to_string()))?;
        let arguments = runtime.block_on(self.run_processor(processor, arguments, permit))?;
        Ok(PreviewedArguments { arguments, processor_id: Some(processor.id.to_string()) })
    }
}

/// Arguments that the tool would receive.
pub(crate) struct PreviewedArguments {
    pub(crate) arguments: Arguments,
    /// Id of the processor that rewrote them.
    processor_id: Option<String>,
}

impl PreviewedArguments {
    /// Builds the preview shown with an approval request.
    pub(crate) fn into_preview(
        self,
        mut facts: Vec<(String, String)>,
        execution_site: ExecutionSite,
    ) -> CallPreview {
        let PreviewedArguments { arguments, processor_id: by } = self;
        let Some(by) = by else {
            return CallPreview { facts, execution_site, ..CallPreview::default() };
        };
        let original =
            format!("arguments rewritten by the processor `{by}`: {}", Value::Object(arguments.clone()));
        facts.push(("gets".to_owned(), original));
        CallPreview { facts, rewritten: Some(arguments), execution_site, ..CallPreview::default() }
    }
}

/// Returns the arguments with every path replaced by the canonical path that was opened.
pub(crate) fn with_opened_paths(permit: &Permit) -> Arguments {
    let mut arguments = permit.call().tool_arguments();
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
