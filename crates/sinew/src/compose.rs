//! Composition root: builds the configuration snapshot, the ledger and the execution layer, for the daemon
//! and for a call without one.

mod trial;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use connectors::Taking;
use execution::{Host, Parts, ToolExecutionLayer, World};
use file_access::{UndoLimits, UndoStore};
use governance::{
    FileNames, Isolation, Policy, Protected, Surroundings, Variables, Workspace, WorkspaceAccess, Workspaces,
};
use guardrail::{Curated, Known};
use ledger::{Ledger, Options, Recovery};
use registry::ToolRegistry;
use sandbox::Sandbox;
use server::{LedgerSettings, Settings, UndoSettings};
use tool::{SandboxTier, ToolDefinition};
use toolbox::Internals;

use crate::exit::Problem;
use crate::host_table::{self, Scrutiny};
use crate::internals;
use crate::manifests;
use crate::own_folders;
use crate::setting::Setting;
use crate::terminal::{NOTE, paint, tell};

pub(crate) use trial::trial;
pub(crate) use web::web;

/// Workspaces of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folders {
    /// Workspaces of the settings.
    Configured,
    /// Workspaces of the settings, and the current folder read-only, so that a first call needs no
    /// configuration.
    AndThisOne,
}

/// Builds the configuration snapshot: tools, policy, curated map and workspaces.
pub(crate) fn world(setting: &Setting, settings: &Settings, folders: Folders) -> Result<World, Problem> {
    configured(setting, settings, folders, Scrutiny::Whole, isolation, Taking::Accepted)
}

/// Like `config_snapshot` for a daemon, with a choice of the tool definitions of MCP servers.
pub(crate) fn world_taking(setting: &Setting, settings: &Settings, taking: Taking) -> Result<World, Problem> {
    configured(setting, settings, Folders::Configured, Scrutiny::Whole, isolation, taking)
}

/// Builds a snapshot. `machine` detects the available isolation: detection takes time, and a caller that runs
/// nothing passes a constant.
fn configured(
    setting: &Setting,
    settings: &Settings,
    folders: Folders,
    scrutiny: Scrutiny,
    machine: fn() -> Option<Isolation>,
    taking: Taking,
) -> Result<World, Problem> {
    Sandbox::of_this_process().keep_outputs_in(&setting.home().state().join("output"));
    Sandbox::of_this_process().note_runs_in(&setting.home().state().join("runs"));
    let (registry, policy) = std::thread::scope(|scope| {
        // These three are independent, and detecting the isolation is mostly waiting.
        let machine = scope.spawn(machine);
        let policy = scope.spawn(|| policy(setting, || joined(machine)));
        let registry = tools(setting, settings, scrutiny, taking);
        (registry, joined(policy))
    });
    let (registry, policy) = (registry?, policy?);
    let (folder, home) = (setting.home().config().join("hosts"), setting.home().user_home());
    let hosts = host_table::load_with(&folder, home, scrutiny)?;
    check_policy(&policy, &registry, &hosts)?;
    let curated = curated(setting, &registry)?;
    let mut list = Vec::new();
    for configured in &settings.workspaces {
        let workspace =
            Workspace::at(&configured.path, access(configured.access)).map_err(|error| error.to_string());
        let apart = |workspace: Workspace| {
            own_folders::refuse(setting.home(), workspace.root(), configured.access).map(|()| workspace)
        };
        let workspace = workspace.and_then(apart).map_err(|error| {
            let (file, line) = (setting.home().settings_file(), configured.line);
            let (file, path) = (file.display(), configured.path.display());
            Problem::configuration(format!("{file}:{line}: the workspace `{path}` cannot be used: {error}"))
                .hint(format!("sinew workspace remove '{path}'"))
        })?;
        list.push(workspace);
    }
    if folders == Folders::AndThisOne {
        let here = Workspace::at(setting.folder(), WorkspaceAccess::ReadOnly).ok();
        let is_new =
            |here: &Workspace| !list.iter().any(|known: &Workspace| here.root().starts_with(known.root()));
        list.extend(here.filter(is_new));
    }
    let workspaces = Workspaces::new(list);
    let policy = policy.for_tools(registry.definitions().map(AsRef::as_ref));
    policy.check_program_folders(&workspaces).map_err(Problem::configuration)?;
    let keys = manifests::told_keys(settings);
    Ok(World { registry, policy, curated, workspaces, hosts, keys })
}

/// Joins a thread and propagates its panic.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Converts the workspace access of the settings into that of the policy.
pub(crate) fn access(configured: server::WorkspaceAccess) -> WorkspaceAccess {
    match configured {
        server::WorkspaceAccess::ReadOnly => WorkspaceAccess::ReadOnly,
        server::WorkspaceAccess::ReadWrite => WorkspaceAccess::ReadWrite,
    }
}

/// Returns the sandbox isolation that this machine supports.
pub(crate) fn isolation() -> Option<Isolation> {
    match Sandbox::of_this_process().availability().tier {
        SandboxTier::Full => Some(Isolation::Full),
        SandboxTier::Reduced => Some(Isolation::Reduced),
        SandboxTier::None => None,
    }
}

/// Registers the built-in tools and those of manifests.
fn tools(
    setting: &Setting,
    settings: &Settings,
    scrutiny: Scrutiny,
    taking: Taking,
) -> Result<ToolRegistry, Problem> {
    let mut registry = ToolRegistry::new();
    let (sandbox, internals) = (Sandbox::of_this_process(), Internals::of_this_process());
    let web = web(settings)?;
    toolbox::register(&mut registry, sandbox, internals, web, &undo(setting, settings))
        .map_err(Problem::failed)?;
    // A hook judges only the host's tools and must be fast, so manifests are not loaded.
    if scrutiny == Scrutiny::Whole {
        manifests::register((setting, settings), web.gatekeeper(), taking, &mut registry)?;
    }
    Ok(registry)
}

/// Loads the policy files written by `sinew init`, else the built-in ones.
fn policy(setting: &Setting, machine: impl FnOnce() -> Option<Isolation>) -> Result<Policy, Problem> {
    let surroundings = surroundings(setting);
    let loaded = match written_out(setting)? {
        Some(folder) => Policy::load(&folder, &surroundings),
        None => Policy::embedded(&surroundings),
    };
    // Before the examples are run: without isolation, a call that requires it must be refused in them too.
    Ok(loaded.map_err(Problem::configuration)?.on_machine_with(machine()))
}

/// Checks a policy against the registered tools and runs its examples.
fn check_policy(policy: &Policy, registry: &ToolRegistry, hosts: &[Host]) -> Result<(), Problem> {
    let judged = hosts.iter().flat_map(Host::definitions);
    let definitions: Vec<&ToolDefinition> = registry.definitions().chain(judged).map(AsRef::as_ref).collect();
    let warnings = policy.check_tools(definitions).map_err(Problem::configuration)?;
    for warning in policy.warnings().iter().chain(&warnings) {
        tell(paint(NOTE, format!("warning: {warning}")));
    }
    Ok(())
}

/// Returns the environment in which policy files are read.
pub(crate) fn surroundings(setting: &Setting) -> Surroundings {
    Surroundings {
        variables: Variables::from_environment(environment()),
        protected: Protected { folders: setting.home().folders().map(ToOwned::to_owned).to_vec() },
        names: FileNames::of_this_system(),
    }
}

/// Loads the curated map beside the policy files, else the built-in one.
fn curated(setting: &Setting, registry: &ToolRegistry) -> Result<Curated, Problem> {
    let loaded = match written_out(setting)? {
        Some(folder) => Curated::load(&folder),
        None => Curated::embedded(),
    };
    let curated = loaded.map_err(Problem::configuration)?;
    let tools = registry.definitions().filter_map(|definition| registry.get(definition.name().as_str()));
    let known = tools.map(|tool| Known { definition: tool.definition(), schema: tool.schema() });
    for warning in curated.check_tools(known).map_err(Problem::configuration)? {
        tell(paint(NOTE, format!("warning: {warning}")));
    }
    Ok(curated)
}

/// Returns the folder of the policy files once `sinew init` has written it. From then on all files must
/// exist.
pub(crate) fn written_out(setting: &Setting) -> Result<Option<PathBuf>, Problem> {
    let folder = setting.home().config().join("governance");
    let written = is_there(&folder)? || is_there(&setting.home().settings_file())?;
    Ok(written.then_some(folder))
}

/// Returns true if the path exists. A dangling symbolic link exists, and an unreadable path is an error:
/// neither may be mistaken for a policy that was never written.
pub(crate) fn is_there(path: &Path) -> Result<bool, Problem> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Problem::configuration(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Returns the environment variables. Those that are not Unicode are skipped: they cannot occur in a YAML
/// file.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Builds the snapshot of a hook without a daemon. The host's working directory is its own claim and grants
/// nothing.
pub(crate) fn hook_world(setting: &Setting) -> Result<(Settings, World), Problem> {
    let settings = setting.settings()?;
    // Isolation was not detected, so policy examples that require it must not fail.
    let full = || Some(Isolation::Full);
    let world =
        configured(setting, &settings, Folders::Configured, Scrutiny::AsNeeded, full, Taking::Accepted)?;
    let policy = world.policy.on_machine_with(None);
    Ok((settings, World { policy, ..world }))
}

/// Inspects the ledger without opening it for writing.
pub(crate) fn look_at_ledger(setting: &Setting) -> Result<Recovery, Problem> {
    Ledger::look(&ledger_folder(setting), &ledger_parts(setting)).map_err(Problem::configuration)
}

/// Builds the execution layer of a call without a daemon.
pub(crate) fn embedded_layer(setting: &Setting) -> Result<Arc<ToolExecutionLayer>, Problem> {
    let settings = setting.settings()?;
    let layer = layer(setting, &settings, world(setting, &settings, Folders::AndThisOne)?)?;
    settle(setting, &settings)?;
    Ok(layer)
}

/// Opens the undo store, which holds the content that calls replaced or removed.
pub(crate) fn undo(setting: &Setting, settings: &Settings) -> Arc<UndoStore> {
    let UndoSettings { keep_bytes, keep_for } = settings.undo;
    UndoStore::at(&setting.home().state().join("undo"), UndoLimits { keep_bytes, keep_for })
}

/// Completes changes and cleans up runs that a crash interrupted. Safe because the holder of the ledger is
/// the only process that makes changes.
pub(crate) fn settle(setting: &Setting, settings: &Settings) -> Result<(), Problem> {
    Sandbox::of_this_process().finish_runs().map_err(|error| {
        let folder = setting.home().state().join("runs");
        Problem::configuration(format!("{} cannot be used: {error}", folder.display()))
    })?;
    let settled = undo(setting, settings).settle().map_err(|error| {
        let folder = setting.home().state().join("undo");
        Problem::configuration(format!("{} cannot be used: {error}", folder.display()))
    })?;
    for path in &settled.done {
        tracing::warn!(path = %path.display(), "a change was interrupted after it was applied");
    }
    for path in &settled.undone {
        tracing::warn!(path = %path.display(), "a change was interrupted before it was applied");
    }
    for path in &settled.waiting {
        tracing::warn!(path = %path.display(), "an interrupted change cannot be checked now; the next start retries");
    }
    Ok(())
}

/// Returns the folder of the ledger.
pub(crate) fn ledger_folder(setting: &Setting) -> PathBuf {
    setting.home().state().join("ledger")
}

/// Returns the paths of the ledger's key and second anchor. They are outside its folder, so that a folder
/// that was rolled back or removed is detected.
pub(crate) fn ledger_parts(setting: &Setting) -> Options {
    let state = setting.home().state();
    Options::default().with_key_file(state.join("ledger.key")).with_witness(state.join("anchor"))
}

/// Returns the ledger options. There is always a size limit, so that a caller cannot fill the disk.
fn ledger_options(setting: &Setting, settings: &LedgerSettings) -> Options {
    let when_unavailable = match settings.when_unavailable {
        server::WhenUnavailable::Refuse => ledger::WhenUnavailable::Refuse,
        server::WhenUnavailable::AllowReads => ledger::WhenUnavailable::AllowReads,
    };
    let options =
        ledger_parts(setting).with_keep_bytes(settings.keep_bytes).with_when_unavailable(when_unavailable);
    let options = options.with_minimum_age(settings.keep_at_least, settings.max_bytes);
    match settings.keep_for {
        Some(age) => options.with_keep_for(age),
        None => options,
    }
}

/// Opens the ledger for writing.
pub(crate) fn open_ledger(
    setting: &Setting,
    settings: &Settings,
) -> Result<(Arc<Ledger>, Recovery), Problem> {
    let opened = Ledger::open(&ledger_folder(setting), &ledger_options(setting, &settings.ledger));
    opened.map_err(Problem::configuration)
}

/// Opens the ledger and builds the execution layer on it.
pub(crate) fn layer(
    setting: &Setting,
    settings: &Settings,
    world: World,
) -> Result<Arc<ToolExecutionLayer>, Problem> {
    layer_on(setting, open_ledger(setting, settings)?, world)
}

/// Builds the execution layer on an open ledger.
pub(crate) fn layer_on(
    setting: &Setting,
    (ledger, recovery): (Arc<Ledger>, Recovery),
    world: World,
) -> Result<Arc<ToolExecutionLayer>, Problem> {
    let (state, undo) = (setting.home().state().to_owned(), undo(setting, &setting.settings()?));
    setting.keeper().seal_with(&ledger);
    let parts = Parts { world, ledger, recovery, state, undo };
    let layer = ToolExecutionLayer::new(parts).map_err(Problem::configuration)?;
    internals::tell_of(&layer, setting.home().state());
    internals::lead_to(&layer, setting.road());
    Ok(layer)
}
