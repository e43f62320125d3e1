//! Campaigns, one row each: what it promises, the figure to reach, and the guard whose removal it has found.

use anyhow::Result;

use crate::project::Profile;
use crate::tree::Root;

use super::summary::Summary;
use super::{crate_tests, fuzz, mutants, suite_tests};

/// One campaign.
pub(crate) struct Campaign {
    pub(crate) name: &'static str,
    /// Property that an exception would break.
    pub(crate) promise: &'static str,
    /// Figure to reach, and what it counts.
    pub(crate) target: u64,
    pub(crate) unit: &'static str,
    /// Guard that was removed on purpose, and the campaign's reaction. Empty until that was tried.
    pub(crate) guard: &'static str,
    pub(crate) run: fn(&Session<'_>) -> Result<Summary>,
}

/// Settings of one run.
pub(crate) struct Session<'a> {
    pub(crate) root: &'a Root,
    pub(crate) seed: u64,
    pub(crate) minutes: u32,
    /// Figure to stop at.
    pub(crate) count: u64,
    pub(crate) profile: Profile,
}

/// All campaigns, in the order in which they run.
pub(crate) const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "fuzz",
        promise: "no input crashes a reader or breaks its stated property",
        target: 1_000_000_000,
        unit: "inputs",
        guard: "empty labels of host names were accepted: target `url` found `http:.:81/x` after 1,951 inputs",
        run: fuzz::run,
    },
    Campaign {
        name: "mutants",
        promise: "unit tests notice a changed expression in the code that decides and records",
        target: mutants::MUTANTS,
        unit: "mutants",
        guard: "each mutant removes a guard; the first sample showed that no test noticed `&&` replaced by `||` in `drop_optional_nulls`; a test was added",
        run: mutants::run,
    },
    Campaign {
        name: "kills",
        promise: "every answered call has its record after kill -9 under load",
        target: 10_000,
        unit: "kills",
        guard: "the ledger wrote each line one record late: after at most 12 kills a reply had no record",
        run: |session| suite_tests::run(session, "crashes::soak"),
    },
    Campaign {
        name: "faults",
        promise: "a failing system call leaves no unrecorded effect and no hang",
        target: 10_000,
        unit: "injected errors",
        guard: "errors of writes to the ledger were ignored: a missing record within 40 cases",
        run: |session| suite_tests::run(session, "campaigns::syscalls"),
    },
    Campaign {
        name: "starts",
        promise: "a system call that fails during a start leaves a daemon that allows no more than before, or none",
        target: 5_000,
        unit: "injected errors",
        guard: "one failed attempt to load the accepted configuration was final: within 12 s a rule that waited for the operator applied",
        run: |session| suite_tests::run(session, "campaigns::starts"),
    },
    Campaign {
        name: "power",
        promise: "no acknowledged change is without its record after a power failure",
        target: 1_000,
        unit: "cuts",
        guard: "the decision was not synced: the first cut left a ledger without records that its anchor counts",
        run: |session| suite_tests::run(session, "campaigns::power::soak"),
    },
    Campaign {
        name: "races",
        promise: "swapped paths never lead a file tool out of the workspace",
        target: 100_000_000,
        unit: "swaps",
        guard: "the policy judged the path argument instead of the path of the opened handle: `search_files` and `read_file` returned text from outside in the first round",
        run: |session| suite_tests::run(session, "campaigns::races"),
    },
    Campaign {
        name: "by-name",
        promise: "file tools that open paths by name behave and resist races like those that use openat2",
        target: 250,
        unit: "tests",
        guard: "the object that was opened again by its name was not compared with the first one: a test of `file_access` failed, by name and with the handles of macOS",
        run: crate_tests::by_name,
    },
    Campaign {
        name: "canaries",
        promise: "no secret in a call is stored, shown or sent",
        target: 1_000,
        unit: "secrets",
        guard: "nothing was redacted: 231 of 1,000 secrets were found",
        run: |session| suite_tests::run(session, "secrets::a_thousand"),
    },
    Campaign {
        name: "locations",
        promise: "no tool reveals a secret from its location",
        target: 1_000,
        unit: "calls",
        guard: "the list of paths forbidden to every tool was ignored: the daemon did not start, because the policy's own examples failed",
        run: |session| suite_tests::run(session, "secret_locations::no_tool"),
    },
    Campaign {
        name: "parity",
        promise: "file tools and sandboxed programs agree on protected names",
        target: 150,
        unit: "names",
        guard: "the list of names that programs execute automatically was empty: a run created `info/alternates`",
        run: |session| suite_tests::run(session, "agree_on_protected_names"),
    },
    Campaign {
        name: "clients",
        promise: "a client that vanishes leaves no call behind",
        target: 10_000,
        unit: "clients",
        guard: "a lost connection did not stop its call: a suspended call stayed for 20 s",
        run: |session| suite_tests::run(session, "campaigns::clients"),
    },
    Campaign {
        name: "fairness",
        promise: "one hostile caller does not stop ten good ones",
        target: 27,
        unit: "methods and calls",
        guard: "callers had no share of the slots: good callers got no answer for 20 s",
        run: |session| suite_tests::run(session, "campaigns::fairness"),
    },
    Campaign {
        name: "environments",
        promise: "the daemon serves in unusual environments, and no program runs outside a sandbox",
        target: 9,
        unit: "environments",
        guard: "process 1 was taken for visible without a look at `/proc`: with hidden processes, `check_process_health` reported `not_running`",
        run: |session| suite_tests::run(session, "campaigns::environments"),
    },
    Campaign {
        name: "endurance",
        promise: "memory, descriptors and threads stay flat under load with faults",
        target: 240,
        unit: "minutes",
        guard: "the read half of an ended connection was not closed: descriptors grew within 3 minutes",
        run: |session| suite_tests::run(session, "long_life::soak"),
    },
    Campaign {
        name: "load",
        promise: "an ordinary client is served beside hostile ones",
        target: 3_000,
        unit: "timed calls",
        guard: "",
        run: |session| suite_tests::run(session, "load::soak"),
    },
    Campaign {
        name: "closed-loop",
        promise: "of 1,000 connections no refused call waits longer than 1 s, and one looping caller does not double another's p99",
        target: 60,
        unit: "seconds",
        guard: "",
        run: |session| suite_tests::run(session, "load::closed_loop"),
    },
    Campaign {
        name: "deadlines",
        promise: "a program that resists termination is ended within 0.1 s of its deadline",
        target: 1_000,
        unit: "programs",
        guard: "the kill came a second after the grace period: the first program was reported 1.03 s late",
        run: crate_tests::deadlines,
    },
    Campaign {
        name: "judge",
        promise: "the judge, its explanation and the model agree",
        target: 100_000_000,
        unit: "verdicts",
        guard: "the path of the opened handle was not compared with forbidden paths: judge and model disagreed within 2 s",
        run: crate_tests::judge,
    },
    Campaign {
        name: "prover",
        promise: "the prover's answer equals exhaustive judgement on random small policies",
        target: 1_000_000,
        unit: "policies of a tool",
        guard: "commands one word longer than every rule were left out: after 5,250 policies a call that an exact rule does not forbid had no witness",
        run: crate_tests::prover,
    },
    Campaign {
        name: "layers",
        promise: "the merged policy decides like the whole file that it replaced",
        target: 1_000_000,
        unit: "calls",
        guard: "the first item of each named set was dropped: a file with the name of a key was decided differently in the first seconds",
        run: crate_tests::layers,
    },
    Campaign {
        name: "merging",
        promise: "merging policy layers is associative",
        target: 1_000_000,
        unit: "triples of layers",
        guard: "",
        run: crate_tests::merging,
    },
    Campaign {
        name: "projects",
        promise: "a project policy never loosens a verdict or what a sandboxed program may access",
        target: 1_000_000,
        unit: "calls",
        guard: "",
        run: crate_tests::projects,
    },
    Campaign {
        name: "schedules",
        promise: "a call runs as approved, once, under every order of events",
        target: 100_000,
        unit: "schedules of each kind",
        guard: "the digest of an approval was not compared with that of the call: within four schedules a changed call ran",
        run: crate_tests::schedules,
    },
    Campaign {
        name: "queries",
        promise: "each query of a large ledger stays within its time limit",
        target: 1_000_000,
        unit: "records",
        guard: "",
        run: crate_tests::queries,
    },
];

/// Names of all campaigns.
pub(crate) fn names() -> Vec<&'static str> {
    CAMPAIGNS.iter().map(|campaign| campaign.name).collect()
}
