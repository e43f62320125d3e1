//! Puts the parts together: the same world, ledger and layer for the daemon and for a call without one.

mod trial;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use connectors::Taking;
use execution::{Host, Parts, ToolExecutionLayer, World};
use governance::{
    FileNames, Isolation, Policy, Protected, Surroundings, Variables, Workspace, WorkspaceAccess, Workspaces,
};
use guardrail::{Curated, Known};
use ledger::{Ledger, Options, Recovery};
use registry::ToolRegistry;
use resources::{UndoLimits, UndoStore};
use sandbox::Sandbox;
use server::{LedgerSettings, Settings, UndoSettings};
use tool::{SandboxTier, ToolDefinition};
use toolbox::Internals;

use crate::exit::{Exit, Problem};
use crate::host_table::{self, Scrutiny};
use crate::internals;
use crate::manifests;
use crate::own_folders;
use crate::setting::Setting;
use crate::terminal::{NOTE, paint, tell};

pub(crate) use trial::trial;
pub(crate) use web::web;

/// Which folders a call may work in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folders {
    /// Those of the settings.
    Configured,
    /// Those, and the folder the command was typed in, read-only: a first call needs no set-up.
    AndThisOne,
}

/// Tools, policy, curated map and workspaces as the configuration has them, on this machine.
pub(crate) fn world(setting: &Setting, settings: &Settings, folders: Folders) -> Result<World, Problem> {
    configured(setting, settings, folders, Scrutiny::Whole, isolation, Taking::Accepted)
}

/// The same for a daemon, which may be about to ask what is to be taken of what servers say.
pub(crate) fn world_taking(setting: &Setting, settings: &Settings, taking: Taking) -> Result<World, Problem> {
    configured(setting, settings, Folders::Configured, Scrutiny::Whole, isolation, taking)
}

/// The same, with whoever says what the machine can do: finding out takes a moment, and where nothing is run nobody asks.
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
        // None needs another before all are there, and to find out what the machine can do is mostly waiting.
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

/// What a thread found. Its panic is ours.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What the settings let callers do in a workspace, as the policy speaks of it.
pub(crate) fn access(configured: server::WorkspaceAccess) -> WorkspaceAccess {
    match configured {
        server::WorkspaceAccess::ReadOnly => WorkspaceAccess::ReadOnly,
        server::WorkspaceAccess::ReadWrite => WorkspaceAccess::ReadWrite,
    }
}

/// The walls this machine can build, as the policy speaks of them.
pub(crate) fn isolation() -> Option<Isolation> {
    match Sandbox::of_this_process().availability().tier {
        SandboxTier::Full => Some(Isolation::Full),
        SandboxTier::Reduced => Some(Isolation::Reduced),
        SandboxTier::None => None,
    }
}

/// The tools of this program and those of manifests.
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
        .map_err(|error| Problem::new(Exit::Failed, error.to_string()))?;
    // A host's tools are judged without ours, and quickly.
    if scrutiny == Scrutiny::Whole {
        manifests::register((setting, settings), web.gatekeeper(), taking, &mut registry)?;
    }
    Ok(registry)
}

/// The policy files where `sinew init` has written them, else the built-in ones.
fn policy(setting: &Setting, machine: impl FnOnce() -> Option<Isolation>) -> Result<Policy, Problem> {
    let surroundings = surroundings(setting);
    let loaded = match written_out(setting)? {
        Some(folder) => Policy::load(&folder, &surroundings),
        None => Policy::embedded(&surroundings),
    };
    // Before its examples are run: what must be confined is refused where nothing can be.
    Ok(loaded.map_err(Problem::configuration)?.on_machine_with(machine()))
}

/// Holds a policy against the tools that there are, and runs its examples.
fn check_policy(policy: &Policy, registry: &ToolRegistry, hosts: &[Host]) -> Result<(), Problem> {
    let judged = hosts.iter().flat_map(Host::definitions);
    let definitions: Vec<&ToolDefinition> = registry.definitions().chain(judged).map(AsRef::as_ref).collect();
    let warnings = policy.check_tools(definitions).map_err(Problem::configuration)?;
    for warning in policy.warnings().iter().chain(&warnings) {
        tell(paint(NOTE, format!("warning: {warning}")));
    }
    Ok(())
}

/// What the policy files are read in.
pub(crate) fn surroundings(setting: &Setting) -> Surroundings {
    Surroundings {
        variables: Variables::from_environment(environment()),
        protected: Protected { folders: setting.home().folders().map(ToOwned::to_owned).to_vec() },
        names: FileNames::of_this_system(),
    }
}

/// The curated map from beside the policy files, else the built-in one.
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

/// The folder of the policy files, once `sinew init` has written something out: from then on it must be whole.
pub(crate) fn written_out(setting: &Setting) -> Result<Option<PathBuf>, Problem> {
    let folder = setting.home().config().join("governance");
    let written = is_there(&folder)? || is_there(&setting.home().settings_file())?;
    Ok(written.then_some(folder))
}

/// Whether something has that name. A link that leads nowhere is there, and what cannot be looked at is an error:
/// neither may pass for a policy that was never written.
pub(crate) fn is_there(path: &Path) -> Result<bool, Problem> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Problem::configuration(format!("{} cannot be looked at: {error}", path.display()))),
    }
}

/// Variables that are not Unicode cannot appear in a YAML file either.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// What a hook judges by without a daemon. Where a host stands is what it says of itself, and opens nothing.
pub(crate) fn hook_world(setting: &Setting) -> Result<(Settings, World), Problem> {
    let settings = setting.settings()?;
    // The examples are not to fail for walls that nobody asked about.
    let full = || Some(Isolation::Full);
    let world =
        configured(setting, &settings, Folders::Configured, Scrutiny::AsNeeded, full, Taking::Accepted)?;
    let policy = world.policy.on_machine_with(None);
    Ok((settings, World { policy, ..world }))
}

/// What the ledger says of the moment. Whoever asks has the right to read the state.
pub(crate) fn look_at_ledger(setting: &Setting) -> Result<Recovery, Problem> {
    Ledger::look(&ledger_folder(setting), &ledger_parts(setting)).map_err(Problem::configuration)
}

/// The layer of a hook without a daemon.
pub(crate) fn hook_layer(
    setting: &Setting,
    (settings, world): (Settings, World),
) -> Result<Arc<ToolExecutionLayer>, Problem> {
    layer(setting, &settings, world)
}

/// The layer of a call without a daemon.
pub(crate) fn embedded_layer(setting: &Setting) -> Result<Arc<ToolExecutionLayer>, Problem> {
    let settings = setting.settings()?;
    let layer = layer(setting, &settings, world(setting, &settings, Folders::AndThisOne)?)?;
    settle(setting, &settings)?;
    Ok(layer)
}

/// Where it is kept what calls replace and remove.
pub(crate) fn undo(setting: &Setting, settings: &Settings) -> Arc<UndoStore> {
    let UndoSettings { keep_bytes, keep_for } = settings.undo;
    UndoStore::at(&setting.home().state().join("undo"), UndoLimits { keep_bytes, keep_for })
}

/// Ends the changes and sees to the runs that a crash interrupted. Whoever has the ledger is the only one who makes any.
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
        tracing::warn!(path = %path.display(), "a change was interrupted after it had taken place");
    }
    for path in &settled.undone {
        tracing::warn!(path = %path.display(), "a change was interrupted before it had taken place");
    }
    for path in &settled.waiting {
        tracing::warn!(path = %path.display(), "an interrupted change cannot be looked at now; it is at the next start");
    }
    Ok(())
}

/// Where the ledger is.
pub(crate) fn ledger_folder(setting: &Setting) -> PathBuf {
    setting.home().state().join("ledger")
}

/// Where its parts are: its key and a second anchor stand outside its folder, and tell when the folder was put back or
/// taken away.
pub(crate) fn ledger_parts(setting: &Setting) -> Options {
    let state = setting.home().state();
    Options::default().with_key_file(state.join("ledger.key")).with_witness(state.join("anchor"))
}

/// How it is kept. There is always a size: whoever can make calls must not be able to fill the disk.
fn ledger_options(setting: &Setting, settings: &LedgerSettings) -> Options {
    let when_unavailable = match settings.when_unavailable {
        server::WhenUnavailable::Refuse => ledger::WhenUnavailable::Refuse,
        server::WhenUnavailable::AllowReads => ledger::WhenUnavailable::AllowReads,
    };
    let options =
        ledger_parts(setting).with_keep_bytes(settings.keep_bytes).with_when_unavailable(when_unavailable);
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

fn layer(setting: &Setting, settings: &Settings, world: World) -> Result<Arc<ToolExecutionLayer>, Problem> {
    layer_on(setting, open_ledger(setting, settings)?, world)
}

/// The layer that goes on where this ledger left off.
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
