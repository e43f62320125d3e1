//! `sinew policy prove`: answers whether a policy permits a call with a stated effect, with a call that the judge
//! decided or the statement that there is none.

use std::sync::Arc;

use policy_tools::prove::{ASSUMPTIONS, Proof, ProofContext, Question, Witness, prove};
use serde_json::{Value, json};
use tool::{RuleRef, ToolDefinition};

use crate::cli::JsonArgs;
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible_line, paint, print_result_line,
};

pub(super) fn run(
    context: &CommandContext,
    words: &[String],
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let snapshot = compose::config_snapshot(context, &context.settings()?, WorkspaceSelection::Configured)?;
    let variables = compose::policy_environment(context).variables;
    let question = Question::parse(words, context.folder(), &variables)
        .map_err(|error| CommandError::usage(error.message).with_hint(error.hint))?;
    let definitions: Vec<Arc<ToolDefinition>> = snapshot.registry.definitions().cloned().collect();
    if let Some(tool) = question.tool()
        && !definitions.iter().any(|one| one.name().as_str() == tool)
    {
        let hint = "`sinew tools` lists the tools";
        return Err(CommandError::usage(format!("no tool is called `{tool}`")).with_hint(hint));
    }
    let services: Vec<(String, String)> = snapshot
        .registry
        .all_versions()
        .flat_map(|tool| {
            let name = tool.definition().name().to_string();
            tool.executor().services().into_iter().map(move |service| (name.clone(), service.url))
        })
        .collect();
    let proof = prove(
        &ProofContext {
            policy: &snapshot.policy,
            definitions: &definitions,
            workspaces: &snapshot.workspaces,
            services: &services,
        },
        &question,
    );
    let text = words.join(" ");
    if output.json {
        render::print_json(json!({"question": text, "exists": exists(&proof),
            "policy_hash": snapshot.policy.hash(), "witnesses": proof.witnesses, "undecided": proof.undecided,
            "choosing_programs": proof.choosing_programs, "judged": proof.judged, "assumptions": ASSUMPTIONS}))?;
    } else {
        show(&proof, &text)?;
    }
    Ok(match exists(&proof) {
        Some(true) => ExitKind::Done,
        Some(false) => ExitKind::Failed,
        None => ExitKind::TimedOut,
    })
}

/// Returns true if a call exists; `None` if none was found and a tool is not decided.
fn exists(proof: &Proof) -> Option<bool> {
    match (proof.witnesses.is_empty(), proof.undecided.is_empty()) {
        (false, _) => Some(true),
        (true, true) => Some(false),
        (true, false) => None,
    }
}

fn show(proof: &Proof, question: &str) -> Result<(), CommandError> {
    let question = escape_invisible_line(question);
    print_result_line(match exists(proof) {
        Some(true) => format!("{}: `{question}` is possible", paint(WARNING_STYLE, "yes")),
        Some(false) => {
            format!("{}: no call can `{question}` ({} judged)", paint(SUCCESS_STYLE, "no"), proof.judged)
        }
        None => format!("{}: `{question}` is not decided", paint(ERROR_STYLE, "unknown")),
    })?;
    let mut shown: Vec<&Witness> = Vec::new();
    for witness in &proof.witnesses {
        let is_alike = |other: &Witness| {
            let form = |one: &Witness| (one.tool.clone(), one.verdict, one.effect.clone(), one.rule.clone());
            form(other) == form(witness) && other.arguments == witness.arguments
        };
        if !shown.iter().any(|known| is_alike(known)) {
            let modes: Vec<&str> =
                proof.witnesses.iter().filter(|one| is_alike(one)).map(|one| one.mode.as_str()).collect();
            show_witness(witness, &modes.join(", "))?;
            shown.push(witness);
        }
    }
    for one in &proof.undecided {
        let reason = escape_invisible_line(&one.reason);
        print_result_line(paint(ERROR_STYLE, format!("  {} is not decided: {reason}", one.tool)))?;
    }
    if !proof.choosing_programs.is_empty() {
        let tools = proof.choosing_programs.join(", ");
        print_result_line(format!("  not named by a call: the programs that {tools} choose and start"))?;
    }
    print_result_line(paint(DIM_STYLE, "This assumes:"))?;
    ASSUMPTIONS.iter().map(|text| paint(DIM_STYLE, format!("- {text}"))).try_for_each(print_result_line)
}

fn show_witness(witness: &Witness, modes: &str) -> Result<(), CommandError> {
    let attendance = match witness.verdict {
        governance::files::VerdictKind::Ask => "with a human's approval",
        _ => "without a human",
    };
    let arguments = arguments_line(&witness.arguments);
    print_result_line(format!("  {} in {modes} {attendance}: {arguments}", witness.tool))?;
    let effect = witness.effect.as_ref().map(|effect| format!("    {}", escape_invisible_line(effect)));
    effect.map_or(Ok(()), print_result_line)?;
    rule_line(witness.rule.as_ref()).map_or(Ok(()), print_result_line)
}

/// Returns the line that names the deciding rule.
pub(super) fn rule_line(rule: Option<&RuleRef>) -> Option<String> {
    rule.map(|rule| paint(DIM_STYLE, format!("    by {}", render::format_rule(rule))))
}

/// Returns the arguments of a call in one line.
pub(super) fn arguments_line(arguments: &Value) -> String {
    escape_invisible_line(&arguments.to_string())
}
