//! Verdicts of the judge. Each lists every rule that led to it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use file_access::{FileReader, HardLinkNames, OpenedCall, OpenedPath, PathSource};
use guardrail::ValidCall;
use serde_json::{Map, Value};
use tool::definition::PathAccess;
use tool::{Arguments, Refusal, RefusalCode, RuleRef};

use crate::decision_facts::SituationFacts;
use crate::denial_reason::DenialReason;
use crate::files::HardLinks;
use crate::host_rules::{HostLocation, NetworkTarget, OutboundRules};
use crate::prechecked::Prechecked;
use crate::rates::RateRules;
use crate::rule_trace::{RuleTrace, TraceRecorder};
use crate::situation::{RateCounts, Workspace};
use crate::tool_rules::Confinement;
use crate::visibility_filter::VisibilityFilter;

/// Outcome of a decision.
#[must_use]
#[derive(Debug)]
pub enum Verdict {
    /// The call may run.
    Permit(Permit),
    /// A human decides.
    ApprovalRequired(ApprovalRequired),
    /// The call does not run.
    Denial(Denial),
}

/// Permission to run one call, with its opened files and its limits. Only the judge creates one.
#[derive(Debug)]
pub struct Permit {
    opened: OpenedCall<Prechecked>,
    rules: Vec<RuleRef>,
    limits: Box<PermitLimits>,
    situation_facts: SituationFacts,
    previewed_arguments: Option<Box<Arguments>>,
}

/// Limits of a permitted call.
#[derive(Clone, Debug)]
pub(crate) struct PermitLimits {
    pub(crate) timeout: Duration,
    pub(crate) max_file_bytes: Option<u64>,
    pub(crate) max_output_bytes: u64,
    pub(crate) rates: RateRules,
    pub(crate) visibility_filter: VisibilityFilter,
    /// Handling of files with several hard links.
    pub(crate) hard_links: HardLinks,
    pub(crate) max_response_bytes: Option<u64>,
    /// Outbound rules, all of which must permit a target. Empty if the call is not outbound.
    pub(crate) outbound: Vec<OutboundRules>,
    pub(crate) confinement: Confinement,
    /// Folders that a sandboxed process of the call may work in.
    pub(crate) sandbox_folders: Vec<Workspace>,
    /// Program folders besides the system folders.
    pub(crate) program_folders: Vec<PathBuf>,
    /// Folders that this call or other calls of its caller may write to.
    pub(crate) writable_folders: Vec<PathBuf>,
}

impl Permit {
    pub(crate) fn new(
        opened: OpenedCall<Prechecked>,
        rules: Vec<RuleRef>,
        limits: PermitLimits,
        situation_facts: SituationFacts,
    ) -> Self {
        Permit { opened, rules, limits: Box::new(limits), situation_facts, previewed_arguments: None }
    }

    /// Returns the permit with the rewritten arguments that the approver was shown, so that the tool does not
    /// rewrite them again.
    pub fn with_previewed_arguments(self, rewritten: Option<Arguments>) -> Self {
        Permit { previewed_arguments: rewritten.map(Box::new), ..self }
    }

    /// Returns the arguments as rewritten by the tool for the last preview.
    pub fn previewed_arguments(&self) -> Option<&Arguments> {
        self.previewed_arguments.as_deref()
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
    pub fn sandbox_folders(&self) -> &[Workspace] {
        &self.limits.sandbox_folders
    }

    /// Returns the folders that a sandboxed process of this call takes programs from, before the system
    /// folders.
    pub fn program_folders(&self) -> &[PathBuf] {
        &self.limits.program_folders
    }

    /// Returns the folders that this call or another call of its caller may write to. No program is taken
    /// from there.
    pub fn writable_folders(&self) -> &[PathBuf] {
        &self.limits.writable_folders
    }

    /// Returns the refusal that the shadow rules of the tool would have caused.
    pub fn shadow_denial(&self) -> Option<&Refusal> {
        self.situation_facts.shadow_denial()
    }

    /// Checks that the call may reach this URL: a redirect target, or a service chosen by the tool.
    pub fn may_reach(&self, url: &str) -> Result<(), Denial> {
        let target = NetworkTarget::from_url(url);
        self.check_outbound(|outbound| {
            outbound.check(&target, &mut TraceRecorder::new(&mut RuleTrace::disabled()))
        })
    }

    /// Checks that the call may reach a service named in the settings, and returns its nearness by host name.
    /// The host lists apply; a local address is permitted, because the operator configured it.
    pub fn may_reach_service(&self, url: &str) -> Result<HostLocation, Denial> {
        let target = NetworkTarget::from_url(url);
        self.check_outbound(|outbound| outbound.check_service(&target))
    }

    /// Checks that the call may reach the server named in its manifest, and returns its nearness. A server on
    /// this machine or its network is permitted only if the tool's `allowed_domains` lists it.
    pub fn may_reach_server(&self, url: &str) -> Result<HostLocation, Denial> {
        let target = NetworkTarget::from_url(url);
        self.check_outbound(|outbound| outbound.check_manifest_server(&target))
    }

    /// Checks that the call may connect to this address, to which a permitted host resolved. With
    /// `Nearness::Near` the address may be on this machine or its network. Link-local and cloud metadata
    /// addresses are always denied.
    pub fn may_connect(&self, address: IpAddr, host_location: HostLocation) -> Result<(), Denial> {
        self.check_outbound(|outbound| outbound.check_address(address, host_location))
    }

    fn check_outbound<T>(
        &self,
        check: impl Fn(&OutboundRules) -> Result<T, DenialReason>,
    ) -> Result<T, Denial> {
        let tool = self.call().definition().name().as_str();
        let nothing = Err(crate::denial_reason::no_network_access(tool));
        let checked = self.limits.outbound.iter().try_fold(None, |_, outbound| check(outbound).map(Some));
        let checked = checked.and_then(|found| found.map_or(nothing, Ok));
        checked.map_err(|denial_reason| Denial::new(tool, denial_reason, self.rules.clone()))
    }

    /// Returns true if the call is outbound.
    pub fn is_outbound(&self) -> bool {
        !self.limits.outbound.is_empty()
    }

    /// Returns true if a name may be shown to the call. A name that it may not read stays hidden.
    pub fn is_visible(&self, path: &Path) -> bool {
        self.limits.visibility_filter.is_visible(path)
    }

    /// Returns true if the content of a file may be shown under this name. False if another hard link of the
    /// file is hidden, or may be. Searches for the other names, which can be slow.
    pub fn is_content_visible(&self, path: &Path, file: &FileReader) -> bool {
        if self.limits.hard_links == HardLinks::Allow {
            return true;
        }
        let search = self.opened.call().link_search().unwrap_or_default();
        match file.other_names(path, &search) {
            HardLinkNames::Known(names) => names.iter().all(|name| self.is_visible(name)),
            HardLinkNames::Unknown => false,
        }
    }

    /// Returns the rule that hides a name.
    pub fn hidden_by(&self, path: &Path) -> Option<RuleRef> {
        self.limits.visibility_filter.hidden_by(path)
    }

    /// Returns the filter for the names that the call may show, for checks after the call.
    pub fn visibility_filter(&self) -> VisibilityFilter {
        self.limits.visibility_filter.clone()
    }

    /// Returns true if this path must not be removed, even along with its folder.
    pub fn is_protected(&self, path: &Path) -> bool {
        self.limits.visibility_filter.forbids(path, PathAccess::Remove)
    }

    /// Returns the facts of the decision for the ledger, without content. Built on request, because building
    /// them costs more than the decision itself.
    pub fn facts(&self) -> Value {
        self.situation_facts.opened_facts(&self.opened)
    }

    /// Like `facts`, as JSON text without hidden characters.
    pub fn facts_json(&self) -> String {
        self.situation_facts.opened_facts_json(&self.opened)
    }

    /// Checks the rate limits again with these counts, for the component that counts and reserves in one
    /// step.
    pub fn check_rates(&self, counts: RateCounts) -> Result<(), Denial> {
        let tool = self.call().definition().name().as_str();
        let mut trace = RuleTrace::disabled();
        let checked = self.limits.rates.check(counts, &mut TraceRecorder::new(&mut trace));
        checked.map_err(|denial_reason| {
            let seen = self.situation_facts.with_counts(counts);
            let facts = seen.limit_for_denial(seen.opened_facts(&self.opened));
            Denial::new(tool, denial_reason, self.rules.clone()).with_facts(facts)
        })
    }

    /// Returns the remaining calls of each rate limit that applies.
    pub fn remaining_calls(&self, counts: RateCounts) -> Map<String, Value> {
        self.limits.rates.remaining(counts)
    }
}

/// Call that nothing forbids but that requires approval.
#[derive(Debug)]
pub struct ApprovalRequired {
    permit: Permit,
    approval_rules: Vec<RuleRef>,
}

impl ApprovalRequired {
    pub(crate) fn new(permit: Permit, approval_rules: Vec<RuleRef>) -> Self {
        ApprovalRequired { permit, approval_rules }
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
    pub fn approval_rules(&self) -> &[RuleRef] {
        &self.approval_rules
    }

    /// Returns the rules that allow the call, then those that require approval.
    pub fn rules(&self) -> Vec<RuleRef> {
        self.permit.rules.iter().chain(&self.approval_rules).cloned().collect()
    }

    /// Returns the facts of the decision for the ledger, without content.
    pub fn facts(&self) -> Value {
        self.permit.facts()
    }

    /// Returns the proposed permit for inspection. A borrowed permit cannot run the call.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Returns the permit after approval of exactly this call. The caller must have recorded the approval in
    /// the ledger.
    pub fn into_permit(mut self) -> Permit {
        self.permit.rules.append(&mut self.approval_rules);
        self.permit
    }

    /// Returns the refusal for a call that no approver is available to decide.
    pub fn no_approver_refusal(&self) -> Refusal {
        let tool = self.call().definition().name().as_str();
        let reason = "Permission denied: Approval is required, and no approver is available";
        let refusal = Refusal::new(tool, RefusalCode::ApprovalTimedOut, reason).with_detail("no_approver");
        match self.approval_rules.first() {
            Some(rule) => {
                let hint = format!("approval is required by {}", crate::denial_reason::rule_location(rule));
                refusal.with_hint(hint).with_rule(rule.clone())
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
    pub(crate) fn new(tool: &str, denial_reason: DenialReason, mut rules: Vec<RuleRef>) -> Self {
        let refusal = denial_reason.into_refusal(tool);
        rules.extend(refusal.rule.clone());
        Denial { refusal, rules, facts: Value::Null }
    }

    /// Returns the denial with the facts of the decision.
    pub(crate) fn with_facts(self, facts: Value) -> Self {
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
