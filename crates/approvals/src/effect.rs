//! Effect of a call, computed through its opened handles: the facts that the operator is shown and the digest
//! that an approval is bound to. Both are derived from the same facts.

mod bound_arguments;
mod bounds;

use std::path::Path;

use file_access::{ObjectKind, OpenedPath};
use governance::Permit;
use jiff::Timestamp;
use ledger::{CallHeader, Ledger};
use registry::{CallPreview, ExecutionSite, FileChange, Tool};
use serde_json::{Value, json};
use telemetry::redact;
use tool::definition::PathAccess;
use tool::{Arguments, Failure, FailureKind, Mode, Refusal, RefusalCode, RuleRef, canonical};

use crate::request::{ApprovalFact, ApprovalRequest, FileDiff};
use crate::rule::CallProfile;
use bound_arguments::{boolean_arguments, other_arguments};
use bounds::describe_bounds;

/// An approval is bound to the content of files, and a larger file takes longer to read than a person waits.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Effect of a call.
#[derive(Debug)]
pub struct CallEffect {
    preview: CallPreview,
    /// Digest of everything that an approval is bound to.
    digest: String,
    /// Digest of the arguments.
    arguments_digest: String,
    /// Digest of the arguments that neither name what the call reaches nor say what it does there. `None` if
    /// a standing rule is not bound to them.
    other_arguments_digest: Option<String>,
    bounds: String,
    paths: Vec<(String, String)>,
    commands: Vec<Vec<String>>,
    hosts: Vec<String>,
}

impl CallEffect {
    /// Computes the effect. Reads from disk and may block.
    pub fn compute(tool: &Tool, permit: &Permit, mode: Mode, ledger: &Ledger) -> Result<CallEffect, Failure> {
        let preview = tool.executor().preview(permit)?;
        let definition = permit.call().definition();
        let paths = permit.paths().iter().map(path_binding).collect::<Result<Vec<Value>, Failure>>()?;
        let names = permit.paths().iter().map(|path| Ok((path.key().to_owned(), canonical_name(path)?)));
        let names = names.collect::<Result<Vec<(String, String)>, Failure>>()?;
        let digest = |content: &Option<Vec<u8>>| content.as_deref().map(canonical::sha256_hex);
        let changes = preview.changes.iter().map(|change: &FileChange| {
            json!([change.path.to_string_lossy(), digest(&change.before), digest(&change.after)])
        });
        let bounds = describe_bounds(permit, preview.execution_site);
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
        let facts = permit.facts();
        let texts = |key: &str| facts.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let argv_of = |command: &Value| match command {
            Value::Array(items) => items.iter().map(word).collect(),
            line => vec![word(line)],
        };
        let commands = texts("commands").iter().map(argv_of).collect();
        let hosts = texts("hosts").iter().map(word).collect();
        let digest = ledger.keyed_digest(&canonical::bytes(&bound));
        let arguments = json!(permit.call().arguments());
        let arguments = ledger.keyed_digest(&canonical::bytes(&arguments));
        let others =
            other_arguments(permit, &preview).map(|others| ledger.keyed_digest(&canonical::bytes(&others)));
        Ok(CallEffect {
            preview,
            digest,
            arguments_digest: arguments,
            other_arguments_digest: others,
            bounds,
            paths: names,
            commands,
            hosts,
        })
    }

    /// Digest of everything that an approval is bound to.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Arguments as the tool rewrites them, if it does.
    pub fn into_rewritten(self) -> Option<Arguments> {
        self.preview.rewritten
    }

    /// Properties of the call that a standing rule is matched against.
    pub(crate) fn call_profile<'a>(
        &'a self,
        call: &'a CallHeader,
        permit: &'a Permit,
        instance_id: &'a str,
        rules: &'a [String],
    ) -> CallProfile<'a> {
        let definition = permit.call().definition();
        CallProfile {
            tool: definition.name().as_str(),
            definition: definition.hash(),
            caller: &call.caller,
            instance_id,
            mode: call.mode,
            rules,
            bounds: &self.bounds,
            facts: &self.preview.facts,
            paths: self.paths.clone(),
            commands: self.commands.clone(),
            hosts: self.hosts.clone(),
            switches: boolean_arguments(permit.call().arguments()),
            other_arguments_digest: self.other_arguments_digest.clone(),
            arguments_digest: &self.arguments_digest,
        }
    }

    /// Builds the approval request, or returns a refusal if the call cannot be shown in full.
    pub(crate) fn to_request(
        &self,
        call: &CallHeader,
        permit: &Permit,
        approval_rules: &[RuleRef],
        header: RequestHeader<'_>,
    ) -> Result<ApprovalRequest, Box<Refusal>> {
        let definition = permit.call().definition();
        let changes = self.preview.changes.iter().map(FileDiff::from_change).collect::<Option<Vec<_>>>();
        let unshowable = |why: &str| {
            let refusal = oversize_refusal(call, why);
            Box::new(Refusal { rule: approval_rules.first().cloned(), ..*refusal })
        };
        let Some(changes) = changes else { return Err(unshowable("it would write data that is not text")) };
        let client = quote_client_name(call.caller.client.as_deref());
        let pid = call.caller.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        let approval_request = ApprovalRequest {
            id: header.id.to_owned(),
            tool: definition.name().to_string(),
            summary: self.summary(definition.name().as_str()),
            effect: self.facts(permit),
            changes,
            arguments: self.argument_facts(permit),
            asked_by: approval_rules.to_vec(),
            caller: format!(
                "{client} (uid {}{pid}){}",
                call.caller.uid,
                call.caller.endpoint.party().description_suffix()
            ),
            session: call.caller.session.clone(),
            call_id: call.call_id,
            trace_id: call.trace.trace_id.to_string(),
            risk: definition.risk_level(),
            mode: call.mode,
            masked: 0,
            edited: header.edited,
            requested_at: header.requested_at,
            expires_at: header.expires_at,
        };
        match approval_request.oversize_reason() {
            Some(why) => Err(unshowable(&why)),
            None => approval_request
                .with_secrets_masked()
                .ok_or_else(|| unshowable("it has a secret that is not a plain token")),
        }
    }

    fn summary(&self, tool: &str) -> String {
        let commands = self.commands.iter().map(|argv| argv.join(" "));
        let paths = self.paths.iter().map(|(_, path)| path.clone());
        let subjects: Vec<String> = commands.chain(self.hosts.iter().cloned()).chain(paths).collect();
        format!("{tool} {}", subjects.join(" ")).trim_end().to_owned()
    }

    fn facts(&self, permit: &Permit) -> Vec<ApprovalFact> {
        let mut facts = Vec::new();
        let mut put = |label: &str, text: String| facts.push(ApprovalFact { label: label.to_owned(), text });
        for (path, (key, name)) in permit.paths().iter().zip(&self.paths) {
            let access = match path.access() {
                PathAccess::Read => "reads",
                PathAccess::Write => "writes",
                PathAccess::Remove => "removes",
            };
            put(access, format!("{name} ({key}, {})", kind_name(path)));
        }
        for argv in &self.commands {
            put("command", json!(argv).to_string());
        }
        for host in &self.hosts {
            put("host", host.clone());
        }
        for (label, text) in &self.preview.facts {
            put(label, text.clone());
        }
        if permit.call().definition().requires_sandbox()
            && self.preview.execution_site == ExecutionSite::AsDefined
        {
            let folders: Vec<String> =
                permit.sandbox_folders().iter().map(|folder| folder.root().display().to_string()).collect();
            put(
                "caution",
                format!(
                    "runs programs: the approval does not cover what they read from {}",
                    folders.join(", ")
                ),
            );
        }
        put("bounds", self.bounds.clone());
        facts
    }

    /// Arguments without those that the diffs already show in full.
    fn argument_facts(&self, permit: &Permit) -> Vec<ApprovalFact> {
        // The diff shows an argument only if it is the whole new content or all of what is appended. The tail
        // of the appended text may come from another argument.
        let is_shown = |text: &str| {
            let shows = |change: &FileChange| {
                let before = change.before.as_deref().unwrap_or_default();
                let after = change.after.as_deref().unwrap_or_default();
                after == text.as_bytes() || after.strip_prefix(before) == Some(text.as_bytes())
            };
            !text.is_empty() && self.preview.changes.iter().any(shows)
        };
        // The effect shows the paths and never masks them. Here, a path that looks like a secret would be
        // masked.
        let is_masked_path = |key: &str, text: &str| {
            let is_opened_path =
                |(named, name): &(String, String)| named == key && Path::new(name).ends_with(text);
            self.paths.iter().any(is_opened_path) && redact::shared().redact_text(text) != text
        };
        let arguments = permit.call().arguments().iter().filter_map(|(key, value)| match value {
            Value::String(text) if is_shown(text) || is_masked_path(key, text) => None,
            Value::Array(items) if self.commands.iter().any(|shown| json!(shown) == json!(items)) => None,
            Value::String(text) => Some(ApprovalFact { label: key.clone(), text: text.clone() }),
            other => Some(ApprovalFact { label: key.clone(), text: other.to_string() }),
        });
        arguments.collect()
    }
}

/// Quotes the name that a client gave itself, so that it cannot imitate text of Sinew.
pub(crate) fn quote_client_name(client: Option<&str>) -> String {
    client.map_or_else(|| "an unnamed client".to_owned(), |name| json!(name).to_string())
}

/// Id, times and edit state of an approval request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestHeader<'a> {
    pub(crate) id: &'a str,
    pub(crate) requested_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) edited: bool,
}

/// Refusal of a call that cannot be shown in full.
fn oversize_refusal(call: &CallHeader, why: &str) -> Box<Refusal> {
    let reason =
        format!("Permission denied: Approval is required, but the call cannot be shown in full: {why}");
    let refusal = Refusal::new(&call.tool, RefusalCode::TooLarge, reason).with_detail("too_much_to_show");
    Box::new(refusal.with_hint("split the call into smaller steps that can each be reviewed"))
}

fn path_binding(path: &OpenedPath) -> Result<Value, Failure> {
    let facts = path.metadata();
    let content = match path.kind() {
        ObjectKind::File if facts.is_some_and(|facts| facts.size > MAX_FILE_BYTES) => {
            let message =
                format!("`{}` is too large to bind an approval to its content", canonical_name(path)?);
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        ObjectKind::File => Some(path.sha256()?),
        _ => None,
    };
    Ok(json!({
        "key": path.key(),
        "canonical": canonical_name(path)?,
        "kind": kind_name(path),
        "object": facts.map(|facts| (facts.identity.device, facts.identity.inode)),
        "sha256": content,
    }))
}

/// A path that is not UTF-8 cannot be shown as it is.
fn canonical_name(path: &OpenedPath) -> Result<String, Failure> {
    let unreadable = || Failure::new(FailureKind::Unreadable, "the path is not valid UTF-8");
    path.canonical().to_str().map(str::to_owned).ok_or_else(unreadable)
}

fn kind_name(path: &OpenedPath) -> &'static str {
    match path.kind() {
        ObjectKind::File => "a file",
        ObjectKind::Directory => "a folder",
        ObjectKind::Link => "a symbolic link",
        ObjectKind::Special(kind) => kind,
        ObjectKind::Missing => "not there",
        ObjectKind::Unreachable => "unreachable",
    }
}
