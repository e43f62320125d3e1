//! A call that was made, judged again by another policy, from what its record kept.

use std::path::{Path, PathBuf};

use resources::PathRequest;
use serde_json::Value;
use tool::{Mode, PathAccess, ToolDefinition};

use crate::command_rules::Command;
use crate::errands::Errands;
use crate::host_rules::Target;
use crate::judge::{Facts, decide};
use crate::name::Name;
use crate::policy::Policy;
use crate::reached::{Found, Reached};
use crate::rehearse::{Rehearsal, rehearsal};
use crate::situation::{Counts, Situation, Workspaces};
use crate::standing::Standing;
use crate::trail::{Notes, Trail};

impl Policy {
    /// What would become of a recorded call under this policy. `None` where the record does not say enough: such a
    /// call is not guessed at.
    pub fn replay(
        &self,
        definition: &ToolDefinition,
        facts: &Value,
        workspaces: &Workspaces,
    ) -> Option<Rehearsal> {
        let mode: Mode = facts.get("mode")?.as_str()?.parse().ok()?;
        let count = |key: &str| facts.get("counts")?.get(key)?.as_u64()?.try_into().ok();
        let counts =
            Counts { tool_last_hour: count("tool_last_hour")?, all_last_minute: count("all_last_minute")? };
        let paths = facts.get("paths")?.as_array()?.iter().map(path).collect::<Option<Vec<_>>>()?;
        let (requests, reached): (Vec<_>, Vec<_>) = paths.into_iter().unzip();
        let errands = Errands { commands: commands(facts)?, targets: targets(facts)? };
        let content_bytes = facts.get("content_bytes").and_then(Value::as_u64);
        let facts = Facts { requests: &requests, reached: &reached, errands: &errands, content_bytes };
        let standing = Standing::of(self, definition);
        let situation = Situation { mode, workspaces, counts };
        let mut trail = Trail::on();
        let mut notes = Notes::on(&mut trail);
        let judged = decide(&standing, &situation, &facts, &mut notes);
        Some(rehearsal(&standing, judged, notes).with(trail))
    }
}

fn path(recorded: &Value) -> Option<(PathRequest, Reached)> {
    let text = |key: &str| recorded.get(key).and_then(Value::as_str);
    let number = |key: &str| recorded.get(key).and_then(Value::as_u64);
    let access = match text("access")? {
        "read" => PathAccess::Read,
        "write" => PathAccess::Write,
        _ => return None,
    };
    let found = match text("kind")? {
        "file" => {
            let names = recorded.get("other_names").and_then(Value::as_array);
            let name = |name: &Value| Name::canonical(Path::new(name.as_str()?));
            let others = names.and_then(|names| names.iter().map(name).collect());
            Found::File { size: number("size")?, links: number("links")?, others }
        }
        _ => Found::Other,
    };
    let (key, typed) = (text("key")?.to_owned(), text("typed")?.to_owned());
    let request = PathRequest { key, text: typed, access, base: PathBuf::from("/") };
    Some((request, Reached::recorded(Path::new(text("canonical")?), found)))
}

fn commands(facts: &Value) -> Option<Vec<Command>> {
    let Some(list) = facts.get("commands") else { return Some(Vec::new()) };
    let words = |command: &Value| {
        let words = command.as_array()?.iter().map(|word| word.as_str().map(str::to_owned));
        words.collect::<Option<Vec<_>>>().map(Command::Words)
    };
    list.as_array()?.iter().map(words).collect()
}

fn targets(facts: &Value) -> Option<Vec<Target>> {
    let Some(list) = facts.get("hosts") else { return Some(Vec::new()) };
    list.as_array()?.iter().map(|host| host.as_str().map(Target::of_host)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::Verdict;
    use crate::judge_tests::{definition, machine, valid};

    #[test]
    fn a_recorded_call_is_judged_as_it_was() {
        let check = |tool: &str, arguments: Value, under: &str, expect: &str| {
            let free = "outbound_gateway: {allowed_domains: [\"*\"]}\n";
            let open = "tools: {run: {allowed_commands: [\"*\"]}}\n";
            let first = machine(open).safety(free);
            let Verdict::Permit(permit) = first.verdict(valid(tool, arguments)) else {
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
    fn what_a_record_does_not_say_is_not_guessed() {
        let machine = machine("tools: {}\n");
        let policy = machine.policy();
        let whole =
            json!({"mode": "NORMAL", "counts": {"tool_last_hour": 0, "all_last_minute": 0}, "paths": []});
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
