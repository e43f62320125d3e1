//! One row per sandbox layer: an attack that the layer stops and that succeeds when exactly this layer is
//! disabled. Where a second layer stops the attack too, both are disabled together, and the attack is shown
//! to fail with either one.

use std::path::PathBuf;
use std::time::Duration;

use governance::files::NetworkAccess;
use libtest_mimic::{Failed, Trial};
use tests::hostile::{self, HostileTargets, PYTHON};
use tool::result::SandboxTier;

use crate::block_on;
use crate::error::SandboxError;
use crate::launch::pool::Launcher;
use crate::launch::spec::{RunLimits, RunSpec};
use crate::launch::{self, FinishedRun};
use crate::layers::SandboxLayer;
use crate::layers::disabled::disable_layers;
use crate::output::OutputSinks;
use crate::prepare::ConfinedCommand;
use crate::prepare::program;
use crate::report::RunEnd;
use crate::scan;
use crate::scan::bounds::ScanBounds;

use NetworkAccess::{Loopback, Off};
use SandboxLayer::*;
use SandboxTier::{Full, Reduced};

/// Expected result once the layers of a row are disabled.
#[derive(Clone, Copy)]
enum ExpectedResult {
    /// The attack succeeds.
    Escape,
    /// Nothing runs at all, because a later step depends on this one.
    NoRun,
}

/// Tier, network, layers to disable, attacks that only these layers stop, and the expected result.
struct LayerCase(
    SandboxTier,
    NetworkAccess,
    &'static [SandboxLayer],
    &'static [&'static str],
    ExpectedResult,
);

const ROWS: &[LayerCase] = &[
    LayerCase(
        Full,
        Off,
        &[InheritedDescriptors, CloseOnExec],
        &["inherit_descriptors"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[IpcNamespace], &["attach_memory"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[PidNamespace], &["see_process"], ExpectedResult::NoRun),
    LayerCase(
        Full,
        Off,
        &[PidNamespace, PrivateProc, LandlockScopes],
        &["kill_process"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[NonDumpable], &["list_descriptors_of_parent"], ExpectedResult::Escape),
    LayerCase(Full, Loopback, &[NetworkNamespace], &["connect_tcp"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[ReadOnlyRoot, OutsideHidden],
        &["chmod_in_home", "set_times_in_home"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[ReadOnlyRoot, Landlock, OutsideHidden], &["write_home"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[OutsideHidden],
        &["stat_in_home", "read_link_in_home", "watch_home"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[NoSetuid], &["run_with_owners_powers"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[NoDeviceFiles], &["have_devices_in_workspace"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[ReadOnlyGrant],
        &["chmod_in_read_only_folder", "set_times_in_read_only_folder", "set_attribute_in_read_only_folder"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[ReadOnlyGrant, Landlock], &["write_to_read_only_folder"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[PrivateScratch], &["read_shared_memory"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[PrivateScratch, OutsideHidden], &["read_other_scratch"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[ScratchSize, MemoryMonitor], &["fill_scratch"], ExpectedResult::Escape),
    // The monitor still counts only the run's own processes, so it has no reason to end the run.
    LayerCase(Full, Off, &[PrivateProc], &["see_process"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[PrivateTerminals],
        &["open_terminal_of_machine", "open_many_terminals"],
        ExpectedResult::Escape,
    ),
    LayerCase(
        Full,
        Off,
        &[ProtectedPaths],
        &[
            "write_git_hook",
            "overwrite_git_config",
            "replace_git_config",
            "move_git_hooks_away",
            "chmod_git_hook",
            "overwrite_shell_startup",
            "delete_shell_startup",
            "overwrite_agent_settings",
        ],
        ExpectedResult::Escape,
    ),
    LayerCase(
        Full,
        Off,
        &[HiddenPaths],
        &["read_forbidden_file", "list_forbidden_folder", "rename_forbidden_file"],
        ExpectedResult::Escape,
    ),
    LayerCase(
        Full,
        Off,
        &[PinnedFolders],
        &["rename_folder_of_forbidden_file", "swap_folder_of_forbidden_file", "move_git_away"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[Capabilities], &["keep_capabilities"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[NoNewPrivileges], &["gain_privileges"], ExpectedResult::NoRun),
    LayerCase(Full, Off, &[Landlock, OutsideHidden], &["read_home"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[Landlock], &["share_pages_by_device"], ExpectedResult::Escape),
    LayerCase(
        Reduced,
        Off,
        &[Landlock],
        &["read_outside", "create_outside", "delete_outside", "open_terminal_of_machine"],
        ExpectedResult::Escape,
    ),
    LayerCase(
        Reduced,
        Off,
        &[LandlockScopes, SignalScope],
        &["signal_process", "kill_process"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[LandlockPorts, Sockets], &["connect_tcp", "listen_tcp"], ExpectedResult::Escape),
    LayerCase(Reduced, Off, &[LandlockScopes, Sockets], &["connect_abstract"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[Sockets],
        &[
            "open_inet6",
            "open_netlink",
            "send_udp",
            "look_up_name",
            "open_kernel_crypto_or_unix_datagram",
            "open_vsock",
            "send_ping",
            "open_multipath_tcp",
        ],
        ExpectedResult::Escape,
    ),
    LayerCase(Reduced, Off, &[Sockets], &["connect_unix"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[SocketPairs], &["open_pair_of_inet", "pair_of_datagrams"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[SetIdBits], &["give_away_powers", "make_powerful_file"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[Architecture], &["call_in_another_architecture"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[RefusedSyscalls],
        &[
            "be_traced",
            "read_memory_of_process",
            "take_descriptor_of_process",
            "queue_work_in_kernel",
            "handle_page_faults",
            "use_keyring",
            "new_user_namespace",
            "clone3_into_namespace",
            "hold_memory_without_mapping_it",
            "make_semaphores",
            "make_messages",
            "watch_file_systems",
            "make_rules",
            "wait_in_kernel",
            "fill_pipe_with_pages",
        ],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[RefusedSyscalls, Landlock], &["open_message_queue"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[CloneNamespaces], &["clone_into_namespace"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[TerminalInput],
        &["type_into_terminal", "change_discipline_of_terminal"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[OpenFileLocks], &["lock_open_file", "lease_file"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[DescriptorPassing], &["send_descriptors"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[BufferSizes], &["grow_send_buffer", "resize_pipe"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[SeparateDescriptorTables],
        &["unshare_descriptors", "start_thread_with_own_descriptors"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[DumpableRequests], &["hide_descriptors"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[InotifyLimits], &["watch_files", "watch_many_files"], ExpectedResult::Escape),
    LayerCase(Reduced, Off, &[InotifyLimits], &["watch_files"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[SeparateSession], &["stay_in_session"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[CoreLimit], &["leave_core_file"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[OpenFilesLimit], &["open_many_files"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[MemoryLimit], &["reserve_memory"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[LockedMemoryLimit], &["lock_memory"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[PendingSignalsLimit], &["queue_signals"], ExpectedResult::Escape),
    LayerCase(Reduced, Off, &[PendingSignalsLimit], &["queue_signals"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[CpuLimit], &["burn_processor"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[FileSizeLimit], &["write_large_file"], ExpectedResult::Escape),
    LayerCase(Full, Off, &[ProcessLimit], &["fork_many"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[MemoryMonitor],
        &["fill_memory_in_children", "hop_by_forks", "hop_from_process_to_process"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[AnonymousSharedMemory], &["share_pages_without_a_file"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[MemoryMonitor, AnonymousSharedMemory],
        &["fill_shared_memory"],
        ExpectedResult::Escape,
    ),
    LayerCase(Full, Off, &[PageTableCount], &["fill_page_tables"], ExpectedResult::Escape),
    LayerCase(
        Full,
        Off,
        &[KernelMemoryMonitor],
        &["fill_send_buffers", "poll_many", "lock_many", "map_many", "run_unreadable_program"],
        ExpectedResult::Escape,
    ),
    LayerCase(
        Reduced,
        Off,
        &[KernelMemoryMonitor],
        &["fill_send_buffers", "poll_many", "lock_many", "map_many", "run_unreadable_program"],
        ExpectedResult::Escape,
    ),
    // The descriptor scan would notice that the process cannot be inspected, so it is disabled too.
    LayerCase(
        Full,
        Off,
        &[ThreadLiveness, KernelMemoryMonitor],
        &["fill_memory_after_first_thread"],
        ExpectedResult::Escape,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |row: &'static LayerCase| {
        let LayerCase(tier, _, without, ..) = row;
        let names: Vec<String> = without.iter().map(|guard| format!("{guard:?}")).collect();
        Trial::test(format!("{}_without_{}", tier.as_str(), names.join("_and_")), move || check(row))
    };
    ROWS.iter().map(trial).collect()
}

fn check(row: &'static LayerCase) -> Result<(), Failed> {
    let LayerCase(tier, network, without, attempts, seen) = row;
    let mut wrong = Vec::new();
    for name in *attempts {
        // Every proper subset of the layers must hold too; otherwise the remaining layers of the row would
        // prove nothing.
        let subsets: Vec<Vec<SandboxLayer>> = match without.len() {
            0 | 1 => vec![Vec::new()],
            _ => without
                .iter()
                .map(|one| without.iter().copied().filter(|other| other != one).collect())
                .collect(),
        };
        for left_out in subsets {
            let result = attempt(*tier, *network, &left_out, name);
            if is_escape(&result) {
                wrong.push(format!("{name} succeeds without {left_out:?} alone: {result:?}"));
            }
        }
        let result = attempt(*tier, *network, without, name);
        let is_as_expected = match seen {
            ExpectedResult::Escape => is_escape(&result),
            ExpectedResult::NoRun => matches!(result, Err(SandboxError::SetupFailed { .. })),
        };
        if !is_as_expected {
            wrong.push(format!("{name} without {without:?}: {result:?}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

pub(crate) fn is_escape(result: &Result<(RunEnd, String), SandboxError>) -> bool {
    matches!(result, Ok((RunEnd::Exited(0), text)) if text.trim() == "escaped")
}

/// Layers that use the run's control group. Disabled in every test here: few machines delegate groups to a
/// test, and the other layers must hold without them. `groups` tests these layers.
const CGROUP_LAYERS: &[SandboxLayer] = &[CgroupMemory, CgroupProcesses, CgroupKill];

/// Makes an attempt in a new workspace, with some layers disabled.
fn attempt(
    tier: SandboxTier,
    network: NetworkAccess,
    without: &[SandboxLayer],
    name: &str,
) -> Result<(RunEnd, String), SandboxError> {
    attempt_in_group(tier, network, &[without, CGROUP_LAYERS].concat(), name)
}

/// Like `attempt`, and in a control group where there is one.
pub(crate) fn attempt_in_group(
    tier: SandboxTier,
    network: NetworkAccess,
    without: &[SandboxLayer],
    name: &str,
) -> Result<(RunEnd, String), SandboxError> {
    let fixture = TestWorkspace::new();
    let outside = HostileTargets::create();
    let script = fixture.workspace.join("attempts.py").display().to_string();
    let targets = outside.to_json(&fixture.workspace, &fixture.read_only);
    let confined = fixture.confined(network, &[PYTHON, &script, name, &targets]);
    leak_descriptor(&outside);
    let finished = run_in_group_without(without, &confined, tier)?;
    let text = [finished.stdout, finished.stderr].map(|one| String::from_utf8_lossy(&one.head).into_owned());
    Ok((finished.end, text.concat()))
}

/// Leaks a descriptor to children, as a careless program would.
fn leak_descriptor(outside: &HostileTargets) {
    let careless = outside.tcp.try_clone().expect("a descriptor");
    let flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(&careless, flags).expect("an inheritable descriptor");
    std::mem::forget(careless);
}

/// Runs a command with some layers disabled.
pub(crate) fn run_without(
    without: &[SandboxLayer],
    confined: &ConfinedCommand,
    tier: SandboxTier,
) -> Result<FinishedRun, SandboxError> {
    run_in_group_without(&[without, CGROUP_LAYERS].concat(), confined, tier)
}

/// Like `run_without`, and in a control group where there is one.
pub(crate) fn run_in_group_without(
    without: &[SandboxLayer],
    confined: &ConfinedCommand,
    tier: SandboxTier,
) -> Result<FinishedRun, SandboxError> {
    disable_layers(without);
    let finished = block_on(async {
        let mut launcher = Launcher::start(tier).await?;
        launch::run(confined, tier, &mut launcher, &mut OutputSinks::default()).await
    });
    disable_layers(&[]);
    finished
}

/// A writable workspace and a read-only folder.
pub(crate) struct TestWorkspace {
    _folders: [tempfile::TempDir; 2],
    pub(crate) workspace: PathBuf,
    pub(crate) read_only: PathBuf,
}

impl TestWorkspace {
    pub(crate) fn new() -> TestWorkspace {
        // Below the scratch folders only mounts protect what is granted, because Landlock allows a run
        // everything there.
        let beside = ["/run/lock", "/var/tmp"].iter().find_map(|base| tempfile::tempdir_in(base).ok());
        let folders = [tempfile::tempdir_in("/var/tmp").expect("a folder"), beside.expect("a folder")];
        let [workspace, read_only] = [folders[0].path().to_owned(), folders[1].path().to_owned()];
        hostile::fill_workspace(&workspace, &read_only);
        TestWorkspace { _folders: folders, workspace, read_only }
    }

    /// Creates a command in the workspace, with small limits.
    pub(crate) fn confined(&self, network: NetworkAccess, words: &[&str]) -> ConfinedCommand {
        let found = program::find_system_program(words[0].as_ref()).expect("a program");
        let shows = |path: &std::path::Path| !path.ends_with(".env") && !path.ends_with(".env.d");
        let before = scan::scan(&self.workspace, &ScanBounds::after_run(), shows);
        let words = words.iter().map(Into::into).collect();
        let nothing = ConfinedCommand::without_grants(found, words, 128 << 20, 8, Duration::from_secs(15));
        let spec = RunSpec {
            network,
            folder: self.workspace.clone(),
            writable: vec![self.workspace.clone()],
            readable: vec![self.read_only.clone()],
            hidden: before.hidden.clone(),
            protected: before.mountable().collect(),
            pinned: before.pinned_folders(std::slice::from_ref(&self.workspace), &[]).into_iter().collect(),
            limits: RunLimits {
                cpu_seconds: 1,
                file_bytes: 16 << 20,
                open_files: 256,
                grace: Duration::from_millis(40),
                ..nothing.spec.limits
            },
            ..nothing.spec
        };
        ConfinedCommand { spec, output_bytes: 64 * 1024, ..nothing }
    }
}
