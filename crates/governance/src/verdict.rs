//! The three answers of the judge. Each names every rule that was looked at and led to it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use guardrail::ValidCall;
use resources::{NamesPaths, Opened, OpenedPath, OtherNames, Reader};
use serde_json::{Map, Value};
use tool::{Arguments, PathAccess, Refusal, RefusalCode, RuleRef};

use crate::cleared::Cleared;
use crate::facts::{Seen, Sighting};
use crate::files::HardLinks;
use crate::grounds::Grounds;
use crate::host_rules::{Nearness, Outbound, Target};
use crate::rates::Rates;
use crate::sight::Sight;
use crate::situation::{Counts, Workspace};
use crate::tool_rules::Confinement;
use crate::trail::{Notes, Trail};

/// What becomes of a call.
#[must_use]
#[derive(Debug)]
pub enum Verdict {
    /// It may run.
    Permit(Permit),
    /// A human decides.
    Question(Question),
    /// It does not run.
    Denial(Denial),
}

/// Leave to run one call, with its files and its limits. Only the judge makes one.
#[derive(Debug)]
pub struct Permit {
    opened: Opened<Cleared>,
    rules: Vec<RuleRef>,
    limits: Box<Limits>,
    seen: Seen,
    foretold: Option<Box<Arguments>>,
}

/// What a permitted call may use.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) timeout: Duration,
    pub(crate) max_file_bytes: Option<u64>,
    pub(crate) max_output_bytes: u64,
    pub(crate) rates: Rates,
    pub(crate) sight: Sight,
    /// What holds for a file with several names.
    pub(crate) hard_links: HardLinks,
    pub(crate) max_response_bytes: Option<u64>,
    /// Where it may go, if it leaves the machine at all.
    pub(crate) outbound: Option<Outbound>,
    pub(crate) confinement: Confinement,
    /// Where a confined process of it may work.
    pub(crate) folders: Vec<Workspace>,
    /// Where programs are taken from besides the system's folders.
    pub(crate) program_folders: Vec<PathBuf>,
    /// Where calls of its caller write, this one or others.
    pub(crate) written_to: Vec<PathBuf>,
}

impl Permit {
    pub(crate) fn new(opened: Opened<Cleared>, rules: Vec<RuleRef>, limits: Limits, seen: Seen) -> Self {
        Permit { opened, rules, limits: Box::new(limits), seen, foretold: None }
    }

    /// The same, to be run with its arguments as a human was shown them: the tool rewrites them, and not once more.
    pub fn foretelling(self, rewritten: Option<Arguments>) -> Self {
        Permit { foretold: rewritten.map(Box::new), ..self }
    }

    /// What the tool made of its arguments when it was last asked what it would do.
    pub fn foretold(&self) -> Option<&Arguments> {
        self.foretold.as_deref()
    }

    /// The call.
    pub fn call(&self) -> &ValidCall {
        self.opened.call().call()
    }

    /// What it named, opened.
    pub fn paths(&self) -> &[OpenedPath] {
        self.opened.paths()
    }

    /// The first path of an argument.
    pub fn path(&self, key: &str) -> Option<&OpenedPath> {
        self.paths().iter().find(|path| path.key() == key)
    }

    /// The rules that allowed it.
    pub fn rules(&self) -> &[RuleRef] {
        &self.rules
    }

    /// How long it may run.
    pub fn timeout(&self) -> Duration {
        self.limits.timeout
    }

    /// The largest file it may write or read; `None` means that policy sets no limit.
    pub fn max_file_bytes(&self) -> Option<u64> {
        self.limits.max_file_bytes
    }

    /// The most it may answer.
    pub fn max_output_bytes(&self) -> u64 {
        self.limits.max_output_bytes
    }

    /// The most it may read of an answer from the network; `None` means that policy sets no limit.
    pub fn max_response_bytes(&self) -> Option<u64> {
        self.limits.max_response_bytes
    }

    /// What a confined process of this call may use.
    pub fn confinement(&self) -> Confinement {
        self.limits.confinement
    }

    /// The folders a confined process of this call works in: the workspaces, or the whole folders of `allowed_paths`.
    /// What [`shows`](Self::shows) hides in them is hidden from it too.
    pub fn folders(&self) -> &[Workspace] {
        &self.limits.folders
    }

    /// The folders that a confined process of this call takes programs from before it takes them from the system's.
    pub fn program_folders(&self) -> &[PathBuf] {
        &self.limits.program_folders
    }

    /// The folders that this call may write to, or another of its caller's: no program is taken from there.
    pub fn written_to(&self) -> &[PathBuf] {
        &self.limits.written_to
    }

    /// Why the tool's rules, which are only recorded, would have denied this call.
    pub fn would_deny(&self) -> Option<&Refusal> {
        self.seen.would_deny()
    }

    /// Whether the call may go on to this address: what it was redirected to, or a service the tool itself chose.
    pub fn may_reach(&self, url: &str) -> Result<(), Denial> {
        let target = Target::of_url(url);
        self.outward(|outbound| outbound.admit(&target, &mut Notes::on(&mut Trail::off())))
    }

    /// Whether the call may go to a service that the settings name, and where that is by the name they give it. The
    /// lists of hosts hold for it; that it is on this machine is no mistake of whoever wrote it down.
    pub fn may_reach_service(&self, url: &str) -> Result<Nearness, Denial> {
        let target = Target::of_url(url);
        self.outward(|outbound| outbound.admit_service(&target))
    }

    /// Whether the call may go to the server that its manifest names, and where that is. What is on this machine or its
    /// network only where the tool's `allowed_domains` names it.
    pub fn may_reach_server(&self, url: &str) -> Result<Nearness, Denial> {
        let target = Target::of_url(url);
        self.outward(|outbound| outbound.admit_server(&target))
    }

    /// Whether the call may connect to this address, which a host it may reach turned out to have. A service that is near
    /// by its name may be on this machine or its network; nothing may be where no file opens the way.
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

    /// Whether the call leaves the machine.
    pub fn goes_out(&self) -> bool {
        self.limits.outbound.is_some()
    }

    /// Whether a name the call comes across may be shown. What it may not read it does not see.
    pub fn shows(&self, path: &Path) -> bool {
        self.limits.sight.shows(path)
    }

    /// Whether the content of a file that the call comes across under this name may be shown: not where another of its
    /// names is hidden, or may be. It looks for them, and may take its time.
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

    /// The rule by which a name the call comes across is not [shown](Self::shows).
    pub fn hidden_by(&self, path: &Path) -> Option<RuleRef> {
        self.limits.sight.hidden_by(path)
    }

    /// What it may show of the names it comes across, for whoever looks again later.
    pub fn sight(&self) -> Sight {
        self.limits.sight.clone()
    }

    /// Whether a name the call comes across must stay as it is, whatever goes with the folder it is in.
    pub fn protects(&self, path: &Path) -> bool {
        self.limits.sight.forbids(path, PathAccess::Remove)
    }

    /// What the judge saw, for the record. No content. Made when somebody asks: most of the cost of a verdict would be
    /// its record.
    pub fn sighting(&self) -> Sighting<'_> {
        self.seen.with(&self.opened)
    }

    /// The same as a value, for who looks into it.
    pub fn facts(&self) -> Value {
        self.sighting().value()
    }

    /// Whether it may still run now that so much has run. For whoever counts and reserves in one step.
    pub fn within_rates(&self, counts: Counts) -> Result<(), Denial> {
        let tool = self.call().definition().name().as_str();
        let mut trail = Trail::off();
        let checked = self.limits.rates.check(counts, &mut Notes::on(&mut trail));
        checked.map_err(|grounds| {
            let seen = self.seen.after(counts);
            let facts = seen.for_denial(seen.with(&self.opened).value());
            Denial::new(tool, grounds, self.rules.clone()).seeing(facts)
        })
    }

    /// What is left of each rate limit that holds.
    pub fn remaining(&self, counts: Counts) -> Map<String, Value> {
        self.limits.rates.remaining(counts)
    }
}

/// A call that nothing forbids, and about which a human must be asked.
#[derive(Debug)]
pub struct Question {
    permit: Permit,
    asked_by: Vec<RuleRef>,
}

impl Question {
    pub(crate) fn new(permit: Permit, asked_by: Vec<RuleRef>) -> Self {
        Question { permit, asked_by }
    }

    /// The call.
    pub fn call(&self) -> &ValidCall {
        self.permit.call()
    }

    /// What it named, opened.
    pub fn paths(&self) -> &[OpenedPath] {
        self.permit.paths()
    }

    /// The rules that ask.
    pub fn asked_by(&self) -> &[RuleRef] {
        &self.asked_by
    }

    /// The rules that would allow it, then those that ask.
    pub fn rules(&self) -> Vec<RuleRef> {
        self.permit.rules.iter().chain(&self.asked_by).cloned().collect()
    }

    /// What the judge saw, for the record. No content.
    pub fn facts(&self) -> Value {
        self.permit.facts()
    }

    /// What it asks for, to be looked at: nothing runs by a permit that is only borrowed.
    pub fn proposed(&self) -> &Permit {
        &self.permit
    }

    /// The permit, once a human said yes to this very question. Whoever calls this has that answer on record.
    pub fn approved(mut self) -> Permit {
        self.permit.rules.append(&mut self.asked_by);
        self.permit
    }

    /// The refusal of a call that nobody is there to decide.
    pub fn unanswered(&self) -> Refusal {
        let tool = self.call().definition().name().as_str();
        let reason = "Permission denied: Approval is required, and nobody is there to give it";
        let refusal = Refusal::new(tool, RefusalCode::ApprovalTimedOut, reason).detail("no_approver");
        match self.asked_by.first() {
            Some(rule) => {
                let hint = format!("a human is asked by {}", crate::grounds::place(rule));
                refusal.hint(hint).rule(rule.clone())
            }
            None => refusal,
        }
    }
}

/// A call that does not run, and why.
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

    /// The same with what the judge saw.
    pub(crate) fn seeing(self, facts: Value) -> Self {
        Denial { facts, ..self }
    }

    /// What the judge saw, for the record and never for the caller: it names what links lead to. No content.
    pub fn facts(&self) -> &Value {
        &self.facts
    }

    /// What the caller is told.
    pub fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// The rules that were passed, then the one that denied.
    pub fn rules(&self) -> &[RuleRef] {
        &self.rules
    }
}

impl From<Denial> for Box<Refusal> {
    fn from(denial: Denial) -> Self {
        denial.refusal
    }
}
