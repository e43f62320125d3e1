//! Replay: judges a recorded call again under another policy, from the facts in the ledger.

use std::path::{Path, PathBuf};

use file_access::PathRequest;
use serde_json::Value;
use tool::definition::PathAccess;
use tool::git::GitEntry;
use tool::{Mode, ToolDefinition};

use crate::command_rules::RequestedCommand;
use crate::decision_facts::{UNOPENED_KIND, UNUSABLE_KEY};
use crate::denial_reason::DenialReason;
use crate::dry_run::{DryRunResult, dry_run_result};
use crate::effective_policy::EffectivePolicy;
use crate::external_targets::ExternalTargets;
use crate::host_rules::NetworkTarget;
use crate::judge::{DecisionInput, decide};
use crate::normalized_path::NormalizedPath;
use crate::path_rules;
use crate::pattern::PathPattern;
use crate::policy::Policy;
use crate::reached_path::{ReachedObject, ReachedPath};
use crate::rule_trace::{RuleTrace, TraceRecorder};
use crate::situation::{RateCounts, Situation, Workspaces};
use crate::suggested_change::{self, EditAction, PolicyEdit, PolicyFile};

/// Prefix of redacted text in the ledger.
const REDACTED_PREFIX: &str = "[redacted:";

/// Recorded call: the facts that the judge needs, parsed once and judged under any number of policies.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    mode: Mode,
    counts: RateCounts,
    path_requests: Vec<PathRequest>,
    reached_paths: Vec<ReachedPath>,
    external_targets: ExternalTargets,
    content_bytes: Option<u64>,
    /// Folder that the call was made in, if it is recorded.
    cwd: Option<PathBuf>,
}

impl RecordedCall {
    /// Parses the facts of a ledger record. `None` where they are incomplete: a replay never guesses.
    pub fn parse(facts: &Value) -> Option<Self> {
        let mode: Mode = facts.get("mode")?.as_str()?.parse().ok()?;
        let count = |key: &str| facts.get("counts")?.get(key)?.as_u64()?.try_into().ok();
        let counts = RateCounts {
            tool_last_hour: count("tool_last_hour")?,
            all_last_minute: count("all_last_minute")?,
            outbound_last_hour: count("outbound_last_hour")?,
        };
        let paths = facts.get("paths")?.as_array()?.iter().map(parse_path).collect::<Option<Vec<_>>>()?;
        let (path_requests, reached_paths): (Vec<PathRequest>, Vec<ReachedPath>) = paths.into_iter().unzip();
        let cwd = match facts.get("cwd") {
            Some(_) => Some(PathBuf::from(unredacted_text(facts, "cwd")?)),
            // Earlier versions recorded it for relative paths only.
            None => path_requests
                .iter()
                .find(|request| *request.base != *Path::new("/"))
                .map(|request| request.base.to_path_buf()),
        };
        let external_targets =
            ExternalTargets { commands: parse_commands(facts)?, network_targets: parse_targets(facts)? };
        let content_bytes = facts.get("content_bytes").and_then(Value::as_u64);
        Some(RecordedCall {
            mode,
            counts,
            path_requests,
            reached_paths,
            external_targets,
            content_bytes,
            cwd,
        })
    }

    /// Returns the mode in which the call was judged.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the counts of earlier calls that the call was judged with.
    pub fn counts(&self) -> RateCounts {
        self.counts
    }

    /// Returns the canonical paths of the call with their access. A path without a canonical name is left out.
    pub fn paths(&self) -> impl Iterator<Item = (PathAccess, &Path)> {
        let pairs = self.path_requests.iter().zip(&self.reached_paths);
        pairs.filter_map(|(request, reached)| Some((request.access, reached.name.as_ref()?.as_path())))
    }

    /// Returns the words of each command of the call. A line that needs a shell is left out.
    pub fn commands(&self) -> impl Iterator<Item = &[String]> {
        self.external_targets.commands.iter().filter_map(|command| match command {
            RequestedCommand::Words(words) => Some(words.as_slice()),
            RequestedCommand::ShellLine(_) => None,
        })
    }

    /// Returns the names of the hosts that the call names.
    pub fn hosts(&self) -> impl Iterator<Item = String> {
        self.external_targets.network_targets.iter().filter_map(|target| match target {
            NetworkTarget::Host(host) => Some(host.to_string()),
            NetworkTarget::Unusable { .. } => None,
        })
    }
}

impl Policy {
    /// Returns the decision on a recorded call under this policy. `None` where the record is incomplete: a
    /// replay never guesses.
    pub fn replay(
        &self,
        definition: &ToolDefinition,
        facts: &Value,
        workspaces: &Workspaces,
    ) -> Option<DryRunResult> {
        let call = RecordedCall::parse(facts)?;
        Some(self.replay_call(definition, &call, workspaces, RuleTrace::enabled()))
    }

    /// Returns the decision on a recorded call, and records the evaluated rules in `trace` if it is enabled.
    pub fn replay_call(
        &self,
        definition: &ToolDefinition,
        call: &RecordedCall,
        workspaces: &Workspaces,
        mut trace: RuleTrace,
    ) -> DryRunResult {
        let facts = DecisionInput {
            path_requests: &call.path_requests,
            reached_paths: &call.reached_paths,
            external_targets: &call.external_targets,
            content_bytes: call.content_bytes,
        };
        let effective_policy = EffectivePolicy::new(self, definition);
        let workspaces = &workspaces.called_from(call.cwd.as_deref());
        let situation = Situation { mode: call.mode, workspaces, counts: call.counts };
        let mut notes = TraceRecorder::new(&mut trace);
        let judged = admit_recorded(&effective_policy, &situation, &facts, &mut notes)
            .and_then(|()| decide(&effective_policy, &situation, &facts, &mut notes));
        dry_run_result(&effective_policy, judged, notes).with_trace(trace)
    }
}

impl Policy {
    /// Returns the edits of `tools.yaml` after which it requires no approval for a recorded call: one for
    /// each path of the call that is not in `unattended_paths` yet. Empty for a call without paths and for an
    /// incomplete record.
    pub fn unattended_edits(&self, definition: &ToolDefinition, facts: &Value) -> Vec<PolicyEdit> {
        let recorded = facts.get("paths").and_then(Value::as_array).into_iter().flatten();
        let Some(paths) = recorded.map(parse_path).collect::<Option<Vec<_>>>() else { return Vec::new() };
        let tool = definition.name();
        let listed = self.tools.get(tool).map(|rules| &rules.unattended_paths);
        let keys = suggested_change::keys_in_tools(tool.as_str(), "unattended_paths");
        let names = paths.iter().filter_map(|(_, reached)| reached.name.as_ref());
        let missing = names.filter(|name| listed.is_none_or(|list| list.find(name).is_none()));
        missing
            .map(|name| {
                let action =
                    EditAction::Add(suggested_change::quote_yaml(&PathPattern::literal(name.as_path())));
                PolicyEdit { file: PolicyFile::Tools, keys: keys.clone(), action }
            })
            .collect()
    }
}

/// Repeats the checks of the pre-check stage.
fn admit_recorded(
    effective_policy: &EffectivePolicy<'_>,
    situation: &Situation<'_>,
    facts: &DecisionInput<'_>,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    effective_policy.admit(situation, notes)?;
    effective_policy.admit_external_targets(facts.external_targets, notes)?;
    for request in facts.path_requests {
        path_rules::admit_typed(effective_policy, situation.workspaces, request, notes)?;
    }
    match effective_policy.stricter() {
        Some(stricter) => admit_recorded(&stricter, situation, facts, notes),
        None => Ok(()),
    }
}

/// Returns a text of the record. `None` if it was redacted, because it is then not what the judge saw.
fn unredacted_text<'a>(recorded: &'a Value, key: &str) -> Option<&'a str> {
    recorded.get(key)?.as_str().filter(|text| !text.contains(REDACTED_PREFIX))
}

fn parse_path(recorded: &Value) -> Option<(PathRequest, ReachedPath)> {
    let text = |key: &str| unredacted_text(recorded, key);
    let number = |key: &str| recorded.get(key).and_then(Value::as_u64);
    let access = match text("access")? {
        "read" => PathAccess::Read,
        "write" => PathAccess::Write,
        "remove" => PathAccess::Remove,
        _ => return None,
    };
    let (key, typed) = (text("key")?.into(), text("typed")?);
    let base = match text("base") {
        Some(base) => Path::new(base),
        None if Path::new(typed).is_absolute() => Path::new("/"),
        None => return None,
    };
    let request = PathRequest { key, text: typed.into(), access, base: base.into() };
    let found = match text("kind")? {
        UNOPENED_KIND => {
            let reached = ReachedPath::from_request(&request);
            return Some((request, reached));
        }
        "file" => {
            let names = recorded.get("other_names").and_then(Value::as_array);
            let name = |name: &Value| NormalizedPath::canonical(Path::new(name.as_str()?));
            let others = names.and_then(|names| names.iter().map(name).collect());
            ReachedObject::File { size: number("size")?, links: number("links")?, others }
        }
        _ => ReachedObject::Other,
    };
    let folders = recorded.get("missing_folders").and_then(Value::as_array).into_iter().flatten();
    let name = |name: &Value| {
        Some(NormalizedPath::canonical(Path::new(
            name.as_str().filter(|text| !text.contains(REDACTED_PREFIX))?,
        )))
    };
    let missing_folders = folders.map(name).collect::<Option<Vec<_>>>()?;
    // A record with an unknown word is not replayed.
    let git_entry = match recorded.get("git_entry") {
        None => None,
        Some(_) => Some(GitEntry::from_word(text("git_entry")?)?),
    };
    let canonical = Path::new(text("canonical")?);
    Some((request, ReachedPath::from_record(canonical, found, missing_folders, git_entry)))
}

fn parse_commands(facts: &Value) -> Option<Vec<RequestedCommand>> {
    let Some(list) = facts.get("commands") else { return Some(Vec::new()) };
    let text = |word: &Value| word.as_str().filter(|text| !text.contains(REDACTED_PREFIX)).map(str::to_owned);
    let command = |command: &Value| match command {
        Value::Array(words) => {
            words.iter().map(text).collect::<Option<Vec<_>>>().map(RequestedCommand::Words)
        }
        line => text(line).map(RequestedCommand::ShellLine),
    };
    list.as_array()?.iter().map(command).collect()
}

fn parse_targets(facts: &Value) -> Option<Vec<NetworkTarget>> {
    let Some(list) = facts.get("hosts") else { return Some(Vec::new()) };
    let target = |host: &Value| match host {
        Value::Object(facts) if facts.contains_key(UNUSABLE_KEY) => {
            NetworkTarget::unusable(facts.get(UNUSABLE_KEY)?.as_str()?)
        }
        host => host.as_str().filter(|text| !text.contains(REDACTED_PREFIX)).map(NetworkTarget::from_host),
    };
    list.as_array()?.iter().map(target).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::Verdict;
    use crate::judge_tests::{definition, machine, valid_call};

    #[test]
    fn recorded_call_is_replayed_from_its_facts() {
        let check = |tool: &str, arguments: Value, under: &str, expect: &str| {
            let free = "outbound_gateway: {allowed_domains: [\"*\"]}\n";
            let open = "tools: {run: {allowed_commands: [\"*\"]}}\n";
            let first = machine(open).safety(free);
            let Verdict::Permit(permit) = first.verdict(valid_call(tool, arguments)) else {
                panic!("not permitted")
            };
            let recorded: Value = serde_json::from_str(&permit.facts().to_string()).unwrap();
            let again = first.policy().replay(&definition(tool), &recorded, &first.workspaces).unwrap();
            assert_eq!(again.summary(), "allow", "the same policy says the same");
            let under = under.replace("$ROOT", &first.root.display().to_string());
            let other = machine(&under).safety(free);
            let found = other.policy().replay(&definition(tool), &recorded, &first.workspaces).unwrap();
            assert!(found.summary().starts_with(expect), "{}", found.summary());
        };
        let read = || json!({"path": "sub/../a.txt"});
        check("read_file", read(), "tools: {read_file: {forbidden_paths: [\"$ROOT/ws/a.txt\"]}}\n", "deny");
        check("read_file", read(), "tools: {read_file: {forbidden_paths: [\"$ROOT/ws/b.txt\"]}}\n", "allow");
        check("read_file", read(), "tools: {read_file: {max_file_size_mb: 0}}\n", "deny");
        check("read_file", read(), "tools: {read_file: {requires_approval: true}}\n", "ask");
        let write = json!({"path": "new", "content": "xyz"});
        check("write_file", write, "tools: {write_file: {max_file_size_mb: 0}}\n", "deny");
        check("run", json!({"argv": ["git", "push"]}), "tools: {run: {allowed_commands: [ls]}}\n", "deny");
        check(
            "fetch",
            json!({"url": "https://a.org"}),
            "tools: {fetch: {allowed_domains: [b.org]}}\n",
            "deny",
        );
    }

    #[test]
    fn refused_call_is_replayed_from_its_facts() {
        let check = |tools: &str, tool: &str, arguments: Value, under: &str, expect: &str| {
            let free = "outbound_gateway: {allowed_domains: [\"*\"]}\n";
            let first = machine(tools).safety(free);
            let root = first.root.display().to_string();
            std::os::unix::fs::symlink("sub/b.txt", first.root.join("ws/link")).unwrap();
            let arguments = arguments.to_string().replace("$ROOT", &root);
            let call = valid_call(tool, serde_json::from_str(&arguments).unwrap());
            let Verdict::Denial(denial) = first.verdict(call) else { panic!("not denied: {arguments}") };
            let refusal = serde_json::to_string(denial.refusal()).unwrap();
            assert!(!refusal.contains("canonical") && !refusal.contains("b.txt"), "{refusal}");
            let recorded: Value = serde_json::from_str(&denial.facts().to_string()).unwrap();
            let again = first.policy().replay(&definition(tool), &recorded, &first.workspaces).unwrap();
            assert_eq!(again.refusal.unwrap().code, denial.refusal().code, "the same policy says the same");
            let other = machine(&under.replace("$ROOT", &root)).safety(free);
            let found = other.policy().replay(&definition(tool), &recorded, &first.workspaces).unwrap();
            assert!(found.summary().starts_with(expect), "{recorded:#}\n{}", found.summary());
        };
        let link = || json!({"path": "link"});
        let forbids = "tools: {read_file: {forbidden_paths: [\"$ROOT/ws/sub\"]}}\n";
        check(forbids, "read_file", link(), "tools: {}\n", "allow");
        check(
            forbids,
            "read_file",
            link(),
            "tools: {read_file: {forbidden_paths: [\"$ROOT/ws/sub/b.txt\"]}}\n",
            "deny",
        );
        check(forbids, "read_file", json!({"path": "sub/c"}), "tools: {}\n", "allow");
        let modes = "tools: {read_file: {forbidden_in_modes: [NORMAL]}}\n";
        check(modes, "read_file", json!({"path": "a.txt"}), "tools: {}\n", "allow");
        check(modes, "read_file", json!({"path": "$ROOT/other/o.txt"}), "tools: {}\n", "deny");
        check(modes, "read_file", json!({"path": "$ROOT/other/../ws/a.txt"}), "tools: {}\n", "deny");
        let any = "tools: {run: {allowed_commands: [\"*\"]}}\n";
        check("tools: {}\n", "run", json!({"argv": ["git", "a b"]}), any, "allow");
        check("tools: {}\n", "run", json!({"line": "git 'a b'"}), any, "deny");
        let few = "tools: {fetch: {allowed_domains: [b.org]}}\n";
        check(few, "fetch", json!({"url": "https://a.org"}), "tools: {}\n", "allow");
        check(few, "fetch", json!({"url": "https://u:p@a.org"}), "tools: {}\n", "deny");
    }

    #[test]
    fn denial_facts_omit_passwords_and_are_bounded() {
        let facts = |tool: &str, arguments: Value| match machine("tools: {}\n")
            .verdict(valid_call(tool, arguments))
        {
            Verdict::Denial(denial) => denial.facts().to_string(),
            verdict => panic!("{verdict:?}"),
        };
        let kept = facts("fetch", json!({"url": "https://user:opensesame@example.org/"}));
        assert!(kept.contains("userinfo") && !kept.contains("opensesame"), "{kept}");
        let kept = facts("run", json!({"argv": ["x".repeat(100_000)]}));
        assert!(kept.len() < 1000 && kept.contains("\"cut\":true"), "{kept}");
        let kept: Value = serde_json::from_str(&kept).unwrap();
        let machine = machine("tools: {}\n");
        assert!(machine.policy().replay(&definition("run"), &kept, &machine.workspaces).is_none());
        let mut kept: Value = serde_json::from_str(&facts("run", json!({"argv": ["ls"]}))).unwrap();
        assert!(machine.policy().replay(&definition("run"), &kept, &machine.workspaces).is_some());
        kept["commands"][0][0] = json!("[redacted:key]");
        assert!(machine.policy().replay(&definition("run"), &kept, &machine.workspaces).is_none());
    }

    #[test]
    fn incomplete_records_are_not_replayed() {
        let machine = machine("tools: {}\n");
        let policy = machine.policy();
        let whole = json!({"mode": "NORMAL", "counts": {"tool_last_hour": 0, "all_last_minute": 0, "outbound_last_hour": 0},
                "paths": []});
        assert!(policy.replay(&definition("gated"), &whole, &machine.workspaces).is_some());
        for (key, wrong) in
            [("mode", json!("SAFE")), ("counts", json!({})), ("paths", json!([{"key": "path"}]))]
        {
            let mut facts = whole.clone();
            facts[key] = wrong;
            assert!(policy.replay(&definition("gated"), &facts, &machine.workspaces).is_none(), "{key}");
        }
    }
}
