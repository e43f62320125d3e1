//! `sinew policy record`: permits and records what a project needs for a limited time, and proposes a policy from it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use execution::ConfigSnapshot;
use execution::recording::RECORDING_NOTE;
use governance::RecordedCall;
use governance::suggested_change::PolicyFile;
use jiff::Timestamp;
use ledger::{LedgerEntry, LedgerReader, OutcomeStatus, RecordFilter};
use policy_tools::{LearnedPolicy, RecordedUse, SuggestContext, learn_policy};
use serde_json::{Value, json};

use crate::cli::{JsonArgs, RecordArgs};
use crate::command::allow::{painted, unified};
use crate::command::ledger::read_error;
use crate::command::{init, pin, reload};
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, SUCCESS_STYLE, WARNING_STYLE, confirm, escape_invisible, escape_invisible_line,
    is_interactive, paint, print_message, print_result_line, print_warning,
};
use crate::units;

use super::replay::definitions;

pub(super) fn run(command_context: &CommandContext, args: &RecordArgs) -> Result<ExitKind, CommandError> {
    match args.duration {
        Some(duration) => start(command_context, args, duration),
        None if args.finish => finish(command_context, args),
        None => stop(command_context, args.output),
    }
}

fn start(
    command_context: &CommandContext,
    args: &RecordArgs,
    duration: Duration,
) -> Result<ExitKind, CommandError> {
    let workspace = recorded_workspace(command_context, args.workspace.as_deref())?;
    let mut params = json!({"workspace": workspace, "seconds": duration.as_secs()});
    let preview = command_context.request_running_daemon("control/recording.start", params.clone())?;
    if !args.output.json {
        let shown = escape_invisible_line(&workspace.to_string_lossy());
        print_result_line(format!(
            "For {} calls in {shown} that only an allowlist of their tool refuses are permitted.",
            units::span(duration.as_secs())
        ))?;
        let effects = preview.get("becomes_possible").and_then(Value::as_array);
        for effect in effects.into_iter().flatten().filter_map(Value::as_str) {
            print_result_line(format!("becomes possible: {}", escape_invisible_line(effect)))?;
        }
        print_result_line(paint(
            DIM_STYLE,
            "Forbidden paths and commands, approvals, rates, project policies and built-in denials stay in force.",
        ))?;
    }
    let agreed = args.yes || (!args.output.json && is_interactive() && confirm("start recording?"));
    if !agreed {
        print_message("nothing was started; run the command again with `--yes` to consent");
        return Ok(ExitKind::Approval);
    }
    if let Some(params) = params.as_object_mut() {
        params.extend(preview.get("candidate").map(|shown| ("accept".to_owned(), shown.clone())));
    }
    let started = pin::PinSource::from_args(args.pin).request_control(
        command_context,
        "control/recording.start",
        params,
    )?;
    if args.output.json {
        render::print_json(started)?;
    } else {
        let until = started.pointer("/recording/until").and_then(Value::as_str).unwrap_or_default();
        print_result_line(paint(
            WARNING_STYLE,
            format!("recording until {}", units::local_time_text(until)),
        ))?;
        print_result_line("Run `sinew policy record --finish` to end it and to see the proposed policy.")?;
    }
    Ok(ExitKind::Done)
}

/// Returns the root of the workspace to record.
fn recorded_workspace(
    command_context: &CommandContext,
    given: Option<&Path>,
) -> Result<PathBuf, CommandError> {
    let folder = command_context.folder().join(given.unwrap_or(Path::new("")));
    let folder = file_access::canonical_directory(&folder).map_err(|error| {
        CommandError::usage(format!("`{}` cannot be recorded: {error}", folder.display()))
    })?;
    let roots = command_context.settings()?.workspaces;
    let roots = roots.iter().filter_map(|known| file_access::canonical_directory(&known.path).ok());
    let around = roots.filter(|root| folder.starts_with(root) && (given.is_none() || *root == folder));
    around.max_by_key(|root| root.components().count()).ok_or_else(|| {
        let problem = CommandError::usage(format!("`{}` is not a workspace", folder.display()));
        problem
            .with_hint("list the workspaces with `sinew workspace list`, and name one with `--workspace DIR`")
    })
}

fn stop(command_context: &CommandContext, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let ended = command_context.request_running_daemon("control/recording.stop", json!({}))?;
    if output.json {
        render::print_json(ended)?;
    } else {
        print_result_line(match ended.pointer("/recording/calls").and_then(Value::as_u64) {
            Some(calls) => format!("the recording has ended; calls that it permitted: {calls}"),
            None => "no recording runs".to_owned(),
        })?;
    }
    Ok(ExitKind::Done)
}

fn finish(command_context: &CommandContext, args: &RecordArgs) -> Result<ExitKind, CommandError> {
    if command_context.is_daemon_ready() {
        command_context.request_control("control/recording.stop", json!({}))?;
    }
    let given =
        args.workspace.as_deref().map(|_| recorded_workspace(command_context, args.workspace.as_deref()));
    let recording = LastRecording::find(command_context, given.transpose()?.as_deref())?;
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
        since: recording.since,
    };
    let (uses, refused) = recording.calls(command_context, &snapshot)?;
    if uses.is_empty() {
        print_message("no call that completed needed the recording, so there is nothing to propose");
        return Ok(ExitKind::Done);
    }
    let Some(learned) = learn_policy(&context, &uses, &refused) else {
        let problem = CommandError::configuration(
            "no policy can be proposed: tools.yaml is in a form that this command cannot edit, or an entry for the recorded calls would permit a refused one",
        );
        return Err(
            problem.with_hint("see the calls with `sinew ledger query`, and add what they need by hand")
        );
    };
    learned.policy.check_tools(context.definitions.iter().copied()).map_err(CommandError::configuration)?;
    let written = write_proposal(command_context, args, &snapshot, &learned)?;
    show_proposal(command_context, args, &snapshot, (&uses, &learned), written.as_deref())?;
    Ok(if learned.still_refused.is_empty() { ExitKind::Done } else { ExitKind::Failed })
}

fn write_proposal(
    command_context: &CommandContext,
    args: &RecordArgs,
    snapshot: &ConfigSnapshot,
    learned: &LearnedPolicy,
) -> Result<Option<PathBuf>, CommandError> {
    if args.apply {
        let path = policy_file(command_context);
        init::replace_unchanged(&path, snapshot.policy.user_text(PolicyFile::Tools), &learned.text)?;
        return Ok(Some(path));
    }
    let Some(file) = &args.write else { return Ok(None) };
    let path = command_context.folder().join(file);
    init::replace_unchanged(&path, None, &learned.text)?;
    Ok(Some(path))
}

fn show_proposal(
    command_context: &CommandContext,
    args: &RecordArgs,
    snapshot: &ConfigSnapshot,
    (uses, learned): (&[RecordedUse<'_>], &LearnedPolicy),
    written: Option<&Path>,
) -> Result<(), CommandError> {
    let (calls, refused) = (uses.len(), learned.still_refused.len());
    if args.output.json {
        let entry = |one: &policy_tools::LearnedEntry| json!({"tool": one.tool, "key": one.key, "value": one.value, "calls": one.calls});
        return render::print_json(json!({"calls": calls,
            "entries": learned.entries.iter().map(entry).collect::<Vec<_>>(), "text": learned.text,
            "still_refused": learned.still_refused, "forbidden_samples": learned.forbidden_samples,
            "written": written}));
    }
    let name = policy_file(command_context).display().to_string();
    let before = snapshot.policy.user_text(PolicyFile::Tools).unwrap_or_default();
    print_result_line(painted(&escape_invisible(&unified(&name, before, &learned.text))))?;
    print_result_line(paint(
        SUCCESS_STYLE,
        format!(
            "proven by replay: {} of {calls} recorded calls are permitted, {} samples of forbidden paths stay refused",
            calls - refused,
            learned.forbidden_samples
        ),
    ))?;
    for call in &learned.still_refused {
        print_warning(format!("call {call} is still refused, for example by a project policy"));
    }
    match (written, args.apply) {
        (Some(path), is_applied) => {
            print_result_line(format!("wrote {}", escape_invisible_line(&path.to_string_lossy())))?;
            if is_applied { reload::show_edit(command_context).map(drop) } else { Ok(()) }
        }
        (None, _) => print_result_line(
            "Write it with `--write FILE` to review it as a file, or with `--apply` to your tools.yaml.",
        ),
    }
}

fn policy_file(command_context: &CommandContext) -> PathBuf {
    command_context.home().config_dir().join("governance").join(PolicyFile::Tools.name())
}

/// Last recording in the ledger.
struct LastRecording {
    workspace: String,
    since: Timestamp,
    /// Its end, after which a refusal says nothing about it.
    until: Timestamp,
}

impl LastRecording {
    fn find(
        command_context: &CommandContext,
        workspace: Option<&Path>,
    ) -> Result<LastRecording, CommandError> {
        let folder = compose::ledger_dir(command_context);
        let notes = RecordFilter { kind: Some("note".to_owned()), ..RecordFilter::default() };
        let notes = LedgerReader::new(&folder).query(&notes).map_err(read_error(&folder))?;
        // Newest first: the end of a recording precedes its start.
        let mut end = None;
        for record in &notes {
            let LedgerEntry::Note(note) = &record.entry else { continue };
            let text = |key: &str| note.data.get(key).and_then(Value::as_str).unwrap_or_default();
            let is_meant = workspace.is_none_or(|folder| folder == Path::new(text("workspace")));
            match text("event") {
                _ if note.about != RECORDING_NOTE || !is_meant => {}
                "end" => end = Some(record.time),
                _ => {
                    // A daemon that was killed leaves no end, and nothing is recorded after the deadline.
                    let until = end.or_else(|| text("until").parse().ok()).unwrap_or(record.time);
                    return Ok(LastRecording {
                        workspace: text("workspace").to_owned(),
                        since: record.time,
                        until,
                    });
                }
            }
        }
        let problem = CommandError::usage("the ledger has no recording");
        Err(problem.with_hint("start one with `sinew policy record --for 1h`"))
    }

    /// Returns the calls that the recording permitted and that completed, and those that were refused in its workspace
    /// meanwhile. A call that failed shows no need: the host that it named may not exist, or the gateway refused it.
    fn calls<'s>(
        &self,
        command_context: &CommandContext,
        snapshot: &'s ConfigSnapshot,
    ) -> Result<(Vec<RecordedUse<'s>>, Vec<RecordedUse<'s>>), CommandError> {
        let folder = compose::ledger_dir(command_context);
        let reader = LedgerReader::new(&folder);
        let query = |kind: &str| {
            let since = Some(self.since);
            let filter = RecordFilter { kind: Some(kind.to_owned()), since, ..RecordFilter::default() };
            reader.query(&filter).map_err(read_error(&folder))
        };
        let is_recorded = |facts: &Value| facts.get("recording") == Some(&Value::Bool(true));
        let outcomes = query("outcome")?;
        let outcomes = outcomes.iter().filter_map(|record| record.entry.outcome());
        let done = outcomes.filter(|(_, outcome)| outcome.status == OutcomeStatus::Done);
        let done: HashSet<String> = done.map(|(call, _)| call.call_id.to_string()).collect();
        let uses = query("decision")?.into_iter().filter_map(|record| {
            let decision = record.entry.decision()?;
            if !done.contains(&decision.call.call_id.to_string()) {
                return None;
            }
            let facts = Some(&decision.facts).filter(|facts| is_recorded(facts))?;
            recorded_use(snapshot, decision.call.call_id.to_string(), &decision.call.tool, facts)
        });
        let root = Path::new(&self.workspace);
        let meanwhile = query("refusal")?.into_iter().filter(|record| record.time <= self.until);
        let refused = meanwhile.filter_map(|record| {
            let LedgerEntry::Refusal(refusal) = &record.entry else { return None };
            let call_id = refusal.call.call_id.to_string();
            let one = recorded_use(snapshot, call_id, &refusal.call.tool, &refusal.facts)?;
            let is_here = one.facts.paths().any(|(_, path)| path.starts_with(root));
            (is_here || one.facts.commands().next().is_some()).then_some(one)
        });
        Ok((uses.collect(), refused.collect()))
    }
}

fn recorded_use<'s>(
    snapshot: &'s ConfigSnapshot,
    call_id: String,
    tool: &str,
    facts: &Value,
) -> Option<RecordedUse<'s>> {
    let definition = snapshot.definition_judged_as(tool, None, &snapshot.policy)?;
    Some(RecordedUse { call_id, definition, facts: RecordedCall::parse(facts)? })
}
