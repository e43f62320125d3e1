//! `sinew policy suggest`: suggests policy changes from the recorded calls.

mod observed_calls;

use std::fmt::Write as _;

use governance::Policy;
use governance::suggested_change::PolicyFile;
use jiff::Timestamp;
use policy_tools::{
    MIN_CALLS, PolicyEffect, SuggestContext, SuggestReport, Suggestion, SuggestionKind, compare_policies,
    suggest,
};
use serde_json::{Value, json};

use crate::cli::JsonArgs;
use crate::command::allow::{painted, unified};
use crate::command::{init, reload};
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible, escape_invisible_line, paint,
    print_result_line,
};
use crate::units;

use super::replay::definitions;

/// Pieces of evidence shown for one suggestion. All are in the JSON output.
const SHOWN_EVIDENCE: usize = 6;

pub(super) fn run(
    command_context: &CommandContext,
    since: Timestamp,
    apply: Option<usize>,
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let snapshot = compose::config_snapshot(
        command_context,
        &command_context.settings()?,
        WorkspaceSelection::Configured,
    )?;
    let environment = compose::policy_environment(command_context);
    let context = SuggestContext {
        policy: &snapshot.policy,
        environment: &environment,
        workspaces: &snapshot.workspaces,
        definitions: definitions(&snapshot),
        since,
    };
    let calls = observed_calls::read(command_context, &snapshot, since)?;
    let mut report = suggest(&context, calls);
    // A change that the examples of the user's files forbid would not load.
    report.suggestions.retain(|one| loads(&context, one));
    match apply {
        Some(number) => write_change(command_context, &context, &report, number, output),
        None => show_report(command_context, &context, &report, output),
    }
}

fn loads(context: &SuggestContext<'_>, suggestion: &Suggestion) -> bool {
    suggestion.change.is_none()
        || candidate(context, suggestion)
            .is_some_and(|policy| policy.check_tools(context.definitions.iter().copied()).is_ok())
}

fn candidate(context: &SuggestContext<'_>, suggestion: &Suggestion) -> Option<Policy> {
    let (file, text) = suggestion.change.as_ref()?;
    context.policy.with_user_text(*file, text, context.environment).ok()
}

/// Returns true if the daemon would wait for the operator before it applies the change.
fn loosens(context: &SuggestContext<'_>, suggestion: &Suggestion) -> bool {
    let Some(changed) = candidate(context, suggestion) else { return false };
    let differences =
        compare_policies((context.policy, &changed), context.workspaces, context.definitions.iter().copied());
    differences.iter().any(|difference| difference.effect == PolicyEffect::Loosens)
}

fn show_report(
    command_context: &CommandContext,
    context: &SuggestContext<'_>,
    report: &SuggestReport,
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let numbered = || (1..).zip(&report.suggestions);
    if output.json {
        let list: Vec<Value> =
            numbered().map(|(number, one)| as_json(command_context, context, number, one)).collect();
        render::print_json(json!({"since": context.since.to_string(),
            "calls": report.calls, "not_judged": report.not_judged, "questions": report.questions,
            "suggestions": list}))?;
        return Ok(ExitKind::Done);
    }
    let period = format!(
        "{} since {}, {} asked you",
        plural(report.calls, "call"),
        units::local_time(context.since),
        report.questions
    );
    print_result_line(match report.not_judged {
        0 => period,
        count => format!("{period}; {count} more have no complete record"),
    })?;
    for (number, one) in numbered() {
        print_result_line("")?;
        show_suggestion(command_context, context, number, one)?;
    }
    print_result_line("")?;
    if report.suggestions.iter().any(|one| one.change.is_some()) {
        print_result_line("Write one of them with `sinew policy suggest --apply NUMBER`.")?;
    } else {
        print_result_line("No change of your files is suggested.")?;
    }
    if report.calls < MIN_CALLS {
        print_result_line(format!(
            "Unused rules are suggested from {MIN_CALLS} calls on; `--since 30d` reads more."
        ))?;
    }
    Ok(ExitKind::Done)
}

fn show_suggestion(
    command_context: &CommandContext,
    context: &SuggestContext<'_>,
    number: usize,
    suggestion: &Suggestion,
) -> Result<(), CommandError> {
    let title = format!("{number}. {}", escape_invisible_line(&suggestion.summary));
    print_result_line(paint(WARNING_STYLE, title))?;
    for line in suggestion.evidence.iter().take(SHOWN_EVIDENCE) {
        print_result_line(format!("   {}", escape_invisible_line(line)))?;
    }
    if let Some(more) = suggestion.evidence.len().checked_sub(SHOWN_EVIDENCE).filter(|more| *more > 0) {
        print_result_line(format!("   and {more} more"))?;
    }
    if suggestion.change.is_none() {
        return print_result_line(paint(
            DIM_STYLE,
            "   the rule works; the agent's instructions could name it",
        ));
    }
    print_result_line(painted(&escape_invisible(&diff(command_context, context, suggestion))))?;
    print_result_line(paint(SUCCESS_STYLE, format!("   proven by replay: {}", effect_text(suggestion))))?;
    if let Some(caution) = suggestion.caution {
        print_result_line(paint(DIM_STYLE, format!("   {caution}")))?;
    }
    match loosens(context, suggestion) {
        true => print_result_line(paint(
            DIM_STYLE,
            "   loosens the policy: applies after `sinew reload --accept`",
        )),
        false => Ok(()),
    }
}

/// Returns the effect in words. Every number is a result of the replay.
fn effect_text(suggestion: &Suggestion) -> String {
    let effect = &suggestion.effect;
    let mut text = match suggestion.kind {
        SuggestionKind::AlwaysApproved => plural(effect.questions_fewer, "fewer approval"),
        _ => format!("all {} are decided as before", plural(effect.calls, "call")),
    };
    if effect.denied_stay_denied > 0 && suggestion.kind == SuggestionKind::AlwaysApproved {
        let verb = if effect.denied_stay_denied == 1 { "stays" } else { "stay" };
        let calls = plural(effect.denied_stay_denied, "call");
        // Writing to a String cannot fail.
        let _ = write!(text, "; {calls} that you denied {verb} denied");
    }
    text
}

fn diff(command_context: &CommandContext, context: &SuggestContext<'_>, suggestion: &Suggestion) -> String {
    let Some((file, text)) = &suggestion.change else { return String::new() };
    let name = file_path(command_context, *file).display().to_string();
    unified(&name, context.policy.user_text(*file).unwrap_or_default(), text)
}

fn file_path(command_context: &CommandContext, file: PolicyFile) -> std::path::PathBuf {
    command_context.home().config_dir().join("governance").join(file.name())
}

fn as_json(
    command_context: &CommandContext,
    context: &SuggestContext<'_>,
    number: usize,
    suggestion: &Suggestion,
) -> Value {
    json!({"number": number, "kind": suggestion.kind, "tool": suggestion.tool, "summary": suggestion.summary,
        "evidence": suggestion.evidence, "caution": suggestion.caution, "effect": suggestion.effect,
        "loosens": loosens(context, suggestion),
        "diff": suggestion.change.as_ref().map(|_| diff(command_context, context, suggestion))})
}

/// Writes the change with this number.
fn write_change(
    command_context: &CommandContext,
    context: &SuggestContext<'_>,
    report: &SuggestReport,
    number: usize,
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let chosen = number.checked_sub(1).and_then(|at| report.suggestions.get(at));
    let Some((suggestion, (file, text))) = chosen.and_then(|one| Some((one, one.change.as_ref()?))) else {
        let problem = CommandError::usage(format!("there is no suggested change with the number {number}"));
        return Err(problem.with_hint("list them with `sinew policy suggest`, with the same `--since`"));
    };
    let path = file_path(command_context, *file);
    let shown = diff(command_context, context, suggestion);
    init::replace_unchanged(&path, context.policy.user_text(*file), text)?;
    if output.json {
        let applied = as_json(command_context, context, number, suggestion);
        render::print_json(json!({"written": path, "applied": applied}))?;
    } else {
        print_result_line(painted(&escape_invisible(&shown)))?;
        print_result_line(format!("wrote {}", escape_invisible_line(&path.display().to_string())))?;
        reload::show_edit(command_context)?;
    }
    Ok(ExitKind::Done)
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
