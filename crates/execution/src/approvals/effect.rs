//! What a call would do, looked at through its opened handles: what a human is shown, and the digest that a yes is
//! bound to. Both are made of the same facts.

mod bounds;
mod words;

use std::path::Path;

use governance::Permit;
use jiff::Timestamp;
use ledger::Ledger;
use registry::{AtWork, Change, Preview, Tool};
use resources::{ObjectKind, OpenedPath};
use serde_json::{Value, json};
use telemetry::redact;
use tool::{Arguments, Failure, FailureKind, Mode, PathAccess, Refusal, RefusalCode, RuleRef, canonical};

use super::card::{Card, Fact, ShownChange};
use super::rule::Wanted;
use crate::call::Call;
use crate::content;
use bounds::bounds;
use words::{others, switches};

/// A larger file takes longer to read than a person waits, and its content is what a yes is bound to.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// What a call would do.
#[derive(Debug)]
pub(crate) struct Effect {
    preview: Preview,
    /// Stands for everything a yes is bound to.
    digest: String,
    /// Stands for the arguments.
    arguments: String,
    /// Stands for those that say neither where it reaches nor what it does there, if a standing rule is bound to them.
    others: Option<String>,
    bounds: String,
    paths: Vec<(String, String)>,
    commands: Vec<Vec<String>>,
    hosts: Vec<String>,
}

impl Effect {
    /// Looks at the disk, and may block on it.
    pub(crate) fn of(tool: &Tool, permit: &Permit, mode: Mode, ledger: &Ledger) -> Result<Effect, Failure> {
        let preview = tool.executor().preview(permit)?;
        let definition = permit.call().definition();
        let paths = permit.paths().iter().map(bound_path).collect::<Result<Vec<Value>, Failure>>()?;
        let names = permit.paths().iter().map(|path| Ok((path.key().to_owned(), name(path)?)));
        let names = names.collect::<Result<Vec<(String, String)>, Failure>>()?;
        let digest = |content: &Option<Vec<u8>>| content.as_deref().map(canonical::sha256_hex);
        let changes = preview.changes.iter().map(|change: &Change| {
            json!([change.path.to_string_lossy(), digest(&change.before), digest(&change.after)])
        });
        let bounds = bounds(permit, preview.at_work);
        let bound = json!({
            "definition": definition.hash(),
            "arguments": permit.call().arguments(),
            "paths": paths,
            "changes": changes.collect::<Vec<Value>>(),
            "facts": preview.facts,
            "rewritten": preview.rewritten,
            "bounds": bounds,
            "mode": mode,
        });
        let seen = permit.facts();
        let texts = |key: &str| seen.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let words = |command: &Value| match command {
            Value::Array(words) => words.iter().map(word).collect(),
            line => vec![word(line)],
        };
        let commands = texts("commands").iter().map(words).collect();
        let hosts = texts("hosts").iter().map(word).collect();
        let digest = ledger.keyed_digest(&canonical::bytes(&bound));
        let arguments = json!(permit.call().arguments());
        let arguments = ledger.keyed_digest(&canonical::bytes(&arguments));
        let others = others(permit, &preview).map(|others| ledger.keyed_digest(&canonical::bytes(&others)));
        Ok(Effect { preview, digest, arguments, others, bounds, paths: names, commands, hosts })
    }

    /// Stands for all of it.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// What the tool makes of the arguments of the call, where it rewrites them.
    pub(crate) fn into_rewritten(self) -> Option<Arguments> {
        self.preview.rewritten
    }

    /// The call as a standing rule sees it.
    pub(crate) fn wanted<'a>(
        &'a self,
        call: &'a Call,
        permit: &'a Permit,
        life: &'a str,
        rules: &'a [String],
    ) -> Wanted<'a> {
        let definition = permit.call().definition();
        Wanted {
            tool: definition.name().as_str(),
            definition: definition.hash(),
            caller: &call.caller,
            life,
            mode: call.mode,
            rules,
            bounds: &self.bounds,
            facts: &self.preview.facts,
            paths: self.paths.clone(),
            commands: self.commands.clone(),
            hosts: self.hosts.clone(),
            switches: switches(permit.call().arguments()),
            others: self.others.clone(),
            arguments: &self.arguments,
        }
    }

    /// What a human is shown, or why it cannot be shown in full.
    pub(crate) fn card(
        &self,
        call: &Call,
        permit: &Permit,
        asked_by: &[RuleRef],
        question: Asking<'_>,
    ) -> Result<Card, Box<Refusal>> {
        let definition = permit.call().definition();
        let changes = self.preview.changes.iter().map(ShownChange::of).collect::<Option<Vec<_>>>();
        let unshowable = |why: &str| {
            let refusal = unshowable(call, why);
            Box::new(Refusal { rule: asked_by.first().cloned(), ..*refusal })
        };
        let Some(changes) = changes else { return Err(unshowable("it would write what is no text")) };
        let client = quoted(call.caller.client.as_deref());
        let pid = call.caller.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        let card = Card {
            id: question.id.to_owned(),
            tool: definition.name().to_string(),
            summary: self.summary(definition.name().as_str()),
            effect: self.effect(permit),
            changes,
            arguments: self.arguments(permit),
            asked_by: asked_by.to_vec(),
            caller: format!("{client} (uid {}{pid}){}", call.caller.uid, call.caller.door.side().told()),
            session: call.caller.session.clone(),
            call_id: call.id,
            trace_id: call.trace.trace_id.to_string(),
            risk: definition.risk_level(),
            mode: call.mode,
            masked: 0,
            edited: question.edited,
            asked_at: question.asked_at,
            expires_at: question.expires_at,
        };
        match card.misfit() {
            Some(why) => Err(unshowable(&why)),
            None => {
                card.masked().ok_or_else(|| unshowable("what looks like a secret in it is no plain token"))
            }
        }
    }

    fn summary(&self, tool: &str) -> String {
        let commands = self.commands.iter().map(|words| words.join(" "));
        let paths = self.paths.iter().map(|(_, path)| path.clone());
        let subjects: Vec<String> = commands.chain(self.hosts.iter().cloned()).chain(paths).collect();
        format!("{tool} {}", subjects.join(" ")).trim_end().to_owned()
    }

    fn effect(&self, permit: &Permit) -> Vec<Fact> {
        let mut facts = Vec::new();
        let mut put = |label: &str, text: String| facts.push(Fact { label: label.to_owned(), text });
        for (path, (key, name)) in permit.paths().iter().zip(&self.paths) {
            let access = match path.access() {
                PathAccess::Read => "reads",
                PathAccess::Write => "writes",
                PathAccess::Remove => "removes",
            };
            put(access, format!("{name} ({key}, {})", kind(path)));
        }
        for words in &self.commands {
            put("command", json!(words).to_string());
        }
        for host in &self.hosts {
            put("host", host.clone());
        }
        for (label, text) in &self.preview.facts {
            put(label, text.clone());
        }
        if permit.call().definition().requires_sandbox() && self.preview.at_work == AtWork::AsDefined {
            let folders: Vec<String> =
                permit.folders().iter().map(|folder| folder.root().display().to_string()).collect();
            put(
                "caution",
                format!(
                    "runs programs: what they find in {} when they start is not bound",
                    folders.join(", ")
                ),
            );
        }
        put("bounds", self.bounds.clone());
        facts
    }

    /// What the changes show in full is not shown twice.
    fn arguments(&self, permit: &Permit) -> Vec<Fact> {
        // All that is written, or all that is added to what was there: the end of it alone may be another argument.
        let is_shown = |text: &str| {
            let shows = |change: &Change| {
                let before = change.before.as_deref().unwrap_or_default();
                let after = change.after.as_deref().unwrap_or_default();
                after == text.as_bytes() || after.strip_prefix(before) == Some(text.as_bytes())
            };
            !text.is_empty() && self.preview.changes.iter().any(shows)
        };
        // Where it reaches stands in the effect and is never masked; a name that looks like a secret would be masked here.
        let is_masked_place = |key: &str, text: &str| {
            let is_place = |(named, name): &(String, String)| named == key && Path::new(name).ends_with(text);
            self.paths.iter().any(is_place) && redact::shared().redact_text(text) != text
        };
        let arguments = permit.call().arguments().iter().filter_map(|(key, value)| match value {
            Value::String(text) if is_shown(text) || is_masked_place(key, text) => None,
            Value::Array(words) if self.commands.iter().any(|shown| json!(shown) == json!(words)) => None,
            Value::String(text) => Some(Fact { label: key.clone(), text: text.clone() }),
            other => Some(Fact { label: key.clone(), text: other.to_string() }),
        });
        arguments.collect()
    }
}

/// What a client calls itself, as its own word: between quotes, so that it cannot pass for ours.
pub(crate) fn quoted(client: Option<&str>) -> String {
    client.map_or_else(|| "a client without a name".to_owned(), |name| json!(name).to_string())
}

/// The frame of a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) id: &'a str,
    pub(crate) asked_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) edited: bool,
}

/// More than can be shown is not a question but a no.
fn unshowable(call: &Call, why: &str) -> Box<Refusal> {
    let reason =
        format!("Permission denied: Approval is required, and this is more than a human can be shown: {why}");
    let refusal = Refusal::new(&call.tool_name, RefusalCode::TooLarge, reason).detail("too_much_to_show");
    Box::new(refusal.hint("do it in smaller steps, each of which can be looked at"))
}

/// A call whose effect cannot be foretold. What its tool says of it holds no more than it might say after a run.
pub(crate) fn unforeseen(call: &Call, failure: Failure) -> Box<Refusal> {
    let failure = content::fit_to_tell(failure, 0);
    let reason = format!(
        "Permission denied: Approval is required, and what the call would do cannot be shown: {}",
        failure.message
    );
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, reason).detail("not_foreseeable");
    Box::new(match &failure.hint {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    })
}

fn bound_path(path: &OpenedPath) -> Result<Value, Failure> {
    let facts = path.metadata();
    let content = match path.kind() {
        ObjectKind::File if facts.is_some_and(|facts| facts.size > LARGEST_FILE) => {
            let message = format!("`{}` is too large for a yes to be bound to its content", name(path)?);
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        ObjectKind::File => Some(path.sha256()?),
        _ => None,
    };
    Ok(json!({
        "key": path.key(),
        "canonical": name(path)?,
        "kind": kind(path),
        "object": facts.map(|facts| (facts.identity.device, facts.identity.inode)),
        "sha256": content,
    }))
}

/// A name that is no text cannot be shown as what it is.
fn name(path: &OpenedPath) -> Result<String, Failure> {
    let unreadable = || Failure::new(FailureKind::Unreadable, "a path that it names is not text");
    path.canonical().to_str().map(str::to_owned).ok_or_else(unreadable)
}

fn kind(path: &OpenedPath) -> &'static str {
    match path.kind() {
        ObjectKind::File => "a file",
        ObjectKind::Directory => "a folder",
        ObjectKind::Link => "a symbolic link",
        ObjectKind::Special(kind) => kind,
        ObjectKind::Missing => "not there",
        ObjectKind::Unreachable => "unreachable",
    }
}
