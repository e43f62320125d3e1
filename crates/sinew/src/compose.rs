//! Composition root: builds the configuration snapshot, the ledger and the execution layer, for the daemon
//! and for a call without one.

mod test_layer;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use connectors::PinVersion;
use execution::host::Host;
use execution::{ConfigSnapshot, LayerParts, ManifestProblem, ToolExecutionLayer};
use file_access::{UndoLimits, UndoStore};
use governance::files::Isolation;
use governance::files::LayerDefault;
use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::suggested_change::PolicyFile;
use governance::{Policy, PolicyError, Workspace, WorkspaceAccess, Workspaces};
use guardrail::{CuratedGuardrails, KnownTool};
use ledger::{Ledger, LedgerOptions, LedgerRecovery};
use registry::ToolRegistry;
use sandbox::Sandbox;
use server::settings::{LedgerSettings, Settings, UndoSettings};
use tool::ToolDefinition;
use tool::result::SandboxTier;
use toolbox::Internals;

use crate::accepted_config;
use crate::command_context::CommandContext;
use crate::exit::CommandError;
use crate::host_table::{self, TableCheckLevel};
use crate::layer_hooks;
use crate::manifests;
use crate::message_limit;
use crate::reserved_folders;
use crate::terminal::print_warning;

pub(crate) use test_layer::{TestAccess, test_layer};
pub(crate) use web::shared_web;

/// Workspaces of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkspaceSelection {
    /// Workspaces of the settings.
    Configured,
    /// Workspaces of the settings, and the current folder read-only, so that a first call needs no
    /// configuration.
    WithCurrentDir,
}

/// Builds the configuration snapshot: tools, policy, curated map and workspaces.
pub(crate) fn config_snapshot(
    setting: &CommandContext,
    settings: &Settings,
    folders: WorkspaceSelection,
) -> Result<ConfigSnapshot, CommandError> {
    build_snapshot(setting, settings, folders, TableCheckLevel::Full, detect_isolation, PinVersion::Accepted)
}

/// Like `config_snapshot` for a daemon, with a choice of the tool definitions of MCP servers.
pub(crate) fn config_snapshot_with_pins(
    setting: &CommandContext,
    settings: &Settings,
    taking: PinVersion,
) -> Result<ConfigSnapshot, CommandError> {
    build_snapshot(
        setting,
        settings,
        WorkspaceSelection::Configured,
        TableCheckLevel::Full,
        detect_isolation,
        taking,
    )
}

/// Builds a snapshot. `machine` detects the available isolation: detection takes time, and a caller that runs
/// nothing passes a constant.
fn build_snapshot(
    setting: &CommandContext,
    settings: &Settings,
    folders: WorkspaceSelection,
    scrutiny: TableCheckLevel,
    machine: fn() -> Option<Isolation>,
    taking: PinVersion,
) -> Result<ConfigSnapshot, CommandError> {
    Sandbox::of_this_process().set_output_dir(&setting.home().state_dir().join("output"));
    Sandbox::of_this_process().set_journal_dir(&setting.home().state_dir().join("runs"));
    let (registry, policy) = std::thread::scope(|scope| {
        // These three are independent, and detecting the isolation is mostly waiting.
        let machine = scope.spawn(machine);
        let policy = scope.spawn(|| load_policy(setting, || join_thread(machine)));
        let registry = register_tools(setting, settings, scrutiny, taking);
        (registry, join_thread(policy))
    });
    let ((registry, problems), policy) = (registry?, policy?);
    let (folder, home) = (setting.home().config_dir().join("hosts"), setting.home().user_home());
    let hosts = host_table::load_with(&folder, home, scrutiny)?;
    check_policy(&policy, &registry, &hosts)?;
    let file = setting.home().settings_file().display().to_string();
    let definitions = registry.definitions().map(AsRef::as_ref);
    for warning in message_limit::check(settings, &file, &policy, definitions) {
        print_warning(format!("warning: {warning}"));
    }
    let curated = load_curated_map(setting, &registry)?;
    let mut list = Vec::new();
    for configured in &settings.workspaces {
        let workspace = Workspace::open(&configured.path, to_policy_access(configured.access))
            .map_err(|error| error.to_string());
        let apart = |workspace: Workspace| {
            reserved_folders::check_workspace(setting.home(), workspace.root(), configured.access)
                .map(|()| workspace)
        };
        let workspace = workspace.and_then(apart).map_err(|error| {
            let (file, line) = (setting.home().settings_file(), configured.line);
            let (file, path) = (file.display(), configured.path.display());
            CommandError::configuration(format!(
                "{file}:{line}: the workspace `{path}` cannot be used: {error}"
            ))
            .with_hint(format!("sinew workspace remove '{path}'"))
        })?;
        list.push(workspace);
    }
    if folders == WorkspaceSelection::WithCurrentDir {
        let here = Workspace::open(setting.folder(), WorkspaceAccess::ReadOnly).ok();
        let is_new =
            |here: &Workspace| !list.iter().any(|known: &Workspace| here.root().starts_with(known.root()));
        list.extend(here.filter(is_new));
    }
    let workspaces = Workspaces::new(list);
    let around = policy_environment(setting);
    let policy = policy.with_projects(&workspaces, &around).map_err(CommandError::configuration)?;
    let judged = registry.definitions().map(AsRef::as_ref);
    policy.check_project_examples(judged).map_err(CommandError::configuration)?;
    let policy = policy.with_write_grants(registry.all_versions().map(|tool| tool.definition().as_ref()));
    policy.check_program_folders(&workspaces).map_err(CommandError::configuration)?;
    let keys = manifests::describe_keys(settings);
    Ok(ConfigSnapshot { registry, policy, curated, workspaces, hosts, keys, problems })
}

/// Joins a thread and propagates its panic.
fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Converts the workspace access of the settings into that of the policy.
pub(crate) fn to_policy_access(configured: server::settings::WorkspaceAccessSetting) -> WorkspaceAccess {
    match configured {
        server::settings::WorkspaceAccessSetting::ReadOnly => WorkspaceAccess::ReadOnly,
        server::settings::WorkspaceAccessSetting::ReadWrite => WorkspaceAccess::ReadWrite,
    }
}

/// Returns the sandbox isolation that this machine supports.
pub(crate) fn detect_isolation() -> Option<Isolation> {
    match Sandbox::of_this_process().availability().tier {
        SandboxTier::Full => Some(Isolation::Full),
        SandboxTier::Reduced => Some(Isolation::Reduced),
        SandboxTier::None => None,
    }
}

/// Registers the built-in tools and those of manifests. Returns the manifests that could not be loaded, too.
fn register_tools(
    setting: &CommandContext,
    settings: &Settings,
    scrutiny: TableCheckLevel,
    taking: PinVersion,
) -> Result<(ToolRegistry, Vec<ManifestProblem>), CommandError> {
    let mut registry = ToolRegistry::new();
    let (sandbox, internals) = (Sandbox::of_this_process(), Internals::of_this_process());
    let web = shared_web(settings)?;
    toolbox::register(&mut registry, sandbox, internals, web, &undo_store(setting, settings))
        .map_err(CommandError::failed)?;
    let mut problems = Vec::new();
    // A hook judges only the host's tools and must be fast, so manifests are not loaded.
    if scrutiny == TableCheckLevel::Full {
        problems = manifests::register((setting, settings), web.gateway(), taking, &mut registry)?;
    }
    Ok((registry, problems))
}

/// Loads the policy for a machine with this isolation.
fn load_policy(
    setting: &CommandContext,
    machine: impl FnOnce() -> Option<Isolation>,
) -> Result<Policy, CommandError> {
    let loaded = read_policy(setting)?.map_err(CommandError::configuration)?;
    // Before the examples are run: without isolation, a call that requires it must be refused in them too.
    Ok(loaded.with_isolation(machine()))
}

/// Reads the user's policy files over the built-in ones.
pub(crate) fn read_policy(setting: &CommandContext) -> Result<Result<Policy, PolicyError>, CommandError> {
    let surroundings = policy_environment(setting);
    Ok(match governance_dir(setting)? {
        Some(folder) => Policy::load_with(&folder, layer_default(setting), &surroundings),
        None => Policy::embedded(&surroundings),
    })
}

/// Checks that the policy loads and its examples hold with a new text for one of the user's files.
pub(crate) fn check_policy_text(
    setting: &CommandContext,
    file: PolicyFile,
    text: &str,
) -> Result<(), CommandError> {
    let current = match read_policy(setting)? {
        Ok(current) => current,
        // The new text may repair the policy.
        Err(_) => Policy::embedded(&policy_environment(setting)).map_err(CommandError::configuration)?,
    };
    let changed = current.with_user_text(file, text, &policy_environment(setting));
    let changed = changed.map_err(CommandError::configuration)?.with_isolation(detect_isolation());
    let settings = setting.settings()?;
    let (registry, _) = register_tools(setting, &settings, TableCheckLevel::Full, PinVersion::Accepted)?;
    let (folder, home) = (setting.home().config_dir().join("hosts"), setting.home().user_home());
    check_policy(&changed, &registry, &host_table::load_with(&folder, home, TableCheckLevel::Full)?)
}

/// Returns the meaning of a policy file without `extends`. An accepted configuration from a version before
/// layers is read as that version read it, so that an upgrade loosens nothing unseen.
fn layer_default(setting: &CommandContext) -> LayerDefault {
    match setting.home().config_copy() {
        Some(copy) if !accepted_config::has_layers(copy) => LayerDefault::Replace,
        _ => LayerDefault::Extend,
    }
}

/// Checks a policy against the registered tools and runs its examples.
fn check_policy(policy: &Policy, registry: &ToolRegistry, hosts: &[Host]) -> Result<(), CommandError> {
    let judged = hosts.iter().flat_map(Host::definitions);
    let definitions: Vec<&ToolDefinition> = registry.definitions().chain(judged).map(AsRef::as_ref).collect();
    let warnings = policy.check_tools(definitions).map_err(CommandError::configuration)?;
    for warning in policy.warnings().iter().chain(&warnings) {
        print_warning(format!("warning: {warning}"));
    }
    Ok(())
}

/// Returns the environment in which policy files are read.
pub(crate) fn policy_environment(setting: &CommandContext) -> PolicyEnvironment {
    PolicyEnvironment {
        variables: PathVariables::from_environment(unicode_environment()),
        protected: ProtectedFolders {
            folders: setting.home().protected_dirs().map(ToOwned::to_owned).to_vec(),
        },
        name_comparison: NameComparison::for_this_system(),
    }
}

/// Loads the curated map beside the policy files, else the built-in one.
pub(crate) fn curated_map(setting: &CommandContext) -> Result<CuratedGuardrails, CommandError> {
    let loaded = match (governance_dir(setting)?, layer_default(setting)) {
        (Some(folder), LayerDefault::Extend) => CuratedGuardrails::load(&folder),
        (Some(folder), LayerDefault::Replace) => CuratedGuardrails::load_alone(&folder),
        (None, _) => CuratedGuardrails::embedded(),
    };
    loaded.map_err(CommandError::configuration)
}

/// Loads the curated map and checks it against the tools.
fn load_curated_map(
    setting: &CommandContext,
    registry: &ToolRegistry,
) -> Result<CuratedGuardrails, CommandError> {
    let curated = curated_map(setting)?;
    let tools = registry.definitions().filter_map(|definition| registry.get(definition.name().as_str()));
    let known = tools.map(|tool| KnownTool { definition: tool.definition(), schema: tool.schema() });
    for warning in curated.check_tools(known).map_err(CommandError::configuration)? {
        print_warning(format!("warning: {warning}"));
    }
    Ok(curated)
}

/// Returns the folder of the user's policy files, if it exists.
pub(crate) fn governance_dir(setting: &CommandContext) -> Result<Option<PathBuf>, CommandError> {
    let folder = setting.home().config_dir().join("governance");
    Ok(path_exists(&folder)?.then_some(folder))
}

/// Returns true if the path exists. A dangling symbolic link exists, and an unreadable path is an error:
/// neither may be mistaken for a policy that was never written.
pub(crate) fn path_exists(path: &Path) -> Result<bool, CommandError> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CommandError::configuration(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Returns the environment variables. Those that are not Unicode are skipped: they cannot occur in a YAML
/// file.
fn unicode_environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Builds the snapshot of a hook without a daemon. The host's working directory is its own claim and grants
/// nothing.
pub(crate) fn hook_snapshot(setting: &CommandContext) -> Result<(Settings, ConfigSnapshot), CommandError> {
    let settings = setting.settings()?;
    // Isolation was not detected, so policy examples that require it must not fail.
    let full = || Some(Isolation::Full);
    let config_snapshot = build_snapshot(
        setting,
        &settings,
        WorkspaceSelection::Configured,
        TableCheckLevel::Lazy,
        full,
        PinVersion::Accepted,
    )?;
    let policy = config_snapshot.policy.with_isolation(None);
    Ok((settings, ConfigSnapshot { policy, ..config_snapshot }))
}

/// Inspects the ledger without opening it for writing.
pub(crate) fn inspect_ledger(setting: &CommandContext) -> Result<LedgerRecovery, CommandError> {
    Ledger::inspect(&ledger_dir(setting), &ledger_paths(setting)).map_err(CommandError::configuration)
}

/// Builds the execution layer of a call without a daemon.
pub(crate) fn embedded_layer(setting: &CommandContext) -> Result<Arc<ToolExecutionLayer>, CommandError> {
    let settings = setting.settings()?;
    let layer = open_layer(
        setting,
        &settings,
        config_snapshot(setting, &settings, WorkspaceSelection::WithCurrentDir)?,
    )?;
    recover_interrupted(setting, &settings)?;
    Ok(layer)
}

/// Opens the undo store, which holds the content that calls replaced or removed.
pub(crate) fn undo_store(setting: &CommandContext, settings: &Settings) -> Arc<UndoStore> {
    let UndoSettings { keep_bytes, max_age: keep_for } = settings.undo;
    UndoStore::at(&setting.home().state_dir().join("undo"), UndoLimits { keep_bytes, keep_for })
}

/// Completes changes and cleans up runs that a crash interrupted. Safe because the holder of the ledger is
/// the only process that makes changes.
pub(crate) fn recover_interrupted(setting: &CommandContext, settings: &Settings) -> Result<(), CommandError> {
    Sandbox::of_this_process().clean_up_unfinished_runs().map_err(|error| {
        let folder = setting.home().state_dir().join("runs");
        CommandError::configuration(format!("{} cannot be used: {error}", folder.display()))
    })?;
    let settled = undo_store(setting, settings).recover().map_err(|error| {
        let folder = setting.home().state_dir().join("undo");
        CommandError::configuration(format!("{} cannot be used: {error}", folder.display()))
    })?;
    for path in &settled.completed {
        tracing::warn!(path = %path.display(), "a change was interrupted after it was applied");
    }
    for path in &settled.rolled_back {
        tracing::warn!(path = %path.display(), "a change was interrupted before it was applied");
    }
    for path in &settled.deferred {
        tracing::warn!(path = %path.display(), "an interrupted change cannot be checked now; the next start retries");
    }
    Ok(())
}

/// Returns the folder of the ledger.
pub(crate) fn ledger_dir(setting: &CommandContext) -> PathBuf {
    setting.home().state_dir().join("ledger")
}

/// Returns the paths of the ledger's key and second anchor. They are outside its folder, so that a folder
/// that was rolled back or removed is detected.
pub(crate) fn ledger_paths(setting: &CommandContext) -> LedgerOptions {
    let state = setting.home().state_dir();
    LedgerOptions::default().with_key_file(state.join("ledger.key")).with_second_anchor(state.join("anchor"))
}

/// Returns the ledger options. There is always a size limit, so that a caller cannot fill the disk.
fn ledger_options(setting: &CommandContext, settings: &LedgerSettings) -> LedgerOptions {
    let when_unavailable = match settings.when_unavailable {
        server::settings::LedgerUnavailablePolicy::Refuse => ledger::UnavailablePolicy::Refuse,
        server::settings::LedgerUnavailablePolicy::AllowReads => ledger::UnavailablePolicy::AllowReads,
    };
    let options =
        ledger_paths(setting).with_retain_bytes(settings.keep_bytes).with_when_unavailable(when_unavailable);
    let options = options.with_minimum_age(settings.keep_at_least, settings.max_bytes);
    match settings.max_age {
        Some(age) => options.with_retain_for(age),
        None => options,
    }
}

/// Opens the ledger for writing.
pub(crate) fn open_ledger(
    setting: &CommandContext,
    settings: &Settings,
) -> Result<(Arc<Ledger>, LedgerRecovery), CommandError> {
    let opened = Ledger::open(&ledger_dir(setting), &ledger_options(setting, &settings.ledger));
    opened.map_err(CommandError::configuration)
}

/// Opens the ledger and builds the execution layer on it.
pub(crate) fn open_layer(
    setting: &CommandContext,
    settings: &Settings,
    snapshot: ConfigSnapshot,
) -> Result<Arc<ToolExecutionLayer>, CommandError> {
    layer_on(setting, open_ledger(setting, settings)?, snapshot)
}

/// Builds the execution layer on an open ledger.
pub(crate) fn layer_on(
    setting: &CommandContext,
    (ledger, recovery): (Arc<Ledger>, LedgerRecovery),
    snapshot: ConfigSnapshot,
) -> Result<Arc<ToolExecutionLayer>, CommandError> {
    let (state, undo) = (setting.home().state_dir().to_owned(), undo_store(setting, &setting.settings()?));
    setting.accepted_writer().set_ledger(&ledger);
    let parts = LayerParts { snapshot, ledger, recovery, state_dir: state, undo };
    let layer = ToolExecutionLayer::new(parts).map_err(CommandError::configuration)?;
    layer_hooks::connect_introspection(&layer, setting.home().state_dir());
    layer_hooks::connect_pipeline(&layer, setting.pipeline_entry());
    Ok(layer)
}
