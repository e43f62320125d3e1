//! Execution layer for testing tools: the policy of this home, an empty workspace and a temporary ledger. It
//! changes nothing in the home, and a daemon may run at the same time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use execution::{Parts, ToolExecutionLayer, World};
use file_access::{UndoLimits, UndoStore};
use governance::{Workspace, WorkspaceAccess, Workspaces};
use ledger::{Ledger, Options};
use registry::ToolRegistry;
use sandbox::Sandbox;

use crate::exit::Problem;
use crate::host_table;
use crate::setting::Setting;

/// Builds the layer with these tools in an existing empty private folder.
pub(crate) fn trial(
    setting: &Setting,
    registry: ToolRegistry,
    folder: &Path,
) -> Result<Arc<ToolExecutionLayer>, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::failed(error);
    let (state, work) = (folder.join("state"), folder.join("work"));
    for folder in [&state, &work] {
        std::fs::create_dir(folder).map_err(|error| failed(&error))?;
    }
    let work = work.canonicalize().and_then(|work| Workspace::at(&work, WorkspaceAccess::ReadOnly));
    let workspaces = Workspaces::new(vec![work.map_err(|error| failed(&error))?]);
    let home = setting.home();
    let hosts = host_table::load(&home.config().join("hosts"), home.user_home())?;
    let policy = super::policy(setting, super::isolation)?;
    let policy = policy.for_tools(registry.definitions().map(AsRef::as_ref));
    super::check_policy(&policy, &registry, &hosts)?;
    let curated = super::curated(setting, &registry)?;
    Sandbox::of_this_process().keep_outputs_in(&state.join("output"));
    Sandbox::of_this_process().note_runs_in(&state.join("runs"));
    let (ledger, recovery) =
        Ledger::open(&state.join("ledger"), &Options::default()).map_err(|error| failed(&error))?;
    let nothing = UndoLimits { keep_bytes: 0, keep_for: Duration::ZERO };
    let undo = UndoStore::at(&state.join("undo"), nothing);
    // This snapshot is never replaced, so its keys are never compared.
    let keys = BTreeMap::new();
    let world = World { registry, policy, curated, workspaces, hosts, keys };
    ToolExecutionLayer::new(Parts { world, ledger, recovery, state, undo }).map_err(Problem::configuration)
}
