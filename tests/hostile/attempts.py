"""Attempts to escape the sandbox, one function each. A successful attempt prints `escaped`, a stopped one the error.

Run with the attempt's name and a JSON object that describes the targets outside. Without a sandbox every attempt
escapes, which shows that the sandbox and not a defect of the attempt stopped it.
"""

import ctypes
import errno
import json
import os
import socket
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
MACHINE = os.uname().machine
# name: (x86_64, aarch64)
NUMBERS = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "renameat2": (316, 276),
    "unshare": (272, 97),
    "io_setup": (206, 0),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "mount": (165, 40),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "semget": (64, 190),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "fanotify_init": (300, 262),
    "landlock_create_ruleset": (444, 444),
    "close_range": (436, 436),
    "exit": (60, 93),
}
ATTEMPTS = {}
PROBES = {}


def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function


def probe(function):
    """Probes one limit of the sandbox. Not run without a sandbox, because a machine may have limits of its own."""
    PROBES[function.__name__] = function
    return function


def call(name, *arguments):
    number = NUMBERS[name][0 if MACHINE == "x86_64" else 1]
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    answer = LIBC.syscall(ctypes.c_long(number), *words)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return answer


def in_child(work):
    """Runs `work`, which changes its process, in a child process."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        raise OSError(code if code > 0 else errno.EPERM, "in a child")


def in_children(count, work):
    """Runs `work` in several processes concurrently."""
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


# Files outside the granted folder.


@attempt
def read_outside(at):
    open(at["outside"] + "/secret").read()


@attempt
def list_outside(at):
    os.listdir(at["outside"])


@attempt
def create_outside(at):
    open(at["outside"] + "/new", "w").close()


@attempt
def overwrite_outside(at):
    open(at["outside"] + "/secret", "w").write("mine")


@attempt
def append_outside(at):
    open(at["outside"] + "/secret", "a").write("mine")


@attempt
def truncate_outside(at):
    os.truncate(at["outside"] + "/secret", 0)


@attempt
def delete_outside(at):
    os.unlink(at["outside"] + "/secret")


@attempt
def rename_outside(at):
    os.rename(at["outside"] + "/secret", at["outside"] + "/moved")


@attempt
def make_folder_outside(at):
    os.mkdir(at["outside"] + "/folder")


@attempt
def chmod_outside(at):
    os.chmod(at["outside"] + "/secret", 0o777)


@attempt
def set_times_outside(at):
    os.utime(at["outside"] + "/secret", (1, 1))


@attempt
def set_attribute_outside(at):
    os.setxattr(at["outside"] + "/secret", "user.mine", b"1")


@attempt
def stat_in_home(at):
    os.stat(at["home"] + "/note")


@attempt
def read_link_in_home(at):
    os.readlink(at["home"] + "/link")


@attempt
def watch_home(at):
    watcher = LIBC.inotify_init()
    if watcher < 0 or LIBC.inotify_add_watch(watcher, at["home"].encode(), 0x100) < 0:
        raise OSError(ctypes.get_errno(), "inotify")


@attempt
def chmod_in_home(at):
    os.chmod(at["home"] + "/note", 0o777)


@attempt
def set_times_in_home(at):
    os.utime(at["home"] + "/note", (1, 1))


@attempt
def read_home(at):
    open(at["home"] + "/note").read()


@attempt
def write_home(at):
    open(at["home"] + "/note", "r+").write("mine")


@attempt
def write_to_read_only_folder(at):
    open(at["read_only"] + "/given", "r+").write("mine")


@attempt
def chmod_in_read_only_folder(at):
    os.chmod(at["read_only"] + "/given", 0o777)


@attempt
def set_times_in_read_only_folder(at):
    os.utime(at["read_only"] + "/given", (1, 1))


@attempt
def set_attribute_in_read_only_folder(at):
    os.setxattr(at["read_only"] + "/given", "user.mine", b"1")


@attempt
def read_through_link(at):
    os.symlink(at["outside"] + "/secret", at["workspace"] + "/way")
    open(at["workspace"] + "/way").read()


@attempt
def link_to_outside(at):
    os.link(at["outside"] + "/secret", at["workspace"] + "/second-name")


@attempt
def move_out(at):
    open(at["workspace"] + "/goods", "w").close()
    os.rename(at["workspace"] + "/goods", at["outside"] + "/goods")


@attempt
def read_shared_memory(at):
    open(at["shm"]).read()


@attempt
def read_other_scratch(at):
    open(at["var_tmp"]).read()


@attempt
def open_terminal_of_machine(at):
    os.close(os.open(at["terminal"], os.O_RDWR | os.O_NOCTTY))


# Names inside the granted folder that are hidden or protected.


@attempt
def read_forbidden_file(at):
    open(at["workspace"] + "/.env").read()


@attempt
def list_forbidden_folder(at):
    os.listdir(at["workspace"] + "/.env.d")


@attempt
def rename_forbidden_file(at):
    os.rename(at["workspace"] + "/.env", at["workspace"] + "/allowed")


@attempt
def rename_folder_of_forbidden_file(at):
    os.rename(at["workspace"] + "/vault", at["workspace"] + "/allowed")


@attempt
def swap_folder_of_forbidden_file(at):
    # RENAME_EXCHANGE swaps both names atomically.
    os.mkdir(at["workspace"] + "/other")
    old, new = (os.fsencode(at["workspace"] + name) for name in ("/vault/inner", "/other"))
    call("renameat2", -100, old, -100, new, 2)


@attempt
def move_git_away(at):
    os.rename(at["workspace"] + "/.git", at["workspace"] + "/old")


@attempt
def write_git_hook(at):
    open(at["workspace"] + "/.git/hooks/pre-commit", "w").write("#!/bin/sh\n")


@attempt
def overwrite_git_config(at):
    open(at["workspace"] + "/.git/config", "a").write("[core]\nfsmonitor=evil\n")


@attempt
def replace_git_config(at):
    open(at["workspace"] + "/.git/other", "w").write("[core]\nfsmonitor=evil\n")
    os.rename(at["workspace"] + "/.git/other", at["workspace"] + "/.git/config")


@attempt
def move_git_hooks_away(at):
    os.rename(at["workspace"] + "/.git/hooks", at["workspace"] + "/.git/unhooked")


@attempt
def chmod_git_hook(at):
    os.chmod(at["workspace"] + "/.git/hooks/sample", 0o777)


@attempt
def overwrite_shell_startup(at):
    open(at["workspace"] + "/.bashrc", "a").write("evil\n")


@attempt
def delete_shell_startup(at):
    os.unlink(at["workspace"] + "/.bashrc")


@attempt
def overwrite_agent_settings(at):
    open(at["workspace"] + "/.mcp.json", "w").write("{}")


# Other processes.


@attempt
def see_process(at):
    os.stat("/proc/%d" % at["victim"])


@attempt
def signal_process(at):
    os.kill(at["victim"], 0)


@attempt
def kill_process(at):
    os.kill(at["victim"], 9)


@attempt
def read_environment_of_process(at):
    open("/proc/%d/environ" % at["victim"], "rb").read()


@attempt
def list_descriptors_of_process(at):
    os.listdir("/proc/%d/fd" % at["victim"])


@attempt
def watch_process(at):
    handle = call("pidfd_open", at["victim"], 0)
    os.close(handle)


@attempt
def be_traced(at):
    in_child(lambda: call("ptrace", 0, 0, 0, 0))


@attempt
def read_memory_of_process(at):
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    source, target = ctypes.create_string_buffer(b"x" * 8), ctypes.create_string_buffer(8)
    local = Part(ctypes.addressof(target), 8)
    remote = Part(ctypes.addressof(source), 8)
    call("process_vm_readv", os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)


@attempt
def list_descriptors_of_parent(at):
    os.listdir("/proc/%d/fd" % os.getppid())


@attempt
def attach_memory(at):
    LIBC.shmat.restype = ctypes.c_void_p
    if LIBC.shmat(int(at["memory"]), None, 0) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "shmat")


@attempt
def take_descriptor_of_process(at):
    handle = call("pidfd_open", os.getpid(), 0)
    call("pidfd_getfd", handle, 1, 0)


# New namespaces and mounts.

NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000


@attempt
def new_user_namespace(at):
    in_child(lambda: call("unshare", NEW_USER))


@attempt
def clone_into_namespace(at):
    child = call("clone", NEW_USER | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@attempt
def clone3_into_namespace(at):
    arguments = struct.pack("=QQQQQQQQ", NEW_USER, 0, 0, 0, 17, 0, 0, 0)
    child = call("clone3", ctypes.create_string_buffer(arguments, 64), 64)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@attempt
def mount_over(at):
    def work():
        call("unshare", NEW_USER | NEW_MOUNTS)
        call("mount", b"t", b"/tmp", b"tmpfs", 0, b"")

    in_child(work)


@attempt
def change_root(at):
    def work():
        call("unshare", NEW_USER)
        call("chroot", b"/usr")

    in_child(work)


@attempt
def copy_mounts(at):
    def work():
        call("unshare", NEW_USER | NEW_MOUNTS)
        call("open_tree", -100, b"/", 0x8001)

    in_child(work)


@attempt
def open_file_system(at):
    def work():
        call("unshare", NEW_USER | NEW_MOUNTS)
        call("fsopen", b"tmpfs", 0)

    in_child(work)


# The kernel.


@attempt
def queue_work_in_kernel(at):
    call("io_uring_setup", 4, ctypes.create_string_buffer(120))


@attempt
def wait_in_kernel(at):
    call("io_setup", 1, ctypes.byref(ctypes.c_ulong(0)))


@attempt
def fill_pipe_with_pages(at):
    # The pages stay in the pipe after the file is gone.
    _, start = os.pipe()
    with open(sys.executable, "rb") as file:
        os.sendfile(start, file.fileno(), 0, 4096)


@attempt
def share_pages_without_a_file(at):
    import mmap

    mmap.mmap(-1, 1 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS).close()


@attempt
def share_pages_by_device(at):
    os.close(os.open("/dev/zero", os.O_RDWR))


@attempt
def handle_page_faults(at):
    call("userfaultfd", 1)


@attempt
def use_keyring(at):
    call("add_key", b"user", b"sinew-hostile", b"x", 1, -2)


@attempt
def call_in_another_architecture(at):
    # System calls of another architecture bypass a filter by number. ENOSYS means that the filter passed the call.
    if MACHINE == "x86_64":
        child = os.fork()
        if child == 0:
            LIBC.syscall(ctypes.c_long(0x40000000 | 39))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            raise OSError(errno.EPERM, "ended by signal %d" % os.WTERMSIG(status))


@attempt
def type_into_terminal(at):
    # On a pipe the kernel returns ENOTTY, which means that the filter passed the call.
    reader, _ = os.pipe()
    answer = LIBC.ioctl(reader, ctypes.c_ulong(0x5412), ctypes.create_string_buffer(b"x"))
    if answer < 0 and ctypes.get_errno() != errno.ENOTTY:
        raise OSError(ctypes.get_errno(), "TIOCSTI")


# Kernel resources that all programs of a user share, or that are not accounted to a process.


@attempt
def make_semaphores(at):
    call("semctl", call("semget", 0, 1, 0o1600), 0, 0)


@attempt
def make_messages(at):
    call("msgctl", call("msgget", 0, 0o1600), 0, 0)


@attempt
def open_message_queue(at):
    name = b"sinew-hostile-%d" % os.getpid()
    os.close(call("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, 0))
    call("mq_unlink", name)


@attempt
def watch_file_systems(at):
    os.close(call("fanotify_init", 0x200, 0))


@attempt
def make_rules(at):
    os.close(call("landlock_create_ruleset", ctypes.create_string_buffer(struct.pack("=Q", 1), 8), 8, 0))


@attempt
def send_descriptors(at):
    one, _other = socket.socketpair()
    socket.send_fds(one, [b"x"], [0, 1, 2])


@attempt
def grow_send_buffer(at):
    one, _other = socket.socketpair()
    before = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, before // 4)
    if one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == before:
        raise OSError(errno.EPERM, "it stays as it was")


@attempt
def resize_pipe(at):
    import fcntl

    _, writer = os.pipe()
    fcntl.fcntl(writer, 1031, 4096)


@attempt
def lock_open_file(at):
    # The lock would last as long as the file is mapped, and no descriptor shows it.
    import fcntl

    with open(at["workspace"] + "/locked", "w") as file:
        fcntl.fcntl(file, 37, struct.pack("=hhxxxxqqixxxx", fcntl.F_WRLCK, 0, 0, 1, 0))


@attempt
def lease_file(at):
    # Every other process that opens the file would have to wait.
    import fcntl

    with open(at["workspace"] + "/leased", "w") as file:
        fcntl.fcntl(file, 1024, fcntl.F_WRLCK)


@attempt
def change_discipline_of_terminal(at):
    # On a pipe the kernel returns ENOTTY, which means that the filter passed the call.
    reader, _ = os.pipe()
    answer = LIBC.ioctl(reader, ctypes.c_ulong(0x5423), ctypes.create_string_buffer(4))
    if answer < 0 and ctypes.get_errno() != errno.ENOTTY:
        raise OSError(ctypes.get_errno(), "TIOCSETD")


@attempt
def unshare_descriptors(at):
    call("close_range", 1 << 20, 1 << 20, 2)


@attempt
def hide_descriptors(at):
    LIBC.prctl(4, 0, 0, 0, 0)
    if LIBC.prctl(3, 0, 0, 0, 0) != 0:
        raise OSError(errno.EPERM, "it can be looked into")


@attempt
def start_thread_with_own_descriptors(at):
    # A thread without shared memory is invalid. EINVAL means that the filter passed the call.
    try:
        call("clone", 0x10000, 0, 0, 0, 0)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


# The network.


@attempt
def connect_tcp(at):
    socket.create_connection(("127.0.0.1", at["tcp"]), 5).close()


@attempt
def listen_tcp(at):
    with socket.socket(socket.AF_INET) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()


@attempt
def send_udp(at):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", at["udp"]))


@attempt
def open_inet6(at):
    socket.socket(socket.AF_INET6).close()


@attempt
def open_pair_of_inet(at):
    # The kernel has no such pairs. Its error means that the filter passed the call.
    try:
        socket.socketpair(socket.AF_INET)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise


@attempt
def pair_of_datagrams(at):
    # Either end could send to any socket name.
    for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM):
        end.close()


@attempt
def open_vsock(at):
    try:
        socket.socket(40, socket.SOCK_STREAM).close()
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.ENODEV):
            raise


@attempt
def send_ping(at):
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).close()
    except OSError as error:
        # EACCES comes from net.ipv4.ping_group_range of this machine, so the filter passed the call.
        if error.errno != errno.EACCES:
            raise


@attempt
def open_multipath_tcp(at):
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()
    except OSError as error:
        if error.errno != errno.EPROTONOSUPPORT:
            raise


@attempt
def look_up_name(at):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.connect(("127.0.0.1", 53))


@attempt
def open_netlink(at):
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()


@attempt
def open_kernel_crypto_or_unix_datagram(at):
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close()


@attempt
def connect_unix(at):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(at["unix"])


@attempt
def connect_abstract(at):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect("\0" + at["abstract"])


# Privileges and leftover files.


@attempt
def give_away_powers(at):
    # Another user that can reach the file would run it as its owner.
    path = os.path.join(at["workspace"], "powerful")
    with open(path, "w"):
        os.chmod(path, 0o4755)
    if not os.stat(path).st_mode & 0o4000:
        raise OSError(errno.EPERM, "the bit is not there")


@attempt
def make_powerful_file(at):
    path = os.path.join(at["workspace"], "made-powerful")
    os.umask(0)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))
    if not os.stat(path).st_mode & 0o4000:
        raise OSError(errno.EPERM, "the bit is not there")


@attempt
def hold_memory_without_mapping_it(at):
    os.close(os.memfd_create("held"))


@attempt
def keep_capabilities(at):
    for line in open("/proc/self/status"):
        if line.startswith("CapBnd") and int(line.split()[1], 16) == 0:
            raise OSError(errno.EPERM, "the bounding set is empty")


@attempt
def gain_privileges(at):
    if LIBC.prctl(39, 0, 0, 0, 0) == 1:
        raise OSError(errno.EPERM, "no_new_privs is set")


@attempt
def run_with_owners_powers(at):
    if os.statvfs("/usr").f_flag & os.ST_NOSUID:
        raise OSError(errno.EPERM, "nosuid")


@attempt
def run_without_filter(at):
    for line in open("/proc/self/status"):
        if line.startswith("Seccomp:") and line.split()[1] == "2":
            raise OSError(errno.EPERM, "system calls are filtered")


@attempt
def read_variables_of_daemon(at):
    if "SINEW_CANARY" not in os.environ:
        raise OSError(errno.ENOENT, "the variable is not there")


@attempt
def inherit_descriptors(at):
    def is_open(number):
        try:
            os.fstat(number)
            return True
        except OSError:
            return False

    if not any(is_open(number) for number in range(3, 1024)):
        raise OSError(errno.EBADF, "only the three are open")


@attempt
def wait_for_input(at):
    if os.fstat(0).st_rdev == os.stat("/dev/null").st_rdev:
        raise OSError(errno.ENOTTY, "standard input is /dev/null")


@attempt
def stay_in_session(at):
    if os.getsid(0) == os.getpid():
        raise OSError(errno.EPERM, "it leads a session of its own")


# Resource limits.


@probe
def have_devices_in_workspace(at):
    if os.statvfs(at["workspace"]).f_flag & 4:
        raise OSError(errno.EPERM, "nodev")


@probe
def leave_core_file(at):
    import resource

    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        raise OSError(errno.EPERM, "no core files")


@probe
def open_many_files(at):
    held = [open("/dev/null") for _ in range(300)]
    held.clear()


@probe
def reserve_memory(at):
    import mmap

    mmap.mmap(-1, 2 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()


@probe
def lock_memory(at):
    import mmap

    held = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(held))
    if LIBC.mlock(ctypes.c_void_p(address), ctypes.c_size_t(1 << 20)) != 0:
        raise OSError(ctypes.get_errno(), "mlock")


@probe
def queue_signals(at):
    import signal

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    for _ in range(2000):
        if LIBC.sigqueue(os.getpid(), signal.SIGRTMIN, None) != 0:
            raise OSError(ctypes.get_errno(), "sigqueue")


@probe
def watch_files(at):
    held = []
    for _ in range(32):
        handle = LIBC.inotify_init()
        if handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init")
        held.append(handle)


@probe
def watch_many_files(at):
    for number in range(20000):
        os.close(os.open("/tmp/watched-%d" % number, os.O_CREAT))
    handle = LIBC.inotify_init()
    for number in range(20000):
        if LIBC.inotify_add_watch(handle, b"/tmp/watched-%d" % number, 2) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")


@probe
def burn_processor(at):
    import time

    while time.process_time() < 2.5:
        pass


@probe
def write_large_file(at):
    with open(at["workspace"] + "/large", "wb") as large:
        for _ in range(32):
            large.write(bytes(1 << 20))


@probe
def fork_many(at):
    children = []
    try:
        for _ in range(12):
            child = os.fork()
            if child == 0:
                import time

                time.sleep(60)
            children.append(child)
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)


@probe
def fill_scratch(at):
    for number in range(24):
        with open("/tmp/fill-%d" % number, "wb") as fill:
            fill.write(bytes(8 << 20))


@probe
def fill_shared_memory(at):
    import mmap
    import time

    held = mmap.mmap(-1, 240 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    for start in range(0, len(held), 1 << 20):
        held[start : start + (1 << 20)] = b"x" * (1 << 20)
    time.sleep(2)


@probe
def fill_page_tables(at):
    # Reading untouched memory maps the shared zero page, so only page tables grow.
    import time

    size, step = 128 << 30, 2 << 20
    LIBC.mmap.restype = ctypes.c_void_p
    start = LIBC.mmap(None, ctypes.c_size_t(size), 1, 0x4022, -1, 0)
    if start == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    for offset in range(0, size, step):
        ctypes.string_at(start + offset, 1)
    time.sleep(2)


@probe
def fill_send_buffers(at):
    import time

    def work():
        held = [socket.socketpair() for _ in range(100)]
        for end in (end for pair in held for end in pair):
            end.setblocking(False)
            try:
                while True:
                    end.send(bytes(1 << 16))
            except BlockingIOError:
                pass
        time.sleep(2)

    in_children(4, work)


@probe
def run_unreadable_program(at):
    # The kernel makes a process undumpable if its user cannot read the program, so its memory cannot be inspected.
    import shutil
    import subprocess

    copy = at["workspace"] + "/unreadable"
    shutil.copy("/bin/sleep", copy)
    os.chmod(copy, 0o111)
    subprocess.run([copy, "4"], check=True)


@probe
def poll_many(at):
    # epoll keeps one watch per descriptor number the file had, after the descriptors are closed.
    import select
    import time

    reader, _ = os.pipe()
    held = []
    for _ in range(60):
        poll = select.epoll()
        held.append(poll)
        for number in range(100, 250):
            os.dup2(reader, number)
            poll.register(number, select.EPOLLIN)
    time.sleep(2)


@probe
def lock_many(at):
    import fcntl
    import time

    held = [open(at["workspace"] + "/locked-%d" % number, "w") for number in range(20)]
    for file in held:
        for number in range(500):
            fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * number)
    time.sleep(2)


@probe
def map_many(at):
    # Each mapping holds an open file, which may carry a lock, without a descriptor.
    import time

    def work():
        for _ in range(9000):
            file = os.open(at["workspace"] + "/mapped", os.O_RDONLY)
            LIBC.mmap(None, ctypes.c_size_t(4096), 1, 2, file, ctypes.c_long(0))
            os.close(file)
        time.sleep(3)

    with open(at["workspace"] + "/mapped", "w") as file:
        file.write("x" * 4096)
    in_children(4, work)


@probe
def open_many_terminals(at):
    held = [os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) for _ in range(40)]
    held.clear()


@probe
def fill_memory_after_first_thread(at):
    import threading
    import time

    def work():
        while "\nState:\tZ" not in open("/proc/self/status").read():
            time.sleep(0.01)
        held = b"x" * (240 << 20)
        time.sleep(2)
        os.write(1, b"escaped\n")
        os._exit(len(held) & 1)

    threading.Thread(target=work).start()
    call("exit", 0)


@probe
def fill_memory_in_children(at):
    import time

    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            held = b"x" * (60 << 20)
            time.sleep(2)
            os._exit(len(held) & 1)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def hop_by_fork():
    """Continues in a child for ever, while each parent exits."""
    while True:
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            pass


def hop(flags):
    """Like `hop_by_fork`, in machine code that shares memory, with these additional clone flags."""
    import mmap

    if MACHINE != "x86_64":
        hop_by_fork()
    # Calls clone; the child continues (the parent too if clone failed), the parent exits. Both share one stack,
    # so the code uses none.
    code = b"\xbf" + struct.pack("<I", 0x111 | flags) + bytes.fromhex(
        "31f6" "31d2" "4d31d2" "4d31c0" "b838000000" "0f05" "85c0" "7ee6" "b83c000000" "31ff" "0f05"
    )
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
    page.write(code)
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def hop_with_memory(hop):
    """Holds more memory than the limit, in processes that exit before they can be measured."""
    import time

    # All start together once they are ready, because the first one uses up the process limit.
    waits, begins = os.pipe()
    hears, says = os.pipe()
    for _ in range(3):
        if os.fork() == 0:
            os.close(begins)
            held = [b"x" * (25 << 20)]
            os.write(says, b"x")
            os.close(says)
            os.read(waits, 1)
            held.append(b"x" * (35 << 20))
            hop()
            os._exit(len(held))
    os.close(says)
    for _ in range(3):
        os.read(hears, 1)
    os.close(begins)
    time.sleep(3)


@probe
def hop_by_forks(at):
    hop_with_memory(hop_by_fork)


@probe
def hop_from_process_to_process(at):
    hop_with_memory(lambda: hop(0))


def hop_a_second(flags):
    import time

    if os.fork() == 0:
        hop(flags)
    time.sleep(1)


@probe
def hop_for_a_second(at):
    hop_a_second(0)


@probe
def hop_among_siblings(at):
    # Their parent ignores SIGCHLD, so the kernel reaps them.
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    hop_a_second(0x8000)


@probe
def hop_below_one_who_adopts(at):
    import signal

    if LIBC.prctl(36, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    hop_a_second(0)


@probe
def hop_past_the_end(at):
    # The program exits, and its descendants keep changing their process id.
    if os.fork() == 0:
        os.setsid()
        hop(0)


@probe
def raise_limits_of_group(at):
    # Writes to the cgroup files that limit the run.
    group = next(line[3:].strip() for line in open("/proc/self/cgroup") if line.startswith("0::"))
    mounts = (line.split() for line in open("/proc/self/mountinfo") if " - cgroup2 " in line)
    folder = next(words[4] for words in mounts) + group
    with open(folder + "/pids.max", "w") as file:
        file.write("max")


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(ATTEMPTS))
        return
    try:
        (ATTEMPTS | PROBES)[sys.argv[1]](json.loads(sys.argv[2]))
        print("escaped")
    except OSError as error:
        print("contained:", errno.errorcode.get(error.errno, error.errno), error)


main()
