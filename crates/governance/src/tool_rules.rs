//! Checked rules of `tools.yaml`, for one tool and for one category.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use strict_yaml::Located;
use tool::{Category, Mode, RiskLevel, RuleRef};

use crate::command_rules::CommandRules;
use crate::common_paths::CommonPaths;
use crate::example::{self, PolicyExample};
use crate::glob::{ListPurpose, PathGlobs};
use crate::host_rules::{HostList, HostRule};
use crate::mode_rules;
use crate::path_list::{self, EveryPath, PathList};
use crate::policy_environment::PolicyEnvironment;
use crate::problems::FileInspection;
use crate::tools_file::{CategoryEntry, HardLinks, Isolation, NetworkAccess, ResultCacheScope, ToolEntry};

const MAX_TIMEOUT_SECONDS: u64 = 24 * 60 * 60;
/// Memory limit of a sandboxed process where no rule sets one.
const DEFAULT_MEMORY_MB: u32 = 2048;
const DEFAULT_PROCESSES: u32 = 256;
/// Unit of file sizes in the policy files.
pub(crate) const MEBIBYTE: u64 = 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct CategoryRules {
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) approval_modes: Vec<(Mode, RuleRef)>,
    pub(crate) outbound_route: OutboundRoute,
}

/// Outbound route of the tools of a category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutboundRoute {
    #[default]
    None,
    Gateway,
}

/// Limits of a sandboxed process, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Minimum isolation level.
    pub min_isolation: Isolation,
    /// Network access.
    pub network: NetworkAccess,
    /// Memory, in units of 1,048,576 bytes.
    pub memory_mb: Option<u32>,
    /// Maximum number of processes.
    pub max_processes: Option<u32>,
    /// Processor time in seconds.
    pub cpu_seconds: Option<u32>,
}

impl Default for Confinement {
    fn default() -> Self {
        Confinement {
            min_isolation: Isolation::Full,
            network: NetworkAccess::Off,
            memory_mb: None,
            max_processes: None,
            cpu_seconds: None,
        }
    }
}

impl Confinement {
    fn of_entry(entry: &ToolEntry) -> Self {
        Confinement {
            min_isolation: entry.min_isolation.as_ref().map_or(Isolation::Full, |level| level.value),
            network: entry.network.unwrap_or(NetworkAccess::Off),
            memory_mb: entry.memory_mb,
            max_processes: entry.max_processes,
            cpu_seconds: entry.cpu_seconds,
        }
    }

    /// Returns the effective memory limit, in units of 1,048,576 bytes. At least 16, because nothing starts
    /// with less.
    pub fn effective_memory_mb(&self) -> u32 {
        self.memory_mb.unwrap_or(DEFAULT_MEMORY_MB).max(16)
    }

    /// Returns the effective process limit, at least 1.
    pub fn effective_max_processes(&self) -> u32 {
        self.max_processes.unwrap_or(DEFAULT_PROCESSES).max(1)
    }
}

/// Checked entry of one tool in `tools.yaml`.
#[derive(Clone, Debug)]
pub struct ToolRules {
    /// Category that replaces the one of the definition.
    pub category: Option<Category>,
    /// Modes in which it may run.
    pub allowed_modes: Option<ModeList>,
    /// Modes in which it requires approval.
    pub approval_modes: Vec<(Mode, RuleRef)>,
    /// Modes in which it may not run.
    pub forbidden_modes: Vec<(Mode, RuleRef)>,
    /// Paths that it may access; `None` means the workspaces.
    pub allowed_paths: Option<PathList>,
    /// Paths that it may not access, including those forbidden to every tool.
    pub forbidden_paths: Arc<PathGlobs>,
    /// Largest file that it may read or write.
    pub max_file_bytes: Option<(u64, RuleRef)>,
    /// Rule that requires approval in every mode.
    pub approval_rule: Option<RuleRef>,
    /// Paths on which approvals required by this file are waived.
    pub unattended_paths: Arc<PathGlobs>,
    /// Rule that requires the sandbox.
    pub sandbox_rule: Option<RuleRef>,
    /// Timeout of a call.
    pub timeout: Option<Duration>,
    /// Calls per hour.
    pub calls_per_hour: Option<(u32, RuleRef)>,
    /// Handling of files with several hard links.
    pub hard_links: HardLinks,
    /// Largest output.
    pub max_output_bytes: Option<u64>,
    /// Cost of one call in the budget of a worker session.
    pub cost_per_call: f64,
    /// Reuse of its results.
    pub result_cache: Option<ResultCacheRule>,
    /// Programs that it may start.
    pub commands: CommandRules,
    /// Folders whose programs it may start by name.
    pub program_folders: Vec<(PathBuf, RuleRef)>,
    /// Hosts that it may reach; `None` means those of the gateway.
    pub hosts: Option<Arc<HostList>>,
    /// Limits of its sandbox.
    pub confinement: Confinement,
    /// Rules as written, if they are only recorded. The other fields then contain nothing that denies.
    pub shadow: Option<Box<ToolRules>>,
    /// Examples, which must hold.
    pub examples: Vec<PolicyExample>,
}

/// Reuse of the results of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultCacheRule {
    /// Time for which a result is reused.
    pub ttl: Duration,
    /// Callers that share a result.
    pub scope: ResultCacheScope,
    /// Location in the policy file.
    pub rule: RuleRef,
}

/// List of modes and its location, which denials of unlisted modes cite.
#[derive(Clone, Debug)]
pub struct ModeList {
    /// Modes, in file order.
    pub modes: Vec<(Mode, RuleRef)>,
    /// Location in the policy file.
    pub rule: RuleRef,
}

pub(crate) fn check_category(
    name: &str,
    entry: &CategoryEntry,
    inspection: &mut FileInspection<'_>,
) -> CategoryRules {
    let id = format!("tool_categories.{name}.requires_approval_in_modes");
    let approval_modes = inspection.parse_modes(&entry.requires_approval_in_modes, &id);
    let outbound_route =
        if entry.requires_outbound_gateway { OutboundRoute::Gateway } else { OutboundRoute::None };
    CategoryRules { risk: entry.risk_level, approval_modes, outbound_route }
}

/// Checks the entry of one tool. `None` where a list could not be compiled, which is reported.
pub(crate) fn check_tool(
    key: &Located<String>,
    entry: &ToolEntry,
    known: &[Category],
    (environment, common): (&PolicyEnvironment, &CommonPaths),
    inspection: &mut FileInspection<'_>,
) -> Option<ToolRules> {
    let id = |what: &str| format!("{}.{what}", key.value);
    let unattended = path_list::compile(
        &entry.unattended_paths,
        ListPurpose::Allow,
        &id("unattended_paths"),
        environment,
        inspection,
    );
    let allowed_modes = entry.allowed_in_modes.as_ref().map(|list| ModeList {
        modes: inspection.parse_modes(&list.value, &id("allowed_in_modes")),
        rule: inspection.rule_ref(list, id("allowed_in_modes")),
    });
    let approval_modes =
        inspection.parse_modes(&entry.requires_approval_in_modes, &id("requires_approval_in_modes"));
    let forbidden_modes = inspection.parse_modes(&entry.forbidden_in_modes, &id("forbidden_in_modes"));
    warn_about_overlap(key, &allowed_modes, &forbidden_modes, inspection);
    let forbidden_paths = common.with_entry(&key.value, entry, environment, inspection);
    let every_path = if entry.allow_every_path { EveryPath::Allowed } else { EveryPath::Refused };
    let allowed_paths = entry.allowed_paths.as_ref();
    let allowed_paths = allowed_paths
        .map(|list| PathList::compile(list, (&id("allowed_paths"), every_path), environment, inspection));
    let (allowed, forbidden) = (entry.allowed_commands.as_ref(), entry.forbidden_commands.as_ref());
    let rules = ToolRules {
        category: entry.category.as_ref().and_then(|word| mode_rules::find_category(word, known, inspection)),
        allowed_modes,
        approval_modes,
        forbidden_modes,
        allowed_paths: match allowed_paths {
            Some(list) => Some(list?),
            None => None,
        },
        forbidden_paths: forbidden_paths?,
        max_file_bytes: limit_with_rule(&entry.max_file_size_mb, &id("max_file_size_mb"), inspection)
            .map(|(mebibytes, rule)| (u64::from(mebibytes) * MEBIBYTE, rule)),
        unattended_paths: Arc::new(unattended?),
        approval_rule: rule_if_true(&entry.requires_approval, &id("requires_approval"), inspection),
        sandbox_rule: sandbox_rule(entry, &id, inspection),
        timeout: check_timeout(&entry.timeout_seconds, "timeout_seconds", inspection),
        calls_per_hour: limit_with_rule(&entry.rate_limit_per_hour, &id("rate_limit_per_hour"), inspection),
        hard_links: entry.hard_links,
        max_output_bytes: entry.max_output_bytes.as_ref().map(|number| number.value),
        cost_per_call: check_cost(&entry.cost_per_call, inspection),
        result_cache: check_result_cache(entry, &id("cache_seconds"), inspection),
        commands: CommandRules::compile(
            allowed,
            forbidden,
            &key.value,
            environment.name_comparison,
            inspection,
        ),
        program_folders: path_list::compile_folders(
            &entry.program_folders,
            &id("program_folders"),
            environment,
            inspection,
        ),
        hosts: entry.allowed_domains.as_ref().map(|list| {
            let hosts = HostRule::compile(list, &id("allowed_domains"), inspection);
            Arc::new(HostList { hosts, rule: inspection.rule_ref(list, id("allowed_domains")) })
        }),
        confinement: Confinement::of_entry(entry),
        shadow: None,
        examples: example::parse_examples(&entry.examples, &environment.variables, inspection),
    };
    Some(match &entry.shadow {
        Some(flag) if flag.value => {
            inspection.warn(
                flag,
                "the rules of this tool are recorded, not enforced",
                Some("remove it to enforce them".to_owned()),
            );
            rules.into_shadow(common)
        }
        _ => rules,
    })
}

impl ToolRules {
    /// Moves the rules to `shadow` and keeps only those that do not deny by mode, path, command, host or
    /// rate. The sandbox and the refusal of hard links stay in force.
    fn into_shadow(self, common: &CommonPaths) -> Self {
        ToolRules {
            category: self.category.clone(),
            allowed_modes: None,
            approval_modes: self.approval_modes.clone(),
            forbidden_modes: Vec::new(),
            allowed_paths: None,
            // The common list is not a rule of this entry, so it applies as for a tool without an entry.
            forbidden_paths: Arc::clone(common.globs()),
            max_file_bytes: None,
            approval_rule: self.approval_rule.clone(),
            unattended_paths: Arc::clone(&self.unattended_paths),
            sandbox_rule: self.sandbox_rule.clone(),
            timeout: self.timeout,
            calls_per_hour: None,
            hard_links: HardLinks::Refuse,
            max_output_bytes: self.max_output_bytes,
            cost_per_call: self.cost_per_call,
            result_cache: self.result_cache.clone(),
            commands: CommandRules::allow_all(),
            program_folders: self.program_folders.clone(),
            hosts: None,
            confinement: self.confinement,
            examples: self.examples.clone(),
            shadow: Some(Box::new(self)),
        }
    }
}

impl ToolRules {
    /// Returns the rules without their lists of allowed paths, commands and hosts, which move to `shadow`. Everything
    /// else stays in force. Rules that are in shadow mode already are returned as they are.
    pub(crate) fn without_allowlists(&self) -> Self {
        if self.shadow.is_some() {
            return self.clone();
        }
        ToolRules {
            allowed_paths: None,
            commands: self.commands.without_allowlist(),
            hosts: None,
            // A result that was read by other rules is not reused.
            result_cache: None,
            shadow: Some(Box::new(self.clone())),
            ..self.clone()
        }
    }
}

/// Checks the time for which results are reused.
fn check_result_cache(
    entry: &ToolEntry,
    id: &str,
    inspection: &mut FileInspection<'_>,
) -> Option<ResultCacheRule> {
    let stated = entry.cache_seconds.as_ref()?;
    let ttl = check_timeout(&entry.cache_seconds, "cache_seconds", inspection)?;
    Some(ResultCacheRule { ttl, scope: entry.cache_scope, rule: inspection.rule_ref(stated, id) })
}

/// Checks that a cost is finite and not negative.
fn check_cost(stated: &Option<Located<f64>>, inspection: &mut FileInspection<'_>) -> f64 {
    let Some(stated) = stated else { return 0.0 };
    if stated.value.is_finite() && stated.value >= 0.0 {
        return stated.value;
    }
    inspection.error(stated, "`cost_per_call` must be a number, 0 or more", None);
    0.0
}

fn limit_with_rule(
    number: &Option<Located<u32>>,
    id: &str,
    inspection: &FileInspection<'_>,
) -> Option<(u32, RuleRef)> {
    number.as_ref().map(|number| (number.value, inspection.rule_ref(number, id)))
}

fn rule_if_true(flag: &Option<Located<bool>>, id: &str, inspection: &FileInspection<'_>) -> Option<RuleRef> {
    flag.as_ref().filter(|flag| flag.value).map(|flag| inspection.rule_ref(flag, id))
}

/// Checks that a timeout is at most one day.
pub(crate) fn check_timeout(
    seconds: &Option<Located<u64>>,
    key: &str,
    inspection: &mut FileInspection<'_>,
) -> Option<Duration> {
    let seconds = seconds.as_ref()?;
    if !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds.value) {
        let message = format!("`{key}` is {}: it must be between 1 and {MAX_TIMEOUT_SECONDS}", seconds.value);
        inspection.error(seconds, &message, None);
    }
    Some(Duration::from_secs(seconds.value))
}

/// Returns the rule that requires a sandbox. `min_isolation` requires one too, unless `requires_sandbox:
/// false` is set.
fn sandbox_rule(
    entry: &ToolEntry,
    id: &impl Fn(&str) -> String,
    inspection: &FileInspection<'_>,
) -> Option<RuleRef> {
    match (&entry.requires_sandbox, &entry.min_isolation) {
        (Some(flag), _) => flag.value.then(|| inspection.rule_ref(flag, id("requires_sandbox"))),
        (None, Some(level)) => Some(inspection.rule_ref(level, id("min_isolation"))),
        (None, None) => None,
    }
}

fn warn_about_overlap(
    key: &Located<String>,
    allowed: &Option<ModeList>,
    forbidden: &[(Mode, RuleRef)],
    inspection: &mut FileInspection<'_>,
) {
    let modes = allowed.iter().flat_map(|list| &list.modes).map(|(mode, _)| mode);
    for mode in modes.filter(|mode| forbidden.iter().any(|(other, _)| other == *mode)) {
        let message = format!("`{}` is both allowed and forbidden in {mode}; forbidden wins", key.value);
        inspection.warn(key, &message, None);
    }
}
