//! Converts the knowledge of a manifest for the guardrail: validators, known mistakes and API quirks.

use std::sync::Arc;

use guardrail::{KnownMistake, KnownQuirk, Requirement, ToolGuidance, ValidatorRule};
use knowledge::{FunctionKind, KnowledgeFunction};
use manifest::{
    ApiComplexity, DeclarativeCheck, FieldMapping, KnowledgeStrategy, Manifest, ManifestCommandSpec,
};

use serde_json::Value;

use crate::{argv, plan};

/// Knowledge shared by all commands of a manifest, stored once.
pub(crate) struct ManifestKnowledge {
    helpers: Arc<[(Arc<str>, Arc<str>)]>,
    helper_functions: Vec<KnowledgeFunction>,
    processors: Vec<KnowledgeFunction>,
    siblings: Arc<[String]>,
    mistakes: Arc<[KnownMistake]>,
    quirks: Arc<[KnownQuirk]>,
    pub(crate) api: Arc<ApiComplexity>,
    /// Field mappings, each with its extraction helper.
    pub(crate) fields: Arc<[(FieldMapping, Option<KnowledgeFunction>)]>,
}

impl ManifestKnowledge {
    pub(crate) fn from_manifest(manifest: &Manifest) -> ManifestKnowledge {
        let texts: Arc<[(Arc<str>, Arc<str>)]> =
            manifest.helpers().map(|(id, source)| (id.into(), source.into())).collect();
        let helper_functions: Vec<KnowledgeFunction> = manifest
            .helpers()
            .map(|(id, source)| to_worker_function(FunctionKind::Helper, id, source, &texts))
            .collect();
        let processors = manifest
            .processors()
            .map(|(id, source)| to_worker_function(FunctionKind::Processor, id, source, &texts))
            .collect();
        let fields = manifest.api().mappings().into_iter().map(|mapping| {
            let helper = mapping.extraction.as_deref().and_then(|id| find_function(&helper_functions, id));
            (mapping, helper)
        });
        let mistakes = manifest.anti_patterns().iter().map(|one| KnownMistake {
            name: one.pattern.clone(),
            description: one.description.clone(),
            wrong: one.wrong.clone(),
            correct: one.correct.clone(),
            rationale: one.rationale.clone(),
        });
        let quirks = manifest.api().api_quirks.iter().map(|one| KnownQuirk {
            name: one.quirk.clone(),
            description: one.description.clone(),
            mitigation: one.mitigation.clone(),
        });
        ManifestKnowledge {
            fields: fields.collect(),
            siblings: manifest.tools().map(|(command, _)| command.name.clone()).collect(),
            mistakes: mistakes.collect(),
            quirks: quirks.collect(),
            api: Arc::new(manifest.api().clone()),
            helpers: texts,
            helper_functions,
            processors,
        }
    }

    pub(crate) fn helper(&self, id: &str) -> Option<KnowledgeFunction> {
        find_function(&self.helper_functions, id)
    }

    pub(crate) fn processor(&self, id: &str) -> Option<KnowledgeFunction> {
        find_function(&self.processors, id)
    }
}

fn find_function(functions: &[KnowledgeFunction], id: &str) -> Option<KnowledgeFunction> {
    functions.iter().find(|function| &*function.id == id).cloned()
}

/// Converts a function of a manifest into one that a worker can run.
fn to_worker_function(
    kind: FunctionKind,
    id: &str,
    source: &str,
    helpers: &Arc<[(Arc<str>, Arc<str>)]>,
) -> KnowledgeFunction {
    KnowledgeFunction { kind, id: id.into(), source: source.into(), helpers: Arc::clone(helpers) }
}

/// Returns the validators of a command. Besides those of the manifest, they refuse a value that a program
/// would treat as an option, and one that a plan would treat as a reference to an earlier result.
pub(crate) fn validators(
    manifest: &Manifest,
    command: &ManifestCommandSpec,
    shared: &ManifestKnowledge,
) -> Vec<ValidatorRule> {
    let stated = manifest.validators(&command.name).map(|validator| ValidatorRule {
        requirements: validator.checks.iter().flat_map(requirements).collect(),
        function: Some(to_worker_function(
            FunctionKind::Validator,
            &validator.id,
            &validator.function,
            &shared.helpers,
        )),
    });
    let exposed = argv::option_position_arguments(&command.argv);
    let options = ValidatorRule { requirements: vec![Requirement::NotAnOption(exposed)], function: None };
    let has_argv = !command.argv.is_empty();
    let is_planned = manifest.meta().is_some_and(|meta| meta.orchestration.is_some());
    let references =
        ValidatorRule { requirements: vec![Requirement::ForbiddenKey(plan::REFERENCE_KEY)], function: None };
    let own = has_argv.then_some(options).into_iter().chain(is_planned.then_some(references));
    own.chain(stated).collect()
}

/// Function of a manifest with an input from a success example of the same manifest.
pub struct FunctionExample {
    /// The function.
    pub function: KnowledgeFunction,
    /// Command of the example.
    pub command: String,
    /// Input: the output of the example for a processor, else its arguments.
    pub input: Value,
}

/// Returns each function of a manifest that has an example: a validator the success example of its command, a
/// helper or processor the first success example.
pub fn functions_with_examples(manifest: &Manifest) -> Vec<FunctionExample> {
    let shared = ManifestKnowledge::from_manifest(manifest);
    let success = |command: &str| {
        let mut examples = manifest.examples(command).iter();
        examples.find(|example| example.scenario == "success").cloned()
    };
    let commands: Vec<&str> = manifest.tools().map(|(command, _)| command.name.as_str()).collect();
    let mut found = Vec::new();
    for (command, definition) in manifest.tools() {
        let command = &command.name;
        let Some(example) = success(command) else { continue };
        // A validator receives the arguments after defaults are filled in.
        let mut input = example.input;
        for parameter in definition.parameters() {
            if let Some(default) = parameter.default.clone() {
                input.entry(parameter.name.clone()).or_insert(default);
            }
        }
        for validator in manifest.validators(command) {
            found.push(FunctionExample {
                function: to_worker_function(
                    FunctionKind::Validator,
                    &validator.id,
                    &validator.function,
                    &shared.helpers,
                ),
                command: command.clone(),
                input: Value::Object(input.clone()),
            });
        }
    }
    let first = commands.iter().find_map(|command| Some((*command, success(command)?)));
    if let Some((command, example)) = first {
        let arguments = Value::Object(example.input);
        let output = example.output.unwrap_or_else(|| arguments.clone());
        let helpers = shared.helper_functions.iter().map(|function| (function, &arguments));
        let processors = shared.processors.iter().map(|function| (function, &output));
        found.extend(helpers.chain(processors).map(|(function, input)| FunctionExample {
            function: function.clone(),
            command: command.to_owned(),
            input: input.clone(),
        }));
    }
    found
}

fn requirements(check: &DeclarativeCheck) -> Vec<Requirement> {
    let present =
        (!check.required_fields.is_empty()).then(|| Requirement::Present(check.required_fields.clone()));
    let form = check.format.map(|format| Requirement::Format(check.field.clone(), format));
    present.into_iter().chain(form).collect()
}

/// Returns the tool guidance for invalid calls. It is empty if the manifest does not share its knowledge.
pub(crate) fn tool_guidance(
    manifest: &Manifest,
    command: &ManifestCommandSpec,
    shared: &ManifestKnowledge,
) -> ToolGuidance {
    if manifest.strategy() == KnowledgeStrategy::External {
        let reference = format!("see the documentation of {} {}", manifest.name(), manifest.version());
        return ToolGuidance { reference: Some(reference), ..ToolGuidance::default() };
    }
    if !manifest.strategy().includes_guidance() {
        return ToolGuidance::default();
    }
    ToolGuidance {
        command: command.name.clone(),
        siblings: Arc::clone(&shared.siblings),
        mistakes: Arc::clone(&shared.mistakes),
        quirks: Arc::clone(&shared.quirks),
        reference: None,
    }
}

#[cfg(test)]
mod tests {
    use strict_yaml::Document;

    use super::*;

    /// A megabyte of names, mistakes and helpers must not be copied for each command.
    #[test]
    fn commands_share_the_knowledge_of_their_manifest() {
        let text = "tool:\n  schema_version: 2.0\n  id: t\n  type: cli\n  name: n\n  version: 1.0.0\n  description: d\n  \
                    cli_specific: {executable: echo}\n  commands:\n    - {name: a, process_input: p}\n    - {name: b, \
                    process_input: p}\n  executable_knowledge:\n    processors:\n      - {id: p, language: javascript, \
                    function: x}\n";
        let document = Document::from_text("t.yaml", text).unwrap();
        let (manifest, found) = manifest::load(&document, &|_| Ok(()));
        let manifest = manifest.unwrap_or_else(|| panic!("{found:?}"));
        let shared = ManifestKnowledge::from_manifest(&manifest);
        let guidance: Vec<ToolGuidance> =
            manifest.tools().map(|(command, _)| tool_guidance(&manifest, command, &shared)).collect();
        let [a, b] = guidance.as_slice() else { panic!("two commands") };
        assert_eq!(*a.siblings, ["a".to_owned(), "b".to_owned()]);
        assert!(Arc::ptr_eq(&a.siblings, &b.siblings) && Arc::ptr_eq(&a.mistakes, &b.mistakes));
        assert!(Arc::ptr_eq(&a.quirks, &b.quirks));
        let source = || shared.processor("p").unwrap().source;
        assert!(Arc::ptr_eq(&source(), &source()));
    }
}
