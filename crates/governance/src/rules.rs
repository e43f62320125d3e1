//! Compiled rules of a policy, for crates that inspect policies. Nothing here permits a call or changes a
//! loaded policy.

pub use crate::command_rules::{CommandList, CommandRule, CommandRules, EXACT_SUFFIX};
pub use crate::common_paths::{COMMON, own_part};
pub use crate::effective_policy::{Access, EffectivePolicy, ToolApprovals};
pub use crate::example::{PolicyExample, expand_variables};
pub use crate::glob::{ListPurpose, ListedPattern, PathGlobs};
pub use crate::host_rules::{GatewayRules, HostList, HostPattern, HostRule, PrivateAddressRule};
pub use crate::mode_rules::{ApprovalScope, ModeRules, PerMode};
pub use crate::name_lists::{ListPosition, NameLists, NameRelevance, SearchedPattern};
pub use crate::path_list::PathList;
pub use crate::pattern::{PathPattern, PatternError};
pub use crate::policy_queries::SecretRule;
pub use crate::project::UnknownToolNames;
pub use crate::read_only_programs::{READ_ONLY_PROGRAMS, is_read_only_program};
pub use crate::safety_rules::{ApprovalRule, SafetyRules};
pub use crate::suggested_change::quote_yaml;
pub use crate::tool_rules::{Confinement, ModeList, ResultCacheRule, ToolRules};
pub use crate::visibility_filter::VisibilityFilter;
