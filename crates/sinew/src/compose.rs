//! Composition root: builds the configuration snapshot, the ledger and the execution layer, for the daemon
//! and for a call without one.

mod projects;
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
use governance::suggested_change::{PolicyFile, shell_word};
use governance::{Policy, PolicyError, Workspace, WorkspaceAccess, Workspaces};
use guardrail::{CuratedGuardrails, KnownTool};
use ledger::{Ledger, LedgerOptions, LedgerRecovery};
use registry::ToolRegistry;
use sandbox::Sandbox;
use server::settings::{LedgerSettings, ReloadMode, Settings, UndoSettings};
use tool::ToolDefinition;
use tool::result::SandboxTier;
use toolbox::Internals;

use crate::accepted_config::{self, AcceptedComparison, ConfigFiles};
use crate::command_context::CommandContext;
use crate::daemon;
use crate::exit::CommandError;
use crate::host_table::{self, TableCheckLevel};
use crate::layer_hooks;
use crate::manifests;
use crate::message_limit;
use crate::reserved_folders;
use crate::terminal::{LiveLine, print_warning};

pub(crate) use projects::PROJECT_DENIED;
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
    context: &CommandContext,
    settings: &Settings,
    folders: WorkspaceSelection,
) -> Result<ConfigSnapshot, CommandError> {
    build_snapshot(context, settings, folders, TableCheckLevel::Full, detect_isolation, PinVersion::Accepted)
}

/// Like `config_snapshot` for a daemon, with a choice of the tool definitions of MCP servers.
pub(crate) fn config_snapshot_with_pins(
    context: &CommandContext,
    settings: &Settings,
    taking: PinVersion,
) -> Result<ConfigSnapshot, CommandError> {
    build_snapshot(
        context,
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
    context: &CommandContext,
    settings: &Settings,
    folders: WorkspaceSelection,
    scrutiny: TableCheckLevel,
    machine: fn() -> Option<Isolation>,
    taking: PinVersion,
) -> Result<ConfigSnapshot, CommandError> {
    Sandbox::of_this_process().set_output_dir(&context.home().state_dir().join("output"));
    Sandbox::of_this_process().set_journal_dir(&context.home().state_dir().join("runs"));
    let (registry, policy) = std::thread::scope(|scope| {
        // These three are independent, and detecting the isolation is mostly waiting.
        let machine = scope.spawn(machine);
        let policy = scope.spawn(|| load_policy(context, || join_thread(machine)));
        let registry = register_tools(context, settings, scrutiny, taking);
        (registry, join_thread(policy))
    });
    let ((registry, mut problems), policy) = (registry?, policy?);
    let (folder, home) = (context.home().config_dir().join("hosts"), context.home().user_home());
    let hosts = host_table::load_with(&folder, home, scrutiny)?;
    check_policy(&policy, &registry, &hosts)?;
    let file = context.home().settings_file().display().to_string();
    let definitions = registry.definitions().map(AsRef::as_ref);
    for warning in message_limit::check(settings, &file, &policy, definitions) {
        print_warning(format!("warning: {warning}"));
    }
    let curated = load_curated_map(context, &registry)?;
    let mut list = Vec::new();
    for configured in &settings.workspaces {
        let workspace = Workspace::open(&configured.path, to_policy_access(configured.access))
            .map_err(|error| error.to_string());
        let apart = |workspace: Workspace| {
            reserved_folders::check_workspace(context.home(), workspace.root(), configured.access)
                .map(|()| workspace)
        };
        let workspace = workspace.and_then(apart).map_err(|error| {
            let (file, line) = (context.home().settings_file(), configured.line);
            let (file, path) = (file.display(), configured.path.display());
            CommandError::configuration(format!(
                "{file}:{line}: the workspace `{path}` cannot be used: {error}"
            ))
            .with_hint(format!("sinew workspace remove {}", shell_word(&configured.path.to_string_lossy())))
        })?;
        list.push(workspace);
    }
    if folders == WorkspaceSelection::WithCurrentDir {
        let here = Workspace::open(context.folder(), WorkspaceAccess::ReadOnly).ok();
        let is_new =
            |here: &Workspace| !list.iter().any(|known: &Workspace| here.root().starts_with(known.root()));
        list.extend(here.filter(is_new));
    }
    let workspaces = Workspaces::new(list);
    let policy = projects::with_projects(context, policy, &workspaces)?;
    let policy = projects::with_examples(context, policy, &registry, scrutiny)?;
    problems.extend(projects::problems(&policy));
    let policy = policy.with_write_grants(registry.all_versions().map(|tool| tool.definition().as_ref()));
    policy.check_program_folders(&workspaces).map_err(CommandError::configuration)?;
    let keys = manifests::describe_keys(settings);
    let (curated, hosts) = (Arc::new(curated), hosts.into());
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
    context: &CommandContext,
    settings: &Settings,
    scrutiny: TableCheckLevel,
    taking: PinVersion,
) -> Result<(ToolRegistry, Vec<ManifestProblem>), CommandError> {
    let mut registry = ToolRegistry::new();
    let (sandbox, internals) = (Sandbox::of_this_process(), Internals::of_this_process());
    let web = shared_web(settings)?;
    toolbox::register(&mut registry, sandbox, internals, web, &undo_store(context, settings))
        .map_err(CommandError::failed)?;
    let mut problems = Vec::new();
    // A hook judges only the host's tools and must be fast, so manifests are not loaded.
    if scrutiny == TableCheckLevel::Full {
        problems = manifests::register((context, settings), web.gateway(), taking, &mut registry)?;
    }
    Ok((registry, problems))
}

/// Loads the policy for a machine with this isolation.
fn load_policy(
    context: &CommandContext,
    machine: impl FnOnce() -> Option<Isolation>,
) -> Result<Policy, CommandError> {
    let loaded = read_policy(context)?.map_err(CommandError::configuration)?;
    // Before the examples are run: without isolation, a call that requires it must be refused in them too.
    Ok(loaded.with_isolation(machine()))
}

/// Reads the user's policy files over the built-in ones.
pub(crate) fn read_policy(context: &CommandContext) -> Result<Result<Policy, PolicyError>, CommandError> {
    let surroundings = policy_environment(context);
    Ok(match governance_dir(context)? {
        Some(folder) => Policy::load_with(&folder, layer_default(context)?, &surroundings),
        None => Policy::embedded(&surroundings),
    })
}

/// Checks that the policy files in a folder load over the built-in ones, as on a host that has no others.
#[cfg(feature = "fleet")]
pub(crate) fn check_policy_folder(context: &CommandContext, folder: &Path) -> Result<(), CommandError> {
    let environment = policy_environment(context);
    let policy = Policy::load_with(folder, LayerDefault::Extend, &environment);
    let policy = policy.map_err(CommandError::configuration)?.with_isolation(detect_isolation());
    let (registry, _) =
        register_tools(context, &context.settings()?, TableCheckLevel::Full, PinVersion::Accepted)?;
    check_policy(&policy, &registry, &[])
}

/// Checks that the policy loads and its examples hold with a new text for one of the user's files.
pub(crate) fn check_policy_text(
    context: &CommandContext,
    file: PolicyFile,
    text: &str,
) -> Result<(), CommandError> {
    let current = match read_policy(context)? {
        Ok(current) => current,
        // The new text may repair the policy.
        Err(_) => Policy::embedded(&policy_environment(context)).map_err(CommandError::configuration)?,
    };
    let changed = current.with_user_text(file, text, &policy_environment(context));
    let changed = changed.map_err(CommandError::configuration)?.with_isolation(detect_isolation());
    let settings = context.settings()?;
    let (registry, _) = register_tools(context, &settings, TableCheckLevel::Full, PinVersion::Accepted)?;
    let (folder, home) = (context.home().config_dir().join("hosts"), context.home().user_home());
    check_policy(&changed, &registry, &host_table::load_with(&folder, home, TableCheckLevel::Full)?)
}

/// Checks that the guardrails load with a new text for the user's file at `path`.
pub(crate) fn check_guardrails_text(
    context: &CommandContext,
    path: &Path,
    text: &str,
) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("the text cannot be checked: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = folder.path().join(guardrail::EMBEDDED_FILE.0);
    strict_yaml::replace_private_file(&file, text.as_bytes()).map_err(failed)?;
    let settings = context.settings()?;
    let (registry, _) = register_tools(context, &settings, TableCheckLevel::Full, PinVersion::Accepted)?;
    let tools = registry.definitions().filter_map(|definition| registry.get(definition.name().as_str()));
    let known = tools.map(|tool| KnownTool { definition: tool.definition(), schema: tool.schema() });
    let checked = CuratedGuardrails::load(folder.path()).and_then(|curated| curated.check_tools(known));
    // The errors name the copy that was checked; the message must name the user's file.
    let (copy, meant) = (file.display().to_string(), path.display().to_string());
    checked.map(drop).map_err(|error| CommandError::configuration(error.to_string().replace(&copy, &meant)))
}

/// Returns the meaning of a policy file without `extends`. An accepted configuration from a version before
/// layers is read as that version read it, so that an upgrade loosens nothing unseen.
fn layer_default(context: &CommandContext) -> Result<LayerDefault, CommandError> {
    let has_layers = context.home().config_copy().map_or(Ok(true), accepted_config::has_layers);
    match has_layers {
        Ok(true) => Ok(LayerDefault::Extend),
        Ok(false) => Ok(LayerDefault::Replace),
        Err(error) => Err(CommandError::configuration(format!("the accepted configuration: {error}"))),
    }
}

/// Checks a policy against the registered tools and runs its examples.
fn check_policy(policy: &Policy, registry: &ToolRegistry, hosts: &[Host]) -> Result<(), CommandError> {
    let judged = hosts.iter().flat_map(|host| host.judged_definitions(policy));
    let definitions: Vec<&ToolDefinition> = registry.definitions().map(AsRef::as_ref).chain(judged).collect();
    let warnings = policy.check_tools(definitions).map_err(CommandError::configuration)?;
    for warning in policy.warnings().iter().chain(&warnings) {
        print_warning(format!("warning: {warning}"));
    }
    Ok(())
}

/// Returns the environment in which policy files are read.
pub(crate) fn policy_environment(context: &CommandContext) -> PolicyEnvironment {
    PolicyEnvironment {
        variables: PathVariables::from_environment(unicode_environment()),
        protected: ProtectedFolders {
            folders: context.home().protected_dirs().map(ToOwned::to_owned).to_vec(),
        },
        name_comparison: NameComparison::for_this_system(),
    }
}

/// Loads the curated map beside the policy files, else the built-in one.
pub(crate) fn curated_map(context: &CommandContext) -> Result<CuratedGuardrails, CommandError> {
    let loaded = match (governance_dir(context)?, layer_default(context)?) {
        (Some(folder), LayerDefault::Extend) => CuratedGuardrails::load(&folder),
        (Some(folder), LayerDefault::Replace) => CuratedGuardrails::load_alone(&folder),
        (None, _) => CuratedGuardrails::embedded(),
    };
    loaded.map_err(CommandError::configuration)
}

/// Loads the curated map and checks it against the tools.
fn load_curated_map(
    context: &CommandContext,
    registry: &ToolRegistry,
) -> Result<CuratedGuardrails, CommandError> {
    let curated = curated_map(context)?;
    let tools = registry.definitions().filter_map(|definition| registry.get(definition.name().as_str()));
    let known = tools.map(|tool| KnownTool { definition: tool.definition(), schema: tool.schema() });
    for warning in curated.check_tools(known).map_err(CommandError::configuration)? {
        print_warning(format!("warning: {warning}"));
    }
    Ok(curated)
}

/// Returns the folder of the user's policy files, if it exists.
pub(crate) fn governance_dir(context: &CommandContext) -> Result<Option<PathBuf>, CommandError> {
    let folder = context.home().config_dir().join("governance");
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

/// Builds the snapshot by which this process judges without a daemon: like a daemon, it applies a change that loosens
/// the accepted configuration only after the operator has accepted it.
fn offline_snapshot(
    context: &CommandContext,
    settings: &Settings,
    folders: WorkspaceSelection,
    scrutiny: TableCheckLevel,
    machine: fn() -> Option<Isolation>,
) -> Result<ConfigSnapshot, CommandError> {
    let build = |context: &CommandContext, settings: &Settings| {
        build_snapshot(context, settings, folders, scrutiny, machine, PinVersion::Accepted)
    };
    let files = build(context, settings)?;
    if !accepted_config::has_accepted_copy(context.home()) {
        return Ok(files);
    }
    let current = ConfigFiles::read_current(context.home(), PinVersion::Accepted).ok();
    let current = current.map(|current| current.with_surroundings(&files));
    // Without the key of the ledger the seal is invalid, as it is for a copy that was changed.
    let digest = |bytes: &[u8]| {
        Ledger::keyed_digest_of(&ledger_dir(context), &ledger_paths(context), bytes).unwrap_or_default()
    };
    match accepted_config::compare_with_accepted(context.home(), digest, current.as_ref()) {
        AcceptedComparison::Identical | AcceptedComparison::Missing => Ok(files),
        AcceptedComparison::Unusable(why) => {
            daemon::warn_of_unknown(Some(&why));
            Ok(daemon::without_manifests(files))
        }
        AcceptedComparison::Unreadable(error) => {
            Err(accepted_config::unreadable_error(context.home(), &error))
        }
        AcceptedComparison::Differs(copy) => {
            let copy = context.with_config_copy(&copy);
            let accepted = copy.settings()?;
            match accepted.reload {
                ReloadMode::Ask => Ok(execution::reload::in_effect(&build(&copy, &accepted)?, files)),
                ReloadMode::Auto => Ok(files),
            }
        }
    }
}

/// Builds the snapshot of a hook without a daemon. The host's working directory is its own claim and grants
/// nothing.
pub(crate) fn hook_snapshot(context: &CommandContext) -> Result<(Settings, ConfigSnapshot), CommandError> {
    let settings = context.settings()?;
    // Isolation is not detected, which takes longer than the judgement: a host runs its tools without Sinew's
    // sandbox, and a tool whose rules require one is denied anyway.
    let full = || Some(Isolation::Full);
    let configured = WorkspaceSelection::Configured;
    let snapshot = offline_snapshot(context, &settings, configured, TableCheckLevel::Lazy, full)?;
    Ok((settings, snapshot))
}

/// Inspects the ledger without opening it for writing.
pub(crate) fn inspect_ledger(context: &CommandContext) -> Result<LedgerRecovery, CommandError> {
    Ledger::inspect(&ledger_dir(context), &ledger_paths(context)).map_err(CommandError::configuration)
}

/// Builds the execution layer of a call without a daemon.
pub(crate) fn embedded_layer(context: &CommandContext) -> Result<Arc<ToolExecutionLayer>, CommandError> {
    let _line = LiveLine::start("loading the configuration and the tools");
    let settings = context.settings()?;
    let folders = WorkspaceSelection::WithCurrentDir;
    let snapshot = offline_snapshot(context, &settings, folders, TableCheckLevel::Full, detect_isolation)?;
    let layer = open_layer(context, &settings, snapshot)?;
    recover_interrupted(context, &settings)?;
    Ok(layer)
}

/// Opens the undo store, which holds the content that calls replaced or removed.
pub(crate) fn undo_store(context: &CommandContext, settings: &Settings) -> Arc<UndoStore> {
    let UndoSettings { keep_bytes, max_age: keep_for } = settings.undo;
    UndoStore::at(&context.home().state_dir().join("undo"), UndoLimits { keep_bytes, keep_for })
}

/// Completes changes and cleans up runs that a crash interrupted. Safe because the holder of the ledger is
/// the only process that makes changes.
pub(crate) fn recover_interrupted(context: &CommandContext, settings: &Settings) -> Result<(), CommandError> {
    Sandbox::of_this_process().clean_up_unfinished_runs().map_err(|error| {
        let folder = context.home().state_dir().join("runs");
        CommandError::configuration(format!("{} cannot be used: {error}", folder.display()))
    })?;
    let settled = undo_store(context, settings).recover().map_err(|error| {
        let folder = context.home().state_dir().join("undo");
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
pub(crate) fn ledger_dir(context: &CommandContext) -> PathBuf {
    context.home().state_dir().join("ledger")
}

/// Returns the paths of the ledger's key and second anchor. They are outside its folder, so that a folder
/// that was rolled back or removed is detected.
pub(crate) fn ledger_paths(context: &CommandContext) -> LedgerOptions {
    let state = context.home().state_dir();
    LedgerOptions::default().with_key_file(state.join("ledger.key")).with_second_anchor(state.join("anchor"))
}

/// Returns the ledger options. There is always a size limit, so that a caller cannot fill the disk.
fn ledger_options(context: &CommandContext, settings: &LedgerSettings) -> LedgerOptions {
    let when_unavailable = match settings.when_unavailable {
        server::settings::LedgerUnavailablePolicy::Refuse => ledger::UnavailablePolicy::Refuse,
        server::settings::LedgerUnavailablePolicy::AllowReads => ledger::UnavailablePolicy::AllowReads,
    };
    let options =
        ledger_paths(context).with_retain_bytes(settings.keep_bytes).with_when_unavailable(when_unavailable);
    let options = options.with_minimum_age(settings.keep_at_least, settings.max_bytes);
    match settings.max_age {
        Some(age) => options.with_retain_for(age),
        None => options,
    }
}

/// Opens the ledger for writing.
pub(crate) fn open_ledger(
    context: &CommandContext,
    settings: &Settings,
) -> Result<(Arc<Ledger>, LedgerRecovery), CommandError> {
    let opened = Ledger::open(&ledger_dir(context), &ledger_options(context, &settings.ledger));
    opened.map_err(CommandError::configuration)
}

/// Opens the ledger and builds the execution layer on it.
pub(crate) fn open_layer(
    context: &CommandContext,
    settings: &Settings,
    snapshot: ConfigSnapshot,
) -> Result<Arc<ToolExecutionLayer>, CommandError> {
    layer_on(context, open_ledger(context, settings)?, snapshot)
}

/// Builds the execution layer on an open ledger.
pub(crate) fn layer_on(
    context: &CommandContext,
    (ledger, recovery): (Arc<Ledger>, LedgerRecovery),
    snapshot: ConfigSnapshot,
) -> Result<Arc<ToolExecutionLayer>, CommandError> {
    let (state, undo) = (context.home().state_dir().to_owned(), undo_store(context, &context.settings()?));
    context.accepted_writer().set_ledger(&ledger);
    let parts = LayerParts {
        snapshot,
        ledger,
        recovery,
        state_dir: state,
        undo,
        reserved_ports: web::reserved_ports(),
    };
    let layer = ToolExecutionLayer::new(parts).map_err(CommandError::configuration)?;
    layer_hooks::connect_introspection(&layer, context.home().state_dir());
    layer_hooks::connect_pipeline(&layer, context.pipeline_entry());
    Ok(layer)
}
