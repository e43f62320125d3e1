//! Generated policies and calls as plain data, and the tools of the differential test.

use tool::Mode;

/// Properties of a tool's definition, for the tools of the differential test.
pub(in super::super) struct ToolTraits {
    pub(in super::super) name: &'static str,
    pub(in super::super) category: &'static str,
    pub(in super::super) risk: u8, // 1 low, 2 medium, 3 high
    pub(in super::super) writes: bool,
    pub(in super::super) is_outbound: bool,
    pub(in super::super) takes_commands: bool,
}

pub(in super::super) const TOOLS: [ToolTraits; 7] = [
    tool_traits("read_file", "read_only", 1, false, false, false),
    tool_traits("read_many", "read_only", 1, false, false, false),
    tool_traits("write_file", "system_write", 3, true, false, false),
    tool_traits("copy_file", "system_write", 2, true, false, false),
    tool_traits("run", "system_write", 2, false, false, true),
    tool_traits("fetch", "network", 2, false, true, false),
    tool_traits("confined", "read_only", 1, false, false, false),
];

const fn tool_traits(
    name: &'static str,
    category: &'static str,
    risk: u8,
    writes: bool,
    goes_out: bool,
    takes_commands: bool,
) -> ToolTraits {
    ToolTraits { name, category, risk, writes, is_outbound: goes_out, takes_commands }
}

/// Generated policy.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct PolicyPlan {
    pub(in super::super) folds_case: bool,
    pub(in super::super) modes: Vec<ModePlan>, // in the order of Mode::ALL
    pub(in super::super) categories: Vec<(&'static str, Option<u8>, Vec<Mode>)>,
    pub(in super::super) approvals: Vec<(Option<u8>, Option<&'static str>, Vec<Mode>)>,
    pub(in super::super) tools: Vec<(&'static str, ToolPlan)>,
    pub(in super::super) allowed_domains: Vec<&'static str>,
    pub(in super::super) blocked_domains: Vec<&'static str>,
    pub(in super::super) allows_private: bool,
    pub(in super::super) approval_for_hosts: bool,
}

#[derive(Clone, Debug, Default)]
pub(in super::super) struct ModePlan {
    pub(in super::super) allows_no_tasks: bool,
    pub(in super::super) categories: Vec<&'static str>,
    pub(in super::super) approvals: Vec<&'static str>,
    pub(in super::super) per_minute: Option<u32>,
    pub(in super::super) outbound_per_hour: u32,
}

#[derive(Clone, Debug, Default)]
pub(in super::super) struct ToolPlan {
    pub(in super::super) category: Option<&'static str>,
    pub(in super::super) allowed: Option<Vec<Mode>>,
    pub(in super::super) approval: Vec<Mode>,
    pub(in super::super) forbidden: Vec<Mode>,
    pub(in super::super) allowed_paths: Option<Vec<&'static str>>,
    pub(in super::super) forbidden_paths: Vec<&'static str>,
    pub(in super::super) unattended: Vec<&'static str>,
    pub(in super::super) max_mb: Option<u32>,
    pub(in super::super) requires_approval: bool,
    pub(in super::super) sandbox: bool,
    pub(in super::super) per_hour: Option<u32>,
    pub(in super::super) allows_hard_links: bool,
    pub(in super::super) allowed_commands: Option<Vec<&'static [&'static str]>>,
    pub(in super::super) forbidden_commands: Vec<&'static [&'static str]>,
    pub(in super::super) domains: Option<Vec<&'static str>>,
    pub(in super::super) shadow: bool,
}

/// Path of a call: as typed, its target, and the file there.
#[derive(Clone, Debug)]
pub(in super::super) struct PathPlan {
    pub(in super::super) typed: &'static str,
    pub(in super::super) target: &'static str,
    pub(in super::super) writes: bool,
    pub(in super::super) file: Option<(u64, u64)>, // size and number of names
    pub(in super::super) other_name: Option<&'static str>, // if the file has several and one was found
    pub(in super::super) missing_folders: usize, // number of folders directly above it that would be created
}

/// URL, and its host and zone if it is usable, or the code of its refusal.
pub(in super::super) type UrlCase = (&'static str, Result<(&'static str, HostZone), &'static str>);

/// Network zone of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum HostZone {
    Public,
    Private,
    /// Blocked regardless of policy.
    AlwaysBlocked,
}

/// Generated call.
#[derive(Clone, Debug)]
pub(in super::super) struct CallPlan {
    pub(in super::super) tool: usize,
    pub(in super::super) paths: Vec<PathPlan>,
    pub(in super::super) content: Option<usize>,
    pub(in super::super) words: Option<&'static [&'static str]>,
    pub(in super::super) line: Option<&'static str>,
    pub(in super::super) url: Option<UrlCase>,
    pub(in super::super) workspaces: &'static [(&'static str, bool)], // root, and whether it is writable
}
