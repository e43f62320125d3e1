//! What a manifest knows, as the guardrail takes it: validators, mistakes, surprises.

use std::sync::Arc;

use guardrail::{Form, Lore, Mistake, Quirk, Requirement, Rule};
use knowledge::{Function, Kind};
use manifest::{Check, Command, KnowledgeStrategy, Manifest};

use crate::argv;

/// The helpers of a manifest, as its other functions may call them.
pub(crate) fn helpers(manifest: &Manifest) -> Arc<[(Arc<str>, Arc<str>)]> {
    manifest.helpers().map(|helper| (helper.id.as_str().into(), helper.source.as_str().into())).collect()
}

/// A function of a manifest, ready to be run.
pub(crate) fn function(
    kind: Kind,
    function: &manifest::Function,
    helpers: &Arc<[(Arc<str>, Arc<str>)]>,
) -> Function {
    let (id, source) = (function.id.as_str().into(), function.source.as_str().into());
    Function { kind, id, source, helpers: Arc::clone(helpers) }
}

/// What refuses a call of a command. A value that a program would take for an option is refused with the rest.
pub(crate) fn rules(manifest: &Manifest, command: &Command) -> Vec<Rule> {
    let helpers = helpers(manifest);
    let stated = manifest.validators(&command.name).map(|validator| Rule {
        requirements: validator.checks.iter().flat_map(requirements).collect(),
        function: Some(function(Kind::Validator, &validator.function, &helpers)),
    });
    let exposed = argv::before_the_end_of_options(&command.argv);
    let options = Rule { requirements: vec![Requirement::NoOption(exposed)], function: None };
    let has_argv = !command.argv.is_empty();
    has_argv.then_some(options).into_iter().chain(stated).collect()
}

fn requirements(check: &Check) -> Vec<Requirement> {
    let present =
        (!check.required_fields.is_empty()).then(|| Requirement::Present(check.required_fields.clone()));
    let form = check.format.and_then(|format| Form::named(format.as_str()));
    let form = form.map(|form| Requirement::Form(check.field.clone(), form));
    present.into_iter().chain(form).collect()
}

/// What is told where a call is wrong. Nothing, where the manifest keeps its knowledge to itself.
pub(crate) fn lore(manifest: &Manifest, command: &Command) -> Lore {
    if manifest.strategy() == KnowledgeStrategy::External {
        let reference = format!("see the documentation of {} {}", manifest.name(), manifest.version());
        return Lore { reference: Some(reference), ..Lore::default() };
    }
    if !manifest.strategy().teaches() {
        return Lore::default();
    }
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
    Lore {
        command: command.name.clone(),
        siblings: manifest.tools().map(|(command, _)| command.name.clone()).collect(),
        mistakes: mistakes.collect(),
        quirks: quirks.collect(),
        reference: None,
    }
}
