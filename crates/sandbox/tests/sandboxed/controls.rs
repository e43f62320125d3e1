//! One row per sandbox layer: an attack that the layer stops and that succeeds when exactly this layer is
//! disabled. Where a second layer stops the attack too, both are disabled together, and the attack is shown
//! to fail with either one.

use std::path::PathBuf;
use std::time::Duration;

use governance::Network;
use libtest_mimic::{Failed, Trial};
use tests::hostile::{self, Outside, PYTHON};
use tool::SandboxTier;

use crate::error::SandboxError;
use crate::launch::pool::Launcher;
use crate::launch::spec::{Limits, Spec};
use crate::launch::{self, Finished};
use crate::layers::Guard;
use crate::layers::left_out::leave_out;
use crate::output::Outlets;
use crate::prepare::Confined;
use crate::prepare::program;
use crate::report::End;
use crate::scan;
use crate::scan::bounds::Bounds;
use crate::wait_for;

use Guard::*;
use Network::{Loopback, Off};
use SandboxTier::{Full, Reduced};

/// Expected result once the layers of a row are disabled.
#[derive(Clone, Copy)]
enum Seen {
    /// The attack succeeds.
    Escape,
    /// Nothing runs at all, because a later step depends on this one.
    NoRun,
}

/// Tier, network, layers to disable, attacks that only these layers stop, and the expected result.
struct Row(SandboxTier, Network, &'static [Guard], &'static [&'static str], Seen);

const ROWS: &[Row] = &[
    Row(Full, Off, &[Strays, Descriptors], &["inherit_descriptors"], Seen::Escape),
    Row(Full, Off, &[MessageNamespace], &["attach_memory"], Seen::Escape),
    Row(Full, Off, &[ProcessNamespace], &["see_process"], Seen::NoRun),
    Row(Full, Off, &[ProcessNamespace, ProcessList, LandlockScopes], &["kill_process"], Seen::Escape),
    Row(Full, Off, &[Undumpable], &["list_descriptors_of_parent"], Seen::Escape),
    Row(Full, Loopback, &[NetworkNamespace], &["connect_tcp"], Seen::Escape),
    Row(Full, Off, &[ReadOnlyRoot], &["chmod_in_home", "set_times_in_home"], Seen::Escape),
    Row(Full, Off, &[ReadOnlyRoot, Landlock], &["write_home"], Seen::Escape),
    Row(Full, Off, &[NoSetuid], &["run_with_owners_powers"], Seen::Escape),
    Row(Full, Off, &[NoDevices], &["have_devices_in_workspace"], Seen::Escape),
    Row(
        Full,
        Off,
        &[ReadOnlyGrant],
        &["chmod_in_read_only_folder", "set_times_in_read_only_folder", "set_attribute_in_read_only_folder"],
        Seen::Escape,
    ),
    Row(Full, Off, &[ReadOnlyGrant, Landlock], &["write_to_read_only_folder"], Seen::Escape),
    Row(Full, Off, &[Scratch], &["read_shared_memory", "read_other_scratch"], Seen::Escape),
    Row(Full, Off, &[ScratchSize, MemoryWatch], &["fill_scratch"], Seen::Escape),
    // The monitor still counts only the run's own processes, so it has no reason to end the run.
    Row(Full, Off, &[ProcessList], &["see_process"], Seen::Escape),
    Row(Full, Off, &[Terminals], &["open_terminal_of_machine", "open_many_terminals"], Seen::Escape),
    Row(
        Full,
        Off,
        &[Kept],
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
        Seen::Escape,
    ),
    Row(
        Full,
        Off,
        &[Hidden],
        &["read_forbidden_file", "list_forbidden_folder", "rename_forbidden_file"],
        Seen::Escape,
    ),
    Row(
        Full,
        Off,
        &[Pinned],
        &["rename_folder_of_forbidden_file", "swap_folder_of_forbidden_file", "move_git_away"],
        Seen::Escape,
    ),
    Row(Full, Off, &[Capabilities], &["keep_capabilities"], Seen::Escape),
    Row(Full, Off, &[NoNewPrivileges], &["gain_privileges"], Seen::NoRun),
    Row(Full, Off, &[Landlock], &["read_home", "share_pages_by_device"], Seen::Escape),
    Row(
        Reduced,
        Off,
        &[Landlock],
        &["read_outside", "create_outside", "delete_outside", "open_terminal_of_machine"],
        Seen::Escape,
    ),
    Row(Reduced, Off, &[LandlockScopes, Fence], &["signal_process", "kill_process"], Seen::Escape),
    Row(Full, Off, &[LandlockPorts, Sockets], &["connect_tcp", "listen_tcp"], Seen::Escape),
    Row(Reduced, Off, &[LandlockScopes, Sockets], &["connect_abstract"], Seen::Escape),
    Row(
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
        Seen::Escape,
    ),
    Row(Reduced, Off, &[Sockets], &["connect_unix"], Seen::Escape),
    Row(Full, Off, &[Pairs], &["open_pair_of_inet", "pair_of_datagrams"], Seen::Escape),
    Row(Full, Off, &[SetId], &["give_away_powers", "make_powerful_file"], Seen::Escape),
    Row(Full, Off, &[Architecture], &["call_in_another_architecture"], Seen::Escape),
    Row(
        Full,
        Off,
        &[Calls],
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
        Seen::Escape,
    ),
    Row(Full, Off, &[Calls, Landlock], &["open_message_queue"], Seen::Escape),
    Row(Full, Off, &[CloneFlags], &["clone_into_namespace"], Seen::Escape),
    Row(Full, Off, &[Typing], &["type_into_terminal", "change_discipline_of_terminal"], Seen::Escape),
    Row(Full, Off, &[Locks], &["lock_open_file", "lease_file"], Seen::Escape),
    Row(Full, Off, &[Sending], &["send_descriptors"], Seen::Escape),
    Row(Full, Off, &[Buffers], &["grow_send_buffer", "resize_pipe"], Seen::Escape),
    Row(
        Full,
        Off,
        &[OwnDescriptors],
        &["unshare_descriptors", "start_thread_with_own_descriptors"],
        Seen::Escape,
    ),
    Row(Full, Off, &[Hiding], &["hide_descriptors"], Seen::Escape),
    Row(Full, Off, &[WatchedFiles], &["watch_files", "watch_many_files"], Seen::Escape),
    Row(Reduced, Off, &[WatchedFiles], &["watch_files"], Seen::Escape),
    Row(Full, Off, &[Session], &["stay_in_session"], Seen::Escape),
    Row(Full, Off, &[CoreLimit], &["leave_core_file"], Seen::Escape),
    Row(Full, Off, &[FilesLimit], &["open_many_files"], Seen::Escape),
    Row(Full, Off, &[DataLimit], &["reserve_memory"], Seen::Escape),
    Row(Full, Off, &[LockLimit], &["lock_memory"], Seen::Escape),
    Row(Full, Off, &[SignalLimit], &["queue_signals"], Seen::Escape),
    Row(Reduced, Off, &[SignalLimit], &["queue_signals"], Seen::Escape),
    Row(Full, Off, &[CpuLimit], &["burn_processor"], Seen::Escape),
    Row(Full, Off, &[SizeLimit], &["write_large_file"], Seen::Escape),
    Row(Full, Off, &[ProcessLimit], &["fork_many"], Seen::Escape),
    Row(
        Full,
        Off,
        &[MemoryWatch],
        &["fill_memory_in_children", "hop_by_forks", "hop_from_process_to_process"],
        Seen::Escape,
    ),
    Row(Full, Off, &[SharedPages], &["share_pages_without_a_file"], Seen::Escape),
    Row(Full, Off, &[MemoryWatch, SharedPages], &["fill_shared_memory"], Seen::Escape),
    Row(Full, Off, &[PageTables], &["fill_page_tables"], Seen::Escape),
    Row(
        Full,
        Off,
        &[HeldWatch],
        &["fill_send_buffers", "poll_many", "lock_many", "map_many", "run_unreadable_program"],
        Seen::Escape,
    ),
    Row(
        Reduced,
        Off,
        &[HeldWatch],
        &["fill_send_buffers", "poll_many", "lock_many", "map_many", "run_unreadable_program"],
        Seen::Escape,
    ),
    // The descriptor scan would notice that the process cannot be inspected, so it is disabled too.
    Row(Full, Off, &[EveryThread, HeldWatch], &["fill_memory_after_first_thread"], Seen::Escape),
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |row: &'static Row| {
        let Row(tier, _, without, ..) = row;
        let names: Vec<String> = without.iter().map(|guard| format!("{guard:?}")).collect();
        Trial::test(format!("{}_without_{}", tier.as_str(), names.join("_and_")), move || check(row))
    };
    ROWS.iter().map(trial).collect()
}

fn check(row: &'static Row) -> Result<(), Failed> {
    let Row(tier, network, without, attempts, seen) = row;
    let mut wrong = Vec::new();
    for name in *attempts {
        // Every proper subset of the layers must hold too; otherwise the remaining layers of the row would
        // prove nothing.
        let kept: Vec<Vec<Guard>> = match without.len() {
            0 | 1 => vec![Vec::new()],
            _ => without
                .iter()
                .map(|one| without.iter().copied().filter(|other| other != one).collect())
                .collect(),
        };
        for left_out in kept {
            let said = attempt(*tier, *network, &left_out, name);
            if is_escape(&said) {
                wrong.push(format!("{name} succeeds without {left_out:?} alone: {said:?}"));
            }
        }
        let said = attempt(*tier, *network, without, name);
        let is_as_expected = match seen {
            Seen::Escape => is_escape(&said),
            Seen::NoRun => matches!(said, Err(SandboxError::NotBuilt { .. })),
        };
        if !is_as_expected {
            wrong.push(format!("{name} without {without:?}: {said:?}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

pub(crate) fn is_escape(said: &Result<(End, String), SandboxError>) -> bool {
    matches!(said, Ok((End::Exited(0), text)) if text.trim() == "escaped")
}

/// Layers that use the run's control group. Disabled in every test here: few machines delegate groups to a
/// test, and the other layers must hold without them. `groups` tests these layers.
const BY_GROUP: &[Guard] = &[MemoryGroup, ProcessGroup, KillGroup];

/// Makes an attempt in a new workspace, with some layers disabled.
fn attempt(
    tier: SandboxTier,
    network: Network,
    without: &[Guard],
    name: &str,
) -> Result<(End, String), SandboxError> {
    attempt_in_group(tier, network, &[without, BY_GROUP].concat(), name)
}

/// Like `attempt`, and in a control group where there is one.
pub(crate) fn attempt_in_group(
    tier: SandboxTier,
    network: Network,
    without: &[Guard],
    name: &str,
) -> Result<(End, String), SandboxError> {
    let world = World::new();
    let outside = Outside::make();
    let script = world.workspace.join("attempts.py").display().to_string();
    let said = outside.described(&world.workspace, &world.read_only);
    let confined = world.confined(network, &[PYTHON, &script, name, &said]);
    leak(&outside);
    let finished = run_in_group_without(without, &confined, tier)?;
    let text = [finished.stdout, finished.stderr].map(|one| String::from_utf8_lossy(&one.head).into_owned());
    Ok((finished.end, text.concat()))
}

/// Leaks a descriptor to children, as a careless program would.
fn leak(outside: &Outside) {
    let careless = outside.tcp.try_clone().expect("a descriptor");
    let flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(&careless, flags).expect("an inheritable descriptor");
    std::mem::forget(careless);
}

/// Runs a command with some layers disabled.
pub(crate) fn run_without(
    without: &[Guard],
    confined: &Confined,
    tier: SandboxTier,
) -> Result<Finished, SandboxError> {
    run_in_group_without(&[without, BY_GROUP].concat(), confined, tier)
}

/// Like `run_without`, and in a control group where there is one.
pub(crate) fn run_in_group_without(
    without: &[Guard],
    confined: &Confined,
    tier: SandboxTier,
) -> Result<Finished, SandboxError> {
    leave_out(without);
    let finished = wait_for(async {
        let mut launcher = Launcher::start(tier).await?;
        launch::run(confined, tier, &mut launcher, &mut Outlets::default()).await
    });
    leave_out(&[]);
    finished
}

/// A writable workspace and a read-only folder.
pub(crate) struct World {
    _folders: [tempfile::TempDir; 2],
    pub(crate) workspace: PathBuf,
    pub(crate) read_only: PathBuf,
}

impl World {
    pub(crate) fn new() -> World {
        // Below the scratch folders only mounts protect what is granted, because Landlock allows a run
        // everything there.
        let beside = ["/run/lock", "/var/tmp"].iter().find_map(|base| tempfile::tempdir_in(base).ok());
        let folders = [tempfile::tempdir_in("/var/tmp").expect("a folder"), beside.expect("a folder")];
        let [workspace, read_only] = [folders[0].path().to_owned(), folders[1].path().to_owned()];
        hostile::furnish(&workspace, &read_only);
        World { _folders: folders, workspace, read_only }
    }

    /// Creates a command in the workspace, with small limits.
    pub(crate) fn confined(&self, network: Network, words: &[&str]) -> Confined {
        let found = program::of_system(words[0].as_ref()).expect("a program");
        let shows = |path: &std::path::Path| !path.ends_with(".env") && !path.ends_with(".env.d");
        let before = scan::take(&self.workspace, &Bounds::after(), shows);
        let words = words.iter().map(Into::into).collect();
        let nothing = Confined::granted_nothing(found, words, 128 << 20, 8, Duration::from_secs(15));
        let spec = Spec {
            network,
            folder: self.workspace.clone(),
            writable: vec![self.workspace.clone()],
            readable: vec![self.read_only.clone()],
            hidden: before.hidden.clone(),
            kept: before.mountable().collect(),
            pinned: before.pinned(std::slice::from_ref(&self.workspace), &[]).into_iter().collect(),
            limits: Limits {
                cpu_seconds: 1,
                file_bytes: 16 << 20,
                open_files: 256,
                grace: Duration::from_millis(40),
                ..nothing.spec.limits
            },
            ..nothing.spec
        };
        Confined { spec, output_bytes: 64 * 1024, ..nothing }
    }
}
