//! Converts the knowledge of a manifest for the guardrail: validators, known mistakes and API quirks.

use std::sync::Arc;

use guardrail::{Lore, Mistake, Quirk, Requirement, Rule};
use knowledge::{Function, Kind};
use manifest::{ApiComplexity, Check, Command, FieldMapping, KnowledgeStrategy, Manifest};

use crate::{argv, plan};

/// Knowledge shared by all commands of a manifest, stored once.
pub(crate) struct Shared {
    helpers: Arc<[(Arc<str>, Arc<str>)]>,
    helper_functions: Vec<Function>,
    processors: Vec<Function>,
    siblings: Arc<[String]>,
    mistakes: Arc<[Mistake]>,
    quirks: Arc<[Quirk]>,
    pub(crate) api: Arc<ApiComplexity>,
    /// Field mappings, each with its extraction helper.
    pub(crate) fields: Arc<[(FieldMapping, Option<Function>)]>,
}

impl Shared {
    pub(crate) fn of(manifest: &Manifest) -> Shared {
        let texts: Arc<[(Arc<str>, Arc<str>)]> =
            manifest.helpers().map(|(id, source)| (id.into(), source.into())).collect();
        let helper_functions: Vec<Function> =
            manifest.helpers().map(|(id, source)| function(Kind::Helper, id, source, &texts)).collect();
        let processors =
            manifest.processors().map(|(id, source)| function(Kind::Processor, id, source, &texts)).collect();
        let fields = manifest.api().mappings().into_iter().map(|mapping| {
            let helper = mapping.extraction.as_deref().and_then(|id| named(&helper_functions, id));
            (mapping, helper)
        });
        let mistakes = manifest.anti_patterns().iter().map(|one| Mistake {
            name: one.pattern.clone(),
            description: one.description.clone(),
            wrong: one.wrong.clone(),
            correct: one.correct.clone(),
            rationale: one.rationale.clone(),
        });
        let quirks = manifest.api().api_quirks.iter().map(|one| Quirk {
            name: one.quirk.clone(),
            description: one.description.clone(),
            mitigation: one.mitigation.clone(),
        });
        Shared {
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

    pub(crate) fn helper(&self, id: &str) -> Option<Function> {
        named(&self.helper_functions, id)
    }

    pub(crate) fn processor(&self, id: &str) -> Option<Function> {
        named(&self.processors, id)
    }
}

fn named(functions: &[Function], id: &str) -> Option<Function> {
    functions.iter().find(|function| &*function.id == id).cloned()
}

/// Converts a function of a manifest into one that a worker can run.
fn function(kind: Kind, id: &str, source: &str, helpers: &Arc<[(Arc<str>, Arc<str>)]>) -> Function {
    Function { kind, id: id.into(), source: source.into(), helpers: Arc::clone(helpers) }
}

/// Returns the validators of a command. Besides those of the manifest, they refuse a value that a program
/// would treat as an option, and one that a plan would treat as a reference to an earlier result.
pub(crate) fn rules(manifest: &Manifest, command: &Command, shared: &Shared) -> Vec<Rule> {
    let stated = manifest.validators(&command.name).map(|validator| Rule {
        requirements: validator.checks.iter().flat_map(requirements).collect(),
        function: Some(function(Kind::Validator, &validator.id, &validator.function, &shared.helpers)),
    });
    let exposed = argv::before_the_end_of_options(&command.argv);
    let options = Rule { requirements: vec![Requirement::NoOption(exposed)], function: None };
    let has_argv = !command.argv.is_empty();
    let is_planned = manifest.meta().is_some_and(|meta| meta.orchestration.is_some());
    let references = Rule { requirements: vec![Requirement::NoKey(plan::FROM)], function: None };
    let own = has_argv.then_some(options).into_iter().chain(is_planned.then_some(references));
    own.chain(stated).collect()
}

fn requirements(check: &Check) -> Vec<Requirement> {
    let present =
        (!check.required_fields.is_empty()).then(|| Requirement::Present(check.required_fields.clone()));
    let form = check.format.map(|format| Requirement::Form(check.field.clone(), format));
    present.into_iter().chain(form).collect()
}

/// Returns the tool guidance for invalid calls. It is empty if the manifest does not share its knowledge.
pub(crate) fn lore(manifest: &Manifest, command: &Command, shared: &Shared) -> Lore {
    if manifest.strategy() == KnowledgeStrategy::External {
        let reference = format!("see the documentation of {} {}", manifest.name(), manifest.version());
        return Lore { reference: Some(reference), ..Lore::default() };
    }
    if !manifest.strategy().teaches() {
        return Lore::default();
    }
    Lore {
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
        let shared = Shared::of(&manifest);
        let lores: Vec<Lore> =
            manifest.tools().map(|(command, _)| lore(&manifest, command, &shared)).collect();
        let [a, b] = lores.as_slice() else { panic!("two commands") };
        assert_eq!(*a.siblings, ["a".to_owned(), "b".to_owned()]);
        assert!(Arc::ptr_eq(&a.siblings, &b.siblings) && Arc::ptr_eq(&a.mistakes, &b.mistakes));
        assert!(Arc::ptr_eq(&a.quirks, &b.quirks));
        let source = || shared.processor("p").unwrap().source;
        assert!(Arc::ptr_eq(&source(), &source()));
    }
}
