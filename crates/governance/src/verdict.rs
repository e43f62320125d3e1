//! Verdicts of the judge. Each lists every rule that led to it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use file_access::{NamesPaths, Opened, OpenedPath, OtherNames, Reader};
use guardrail::ValidCall;
use serde_json::{Map, Value};
use tool::{Arguments, PathAccess, Refusal, RefusalCode, RuleRef};

use crate::cleared::Cleared;
use crate::facts::Seen;
use crate::files::HardLinks;
use crate::grounds::Grounds;
use crate::host_rules::{Nearness, Outbound, Target};
use crate::rates::Rates;
use crate::sight::Sight;
use crate::situation::{Counts, Workspace};
use crate::tool_rules::Confinement;
use crate::trail::{Notes, Trail};

/// Outcome of a decision.
#[must_use]
#[derive(Debug)]
pub enum Verdict {
    /// The call may run.
    Permit(Permit),
    /// A human decides.
    Question(Question),
    /// The call does not run.
    Denial(Denial),
}

/// Permission to run one call, with its opened files and its limits. Only the judge creates one.
#[derive(Debug)]
pub struct Permit {
    opened: Opened<Cleared>,
    rules: Vec<RuleRef>,
    limits: Box<Limits>,
    seen: Seen,
    foretold: Option<Box<Arguments>>,
}

/// Limits of a permitted call.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) timeout: Duration,
    pub(crate) max_file_bytes: Option<u64>,
    pub(crate) max_output_bytes: u64,
    pub(crate) rates: Rates,
    pub(crate) sight: Sight,
    /// Handling of files with several hard links.
    pub(crate) hard_links: HardLinks,
    pub(crate) max_response_bytes: Option<u64>,
    /// Outbound rules, if the call is outbound.
    pub(crate) outbound: Option<Outbound>,
    pub(crate) confinement: Confinement,
    /// Folders that a sandboxed process of the call may work in.
    pub(crate) folders: Vec<Workspace>,
    /// Program folders besides the system folders.
    pub(crate) program_folders: Vec<PathBuf>,
    /// Folders that this call or other calls of its caller may write to.
    pub(crate) written_to: Vec<PathBuf>,
}

impl Permit {
    pub(crate) fn new(opened: Opened<Cleared>, rules: Vec<RuleRef>, limits: Limits, seen: Seen) -> Self {
        Permit { opened, rules, limits: Box::new(limits), seen, foretold: None }
    }

    /// Returns the permit with the rewritten arguments that the approver was shown, so that the tool does not
    /// rewrite them again.
    pub fn foretelling(self, rewritten: Option<Arguments>) -> Self {
        Permit { foretold: rewritten.map(Box::new), ..self }
    }

    /// Returns the arguments as rewritten by the tool for the last preview.
    pub fn foretold(&self) -> Option<&Arguments> {
        self.foretold.as_deref()
    }

    /// Returns the call.
    pub fn call(&self) -> &ValidCall {
        self.opened.call().call()
    }

    /// Returns the opened paths of the call.
    pub fn paths(&self) -> &[OpenedPath] {
        self.opened.paths()
    }

    /// Returns the first path of an argument.
    pub fn path(&self, key: &str) -> Option<&OpenedPath> {
        self.paths().iter().find(|path| path.key() == key)
    }

    /// Returns the rules that allowed the call.
    pub fn rules(&self) -> &[RuleRef] {
        &self.rules
    }

    /// Returns the timeout.
    pub fn timeout(&self) -> Duration {
        self.limits.timeout
    }

    /// Returns the largest file that it may write or read; `None` means that policy sets no limit.
    pub fn max_file_bytes(&self) -> Option<u64> {
        self.limits.max_file_bytes
    }

    /// Returns the output limit in bytes.
    pub fn max_output_bytes(&self) -> u64 {
        self.limits.max_output_bytes
    }

    /// Returns the limit in bytes of a network response; `None` means that policy sets no limit.
    pub fn max_response_bytes(&self) -> Option<u64> {
        self.limits.max_response_bytes
    }

    /// Returns the limits of a sandboxed process of this call.
    pub fn confinement(&self) -> Confinement {
        self.limits.confinement
    }

    /// Returns the folders that a sandboxed process of this call works in: the workspaces, or the whole
    /// folders of `allowed_paths`. Names in them that `is_visible` hides are hidden from the process too.
    pub fn folders(&self) -> &[Workspace] {
        &self.limits.folders
    }

    /// Returns the folders that a sandboxed process of this call takes programs from, before the system
    /// folders.
    pub fn program_folders(&self) -> &[PathBuf] {
        &self.limits.program_folders
    }

    /// Returns the folders that this call or another call of its caller may write to. No program is taken
    /// from there.
    pub fn written_to(&self) -> &[PathBuf] {
        &self.limits.written_to
    }

    /// Returns the refusal that the shadow rules of the tool would have caused.
    pub fn would_deny(&self) -> Option<&Refusal> {
        self.seen.would_deny()
    }

    /// Checks that the call may reach this URL: a redirect target, or a service chosen by the tool.
    pub fn may_reach(&self, url: &str) -> Result<(), Denial> {
        let target = Target::of_url(url);
        self.outward(|outbound| outbound.admit(&target, &mut Notes::on(&mut Trail::off())))
    }

    /// Checks that the call may reach a service named in the settings, and returns its nearness by host name.
    /// The host lists apply; a local address is permitted, because the operator configured it.
    pub fn may_reach_service(&self, url: &str) -> Result<Nearness, Denial> {
        let target = Target::of_url(url);
        self.outward(|outbound| outbound.admit_service(&target))
    }

    /// Checks that the call may reach the server named in its manifest, and returns its nearness. A server on
    /// this machine or its network is permitted only if the tool's `allowed_domains` lists it.
    pub fn may_reach_server(&self, url: &str) -> Result<Nearness, Denial> {
        let target = Target::of_url(url);
        self.outward(|outbound| outbound.admit_server(&target))
    }

    /// Checks that the call may connect to this address, to which a permitted host resolved. With
    /// `Nearness::Near` the address may be on this machine or its network. Link-local and cloud metadata
    /// addresses are always denied.
    pub fn may_connect(&self, address: IpAddr, nearness: Nearness) -> Result<(), Denial> {
        self.outward(|outbound| outbound.admit_address(address, nearness))
    }

    fn outward<T>(&self, check: impl Fn(&Outbound) -> Result<T, Grounds>) -> Result<T, Denial> {
        let tool = self.call().definition().name().as_str();
        let checked = match &self.limits.outbound {
            Some(outbound) => check(outbound),
            None => Err(crate::grounds::stays_home(tool)),
        };
        checked.map_err(|grounds| Denial::new(tool, grounds, self.rules.clone()))
    }

    /// Returns true if the call is outbound.
    pub fn goes_out(&self) -> bool {
        self.limits.outbound.is_some()
    }

    /// Returns true if a name may be shown to the call. A name that it may not read stays hidden.
    pub fn shows(&self, path: &Path) -> bool {
        self.limits.sight.shows(path)
    }

    /// Returns true if the content of a file may be shown under this name. False if another hard link of the
    /// file is hidden, or may be. Searches for the other names, which can be slow.
    pub fn shows_content(&self, path: &Path, file: &Reader) -> bool {
        if self.limits.hard_links == HardLinks::Allow {
            return true;
        }
        let search = self.opened.call().link_search().unwrap_or_default();
        match file.other_names(path, &search) {
            OtherNames::Known(names) => names.iter().all(|name| self.shows(name)),
            OtherNames::Unknown => false,
        }
    }

    /// Returns the rule that hides a name.
    pub fn hidden_by(&self, path: &Path) -> Option<RuleRef> {
        self.limits.sight.hidden_by(path)
    }

    /// Returns the filter for the names that the call may show, for checks after the call.
    pub fn sight(&self) -> Sight {
        self.limits.sight.clone()
    }

    /// Returns true if this path must not be removed, even along with its folder.
    pub fn protects(&self, path: &Path) -> bool {
        self.limits.sight.forbids(path, PathAccess::Remove)
    }

    /// Returns the facts of the decision for the ledger, without content. Built on request, because building
    /// them costs more than the decision itself.
    pub fn facts(&self) -> Value {
        self.seen.with(&self.opened)
    }

    /// Checks the rate limits again with these counts, for the component that counts and reserves in one
    /// step.
    pub fn within_rates(&self, counts: Counts) -> Result<(), Denial> {
        let tool = self.call().definition().name().as_str();
        let mut trail = Trail::off();
        let checked = self.limits.rates.check(counts, &mut Notes::on(&mut trail));
        checked.map_err(|grounds| {
            let seen = self.seen.after(counts);
            let facts = seen.for_denial(seen.with(&self.opened));
            Denial::new(tool, grounds, self.rules.clone()).seeing(facts)
        })
    }

    /// Returns the remaining calls of each rate limit that applies.
    pub fn remaining(&self, counts: Counts) -> Map<String, Value> {
        self.limits.rates.remaining(counts)
    }
}

/// Call that nothing forbids but that requires approval.
#[derive(Debug)]
pub struct Question {
    permit: Permit,
    asked_by: Vec<RuleRef>,
}

impl Question {
    pub(crate) fn new(permit: Permit, asked_by: Vec<RuleRef>) -> Self {
        Question { permit, asked_by }
    }

    /// Returns the call.
    pub fn call(&self) -> &ValidCall {
        self.permit.call()
    }

    /// Returns the opened paths of the call.
    pub fn paths(&self) -> &[OpenedPath] {
        self.permit.paths()
    }

    /// Returns the rules that require approval.
    pub fn asked_by(&self) -> &[RuleRef] {
        &self.asked_by
    }

    /// Returns the rules that allow the call, then those that require approval.
    pub fn rules(&self) -> Vec<RuleRef> {
        self.permit.rules.iter().chain(&self.asked_by).cloned().collect()
    }

    /// Returns the facts of the decision for the ledger, without content.
    pub fn facts(&self) -> Value {
        self.permit.facts()
    }

    /// Returns the proposed permit for inspection. A borrowed permit cannot run the call.
    pub fn proposed(&self) -> &Permit {
        &self.permit
    }

    /// Returns the permit after approval of exactly this call. The caller must have recorded the approval in
    /// the ledger.
    pub fn approved(mut self) -> Permit {
        self.permit.rules.append(&mut self.asked_by);
        self.permit
    }

    /// Returns the refusal for a call that no approver is available to decide.
    pub fn unanswered(&self) -> Refusal {
        let tool = self.call().definition().name().as_str();
        let reason = "Permission denied: Approval is required, and no approver is available";
        let refusal = Refusal::new(tool, RefusalCode::ApprovalTimedOut, reason).detail("no_approver");
        match self.asked_by.first() {
            Some(rule) => {
                let hint = format!("approval is required by {}", crate::grounds::place(rule));
                refusal.hint(hint).rule(rule.clone())
            }
            None => refusal,
        }
    }
}

/// Call that is denied, and the reason.
#[derive(Debug, Clone)]
pub struct Denial {
    refusal: Box<Refusal>,
    rules: Vec<RuleRef>,
    facts: Value,
}

impl Denial {
    pub(crate) fn new(tool: &str, grounds: Grounds, mut rules: Vec<RuleRef>) -> Self {
        let refusal = grounds.into_refusal(tool);
        rules.extend(refusal.rule.clone());
        Denial { refusal, rules, facts: Value::Null }
    }

    /// Returns the denial with the facts of the decision.
    pub(crate) fn seeing(self, facts: Value) -> Self {
        Denial { facts, ..self }
    }

    /// Returns the facts of the decision for the ledger, without content. Never for the caller, because they
    /// contain the targets of symbolic links.
    pub fn facts(&self) -> &Value {
        &self.facts
    }

    /// Returns the refusal for the caller.
    pub fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// Returns the rules that passed, then the one that denied.
    pub fn rules(&self) -> &[RuleRef] {
        &self.rules
    }
}

impl From<Denial> for Box<Refusal> {
    fn from(denial: Denial) -> Self {
        denial.refusal
    }
}
