//! Execution layer for testing tools: the policy of this home, an empty workspace and a temporary ledger. It
//! changes nothing in the home, and a daemon may run at the same time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use execution::{ConfigSnapshot, LayerParts, ToolExecutionLayer};
use file_access::{UndoLimits, UndoStore};
use governance::suggested_change::{EditAction, PolicyEdit, PolicyFile};
use governance::{Workspace, WorkspaceAccess, Workspaces};
use ledger::{Ledger, LedgerOptions};
use registry::ToolRegistry;
use sandbox::Sandbox;

use crate::command_context::CommandContext;
use crate::exit::CommandError;
use crate::host_table;

/// Access of the tools under test.
#[derive(Clone, Copy)]
pub(crate) enum TestAccess<'a> {
    /// An empty read-only workspace.
    Nothing,
    /// The workspaces of the settings, read-only, and the network for this tool.
    Configured { network_for: Option<&'a str> },
}

/// Builds the layer with these tools in an existing empty private folder.
pub(crate) fn test_layer(
    context: &CommandContext,
    registry: ToolRegistry,
    folder: &Path,
    access: TestAccess<'_>,
) -> Result<Arc<ToolExecutionLayer>, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::failed(error);
    let (state, work) = (folder.join("state"), folder.join("work"));
    for folder in [&state, &work] {
        std::fs::create_dir(folder).map_err(|error| failed(&error))?;
    }
    let work = work.canonicalize().and_then(|work| Workspace::open(&work, WorkspaceAccess::ReadOnly));
    let mut workspaces = vec![work.map_err(|error| failed(&error))?];
    if let TestAccess::Configured { .. } = access {
        let configured = context.settings()?.workspaces;
        let opened = configured.iter().map(|one| Workspace::open(&one.path, WorkspaceAccess::ReadOnly));
        workspaces.extend(opened.filter_map(Result::ok));
    }
    let workspaces = Workspaces::new(workspaces);
    let home = context.home();
    let hosts = host_table::load(&home.config_dir().join("hosts"), home.user_home())?;
    let policy = match access {
        TestAccess::Configured { network_for: Some(tool) } => policy_with_network(context, tool)?,
        TestAccess::Configured { network_for: None } | TestAccess::Nothing => {
            super::load_policy(context, super::detect_isolation)?
        }
    };
    let policy = policy.with_write_grants(registry.all_versions().map(|tool| tool.definition().as_ref()));
    super::check_policy(&policy, &registry, &hosts)?;
    let curated = super::load_curated_map(context, &registry)?;
    Sandbox::of_this_process().set_output_dir(&state.join("output"));
    Sandbox::of_this_process().set_journal_dir(&state.join("runs"));
    let (ledger, recovery) =
        Ledger::open(&state.join("ledger"), &LedgerOptions::default()).map_err(|error| failed(&error))?;
    let nothing = UndoLimits { keep_bytes: 0, keep_for: Duration::ZERO };
    let undo = UndoStore::at(&state.join("undo"), nothing);
    // This snapshot is never replaced, so its keys are never compared.
    let keys = BTreeMap::new();
    let (curated, hosts) = (curated.into(), hosts.into());
    let config_snapshot =
        ConfigSnapshot { registry, policy, curated, workspaces, hosts, keys, problems: Vec::new() };
    ToolExecutionLayer::new(LayerParts {
        snapshot: config_snapshot,
        ledger,
        recovery,
        state_dir: state,
        undo,
        reserved_ports: super::web::reserved_ports(),
    })
    .map_err(CommandError::configuration)
}

/// Returns the policy with the network for one tool. The files of the home are not changed.
fn policy_with_network(context: &CommandContext, tool: &str) -> Result<governance::Policy, CommandError> {
    let policy = super::load_policy(context, super::detect_isolation)?;
    let edit = PolicyEdit {
        file: PolicyFile::Tools,
        keys: ["tools", tool, "network"].map(str::to_owned).to_vec(),
        action: EditAction::Set("full".to_owned()),
    };
    let changed = policy_tools::amended(&policy, &edit, &super::policy_environment(context));
    changed.map_err(CommandError::configuration)?.ok_or_else(|| {
        let message = "tools.yaml is written in a form in which the network cannot be granted for this step";
        CommandError::configuration(message)
    })
}
