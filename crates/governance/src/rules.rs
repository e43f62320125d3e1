//! Compiled rules of a policy, for crates that inspect policies. Nothing here permits a call or changes a
//! loaded policy.

pub use crate::command_rules::{CommandList, CommandRule, CommandRules};
pub use crate::common_paths::{COMMON, own_part};
pub use crate::example::{Example, expanded};
pub use crate::glob::{PathGlobs, Purpose, Written};
pub use crate::host_rules::{Gateway, HostList, HostPattern, HostRule, Private};
pub use crate::mode_rules::{ApprovalFor, ModeRules, PerMode};
pub use crate::path_list::PathList;
pub use crate::pattern::{BadPattern, Pattern};
pub use crate::remedy::quoted;
pub use crate::safety_rules::{ApprovalRule, SafetyRules};
pub use crate::standing::{Access, Attendance, Standing};
pub use crate::tool_rules::{ModeList, ToolRules};
