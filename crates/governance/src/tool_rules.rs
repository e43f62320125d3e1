//! What `tools.yaml` means: the checked rules of one tool and of one category.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use document::Located;
use tool::{Category, Mode, RiskLevel, RuleRef};

use crate::command_rules::CommandRules;
use crate::example::{self, Example};
use crate::glob::{PathGlobs, Purpose};
use crate::host_rules::{HostList, HostRule};
use crate::mode_rules;
use crate::path_list::{self, EveryPath, PathList};
use crate::problems::Inspection;
use crate::surroundings::Surroundings;
use crate::tools_file::{CategoryEntry, HardLinks, Isolation, Network, ToolEntry};

const LONGEST_TIMEOUT: u64 = 24 * 60 * 60;
/// What a confined process may use where no rule says otherwise.
const USUAL_MEMORY_MB: u32 = 2048;
const USUAL_PROCESSES: u32 = 256;
/// What sizes in the files count.
pub(crate) const MEBIBYTE: u64 = 1024 * 1024;

/// The rules of a category.
#[derive(Clone, Debug, Default)]
pub(crate) struct CategoryRules {
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) approval_modes: Vec<(Mode, RuleRef)>,
    pub(crate) way_out: WayOut,
}

/// Whether the tools of a category leave the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WayOut {
    #[default]
    None,
    Gateway,
}

/// What a confined process may use, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The least walls it may run in.
    pub least: Isolation,
    /// What it reaches.
    pub network: Network,
    /// Its memory, in units of 1,048,576 bytes.
    pub memory_mb: Option<u32>,
    /// How many processes it may have.
    pub max_processes: Option<u32>,
    /// How much processor time it may use.
    pub cpu_seconds: Option<u32>,
}

impl Default for Confinement {
    fn default() -> Self {
        Confinement {
            least: Isolation::Full,
            network: Network::Off,
            memory_mb: None,
            max_processes: None,
            cpu_seconds: None,
        }
    }
}

impl Confinement {
    /// Its memory as it holds, in units of 1,048,576 bytes. With less than 16 nothing starts.
    pub fn memory_mebibytes(&self) -> u32 {
        self.memory_mb.unwrap_or(USUAL_MEMORY_MB).max(16)
    }

    /// How many processes it may have, as it holds: at least itself.
    pub fn processes(&self) -> u32 {
        self.max_processes.unwrap_or(USUAL_PROCESSES).max(1)
    }
}

/// The rules of a tool.
#[derive(Debug)]
pub(crate) struct ToolRules {
    pub(crate) category: Option<Category>,
    pub(crate) allowed_modes: Option<ModeList>,
    pub(crate) approval_modes: Vec<(Mode, RuleRef)>,
    pub(crate) forbidden_modes: Vec<(Mode, RuleRef)>,
    pub(crate) allowed_paths: Option<PathList>,
    pub(crate) forbidden_paths: Arc<PathGlobs>,
    pub(crate) max_file_bytes: Option<(u64, RuleRef)>,
    pub(crate) approval: Option<RuleRef>,
    /// Where what this file asks a human about is not asked.
    pub(crate) unattended: Arc<PathGlobs>,
    pub(crate) sandbox: Option<RuleRef>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) rate: Option<(u32, RuleRef)>,
    pub(crate) hard_links: HardLinks,
    pub(crate) max_output_bytes: Option<u64>,
    /// What one call costs a worker session.
    pub(crate) cost: f64,
    pub(crate) commands: CommandRules,
    pub(crate) program_folders: Vec<(PathBuf, RuleRef)>,
    pub(crate) hosts: Option<Arc<HostList>>,
    pub(crate) confinement: Confinement,
    /// The rules as they are written, where they are only to be recorded. The others then hold nothing that denies.
    pub(crate) shadow: Option<Box<ToolRules>>,
    pub(crate) examples: Vec<Example>,
}

/// A list of modes and the line it stands on, for modes that are not in it.
#[derive(Clone, Debug)]
pub(crate) struct ModeList {
    pub(crate) modes: Vec<(Mode, RuleRef)>,
    pub(crate) rule: RuleRef,
}

pub(crate) fn check_category(
    name: &str,
    entry: &CategoryEntry,
    inspection: &mut Inspection<'_>,
) -> CategoryRules {
    let id = format!("tool_categories.{name}.requires_approval_in_modes");
    let approval_modes = inspection.modes(&entry.requires_approval_in_modes, &id);
    let way_out = if entry.requires_outbound_gateway { WayOut::Gateway } else { WayOut::None };
    CategoryRules { risk: entry.risk_level, approval_modes, way_out }
}

/// Checks one tool's entry. `None` where a list could not be compiled, which has been reported.
pub(crate) fn check_tool(
    key: &Located<String>,
    entry: &ToolEntry,
    known: &[Category],
    around: &Surroundings,
    inspection: &mut Inspection<'_>,
) -> Option<ToolRules> {
    let id = |what: &str| format!("{}.{what}", key.value);
    let unattended = path_list::compile(
        &entry.unattended_paths,
        Purpose::Allow,
        &id("unattended_paths"),
        around,
        inspection,
    );
    let allowed_modes = entry.allowed_in_modes.as_ref().map(|list| ModeList {
        modes: inspection.modes(&list.value, &id("allowed_in_modes")),
        rule: inspection.rule(list, id("allowed_in_modes")),
    });
    let approval_modes =
        inspection.modes(&entry.requires_approval_in_modes, &id("requires_approval_in_modes"));
    let forbidden_modes = inspection.modes(&entry.forbidden_in_modes, &id("forbidden_in_modes"));
    warn_of_overlap(key, &allowed_modes, &forbidden_modes, inspection);
    let forbidden_paths = path_list::compile(
        &entry.forbidden_paths,
        Purpose::Forbid,
        &id("forbidden_paths"),
        around,
        inspection,
    );
    let every_path = if entry.allow_every_path { EveryPath::Meant } else { EveryPath::Refused };
    let allowed_paths = entry.allowed_paths.as_ref();
    let allowed_paths = allowed_paths
        .map(|list| PathList::compile(list, (&id("allowed_paths"), every_path), around, inspection));
    let (allowed, forbidden) = (entry.allowed_commands.as_ref(), entry.forbidden_commands.as_ref());
    let rules = ToolRules {
        category: entry.category.as_ref().and_then(|word| mode_rules::category(word, known, inspection)),
        allowed_modes,
        approval_modes,
        forbidden_modes,
        allowed_paths: match allowed_paths {
            Some(list) => Some(list?),
            None => None,
        },
        forbidden_paths: Arc::new(forbidden_paths?),
        max_file_bytes: numbered(&entry.max_file_size_mb, &id("max_file_size_mb"), inspection)
            .map(|(mebibytes, rule)| (u64::from(mebibytes) * MEBIBYTE, rule)),
        unattended: Arc::new(unattended?),
        approval: when_true(&entry.requires_approval, &id("requires_approval"), inspection),
        sandbox: sandbox(entry, &id, inspection),
        timeout: timeout(&entry.timeout_seconds, "timeout_seconds", inspection),
        rate: numbered(&entry.rate_limit_per_hour, &id("rate_limit_per_hour"), inspection),
        hard_links: entry.hard_links,
        max_output_bytes: entry.max_output_bytes.as_ref().map(|number| number.value),
        cost: cost(&entry.cost_per_call, inspection),
        commands: CommandRules::compile(allowed, forbidden, &key.value, around.names, inspection),
        program_folders: path_list::folders(
            &entry.program_folders,
            &id("program_folders"),
            around,
            inspection,
        ),
        hosts: entry.allowed_domains.as_ref().map(|list| {
            let hosts = HostRule::compile(list, &id("allowed_domains"), inspection);
            Arc::new(HostList { hosts, rule: inspection.rule(list, id("allowed_domains")) })
        }),
        confinement: Confinement {
            least: entry.min_isolation.as_ref().map_or(Isolation::Full, |level| level.value),
            network: entry.network.unwrap_or(Network::Off),
            memory_mb: entry.memory_mb,
            max_processes: entry.max_processes,
            cpu_seconds: entry.cpu_seconds,
        },
        shadow: None,
        examples: example::read(&entry.examples, &around.variables, inspection),
    };
    Some(match &entry.shadow {
        Some(flag) if flag.value => {
            inspection.warn(
                flag,
                "its rules are recorded and not enforced",
                Some("remove it to enforce them".to_owned()),
            );
            rules.in_shadow()
        }
        _ => rules,
    })
}

impl ToolRules {
    /// Rules that only record: what would deny by mode, path, command, host or rate is kept aside. What holds a tool in
    /// walls, or to one name a file, remains.
    fn in_shadow(self) -> Self {
        ToolRules {
            category: self.category.clone(),
            allowed_modes: None,
            approval_modes: self.approval_modes.clone(),
            forbidden_modes: Vec::new(),
            allowed_paths: None,
            forbidden_paths: Arc::new(PathGlobs::none()),
            max_file_bytes: None,
            approval: self.approval.clone(),
            unattended: Arc::clone(&self.unattended),
            sandbox: self.sandbox.clone(),
            timeout: self.timeout,
            rate: None,
            hard_links: HardLinks::Refuse,
            max_output_bytes: self.max_output_bytes,
            cost: self.cost,
            commands: CommandRules::any(),
            program_folders: self.program_folders.clone(),
            hosts: None,
            confinement: self.confinement,
            examples: self.examples.clone(),
            shadow: Some(Box::new(self)),
        }
    }
}

/// A price that can be added up.
fn cost(stated: &Option<Located<f64>>, inspection: &mut Inspection<'_>) -> f64 {
    let Some(stated) = stated else { return 0.0 };
    if stated.value.is_finite() && stated.value >= 0.0 {
        return stated.value;
    }
    inspection.error(stated, "`cost_per_call` must be a number, 0 or more", None);
    0.0
}

fn numbered(number: &Option<Located<u32>>, id: &str, inspection: &Inspection<'_>) -> Option<(u32, RuleRef)> {
    number.as_ref().map(|number| (number.value, inspection.rule(number, id)))
}

fn when_true(flag: &Option<Located<bool>>, id: &str, inspection: &Inspection<'_>) -> Option<RuleRef> {
    flag.as_ref().filter(|flag| flag.value).map(|flag| inspection.rule(flag, id))
}

/// A timeout within a day.
pub(crate) fn timeout(
    seconds: &Option<Located<u64>>,
    key: &str,
    inspection: &mut Inspection<'_>,
) -> Option<Duration> {
    let seconds = seconds.as_ref()?;
    if !(1..=LONGEST_TIMEOUT).contains(&seconds.value) {
        let message = format!("`{key}` is {}: it must be between 1 and {LONGEST_TIMEOUT}", seconds.value);
        inspection.error(seconds, &message, None);
    }
    Some(Duration::from_secs(seconds.value))
}

/// A demand for isolation is a demand for a sandbox, unless the file says that there need be none.
fn sandbox(entry: &ToolEntry, id: &impl Fn(&str) -> String, inspection: &Inspection<'_>) -> Option<RuleRef> {
    match (&entry.requires_sandbox, &entry.min_isolation) {
        (Some(flag), _) => flag.value.then(|| inspection.rule(flag, id("requires_sandbox"))),
        (None, Some(level)) => Some(inspection.rule(level, id("min_isolation"))),
        (None, None) => None,
    }
}

fn warn_of_overlap(
    key: &Located<String>,
    allowed: &Option<ModeList>,
    forbidden: &[(Mode, RuleRef)],
    inspection: &mut Inspection<'_>,
) {
    let modes = allowed.iter().flat_map(|list| &list.modes).map(|(mode, _)| mode);
    for mode in modes.filter(|mode| forbidden.iter().any(|(other, _)| other == *mode)) {
        let message = format!("`{}` is both allowed and forbidden in {mode}; forbidden wins", key.value);
        inspection.warn(key, &message, None);
    }
}
