//! The daemon as a service: files of service managers, commands to them, and socket activation.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use tests::{Home, SinewRun, sinew};

/// Runs `sinew` with a fake `systemctl` that logs its arguments and exits with this code.
fn run_managed(home: &Home, code: i32, words: &[&str]) -> (SinewRun, String) {
    run_answered(home, (code, ""), words)
}

/// Like `run_managed`, with a `systemctl` that also prints this text.
fn run_answered(home: &Home, (code, message): (i32, &str), words: &[&str]) -> (SinewRun, String) {
    run_scripted(home, &format!("echo '{message}'\nexit {code}"), words)
}

/// Like `run_managed`, with a `systemctl` that ends with these lines.
fn run_scripted(home: &Home, lines: &str, words: &[&str]) -> (SinewRun, String) {
    let programs = home.user_home().join("programs");
    let reported = home.user_home().join("told");
    std::fs::create_dir_all(&programs).unwrap();
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\n{lines}\n", reported.display());
    let manager = programs.join("systemctl");
    std::fs::write(&manager, script).unwrap();
    std::fs::set_permissions(&manager, std::fs::Permissions::from_mode(0o755)).unwrap();
    let _ = std::fs::remove_file(&reported);
    let mut command = sinew();
    command.args(words).env("SINEW_HOME", home.root()).env("HOME", home.user_home());
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    let run = SinewRun { arguments: words.join(" "), output: command.output().unwrap() };
    (run, std::fs::read_to_string(reported).unwrap_or_default())
}

fn unit(home: &Home, name: &str) -> std::path::PathBuf {
    home.user_home().join(".config/systemd/user").join(name)
}

#[test]
fn service_is_installed_once_and_removed_completely() {
    let home = Home::initialised();
    let (first, reported) = run_managed(&home, 0, &["service", "install"]);
    assert!(first.must_exit(0).stdout().contains("written"));
    assert!(reported.contains("--user enable sinew.socket sinew.service"), "{reported}");
    let text = std::fs::read_to_string(unit(&home, "sinew.service")).unwrap();
    let (again, _) = run_managed(&home, 0, &["service", "install"]);
    assert!(again.must_exit(0).stdout().contains("unchanged"), "a second time changes nothing");
    std::fs::write(unit(&home, "sinew.service"), "of another version").unwrap();
    let (status, _) = run_managed(&home, 0, &["service", "status"]);
    assert!(status.must_exit(6).stdout().contains("to update it"));
    let (refreshed, _) = run_managed(&home, 0, &["service", "install"]);
    assert!(refreshed.must_exit(0).stdout().contains("updated"));
    assert_eq!(std::fs::read_to_string(unit(&home, "sinew.service")).unwrap(), text);
    for (verb, word) in [("start", "start"), ("stop", "stop"), ("restart", "restart")] {
        let (run, reported) = run_managed(&home, 0, &["service", verb]);
        run.must_exit(0);
        assert!(reported.contains(&format!("--user {word} ")), "{verb}: {reported}");
    }
    std::fs::remove_file(unit(&home, "sinew.socket")).unwrap();
    let (removed, reported) = run_managed(&home, 0, &["service", "uninstall"]);
    let listed = removed.must_exit(0).stdout();
    assert!(listed.contains("removed: ") && listed.contains("sinew.service"), "{listed}");
    assert!(!listed.contains("sinew.socket"), "only what was removed is listed: {listed}");
    assert!(reported.contains("disable --now"), "{reported}");
    assert!(!unit(&home, "sinew.service").exists() && !unit(&home, "sinew.socket").exists());
    assert!(home.root().join("config/sinew.yaml").exists(), "what is the user's stays");
    let (missing, reported) = run_managed(&home, 0, &["service", "start"]);
    assert!(missing.must_exit(1).stderr().contains("sinew service install"));
    assert!(reported.is_empty(), "a manager is not asked about what is not there: {reported}");
}

#[test]
fn failure_of_a_manager_is_quoted_with_a_remedy() {
    let home = Home::initialised();
    let (failed, _) = run_managed(&home, 1, &["service", "install"]);
    let failed = failed.must_exit(1);
    assert!(failed.stderr().contains("systemctl --user show-environment` failed"), "{failed}");
    assert!(failed.stderr().contains("sinew serve") && failed.stderr().contains("enable-linger"), "{failed}");
    assert!(!home.user_home().join(".config/systemd").exists(), "nothing was written");
}

#[test]
fn half_an_installation_of_the_service_is_undone() {
    let home = Home::initialised();
    // The manager answers, and then fails to enable the units.
    let fails = "case \"$*\" in *enable*) echo no >&2; exit 1 ;; esac";
    let (failed, reported) = run_scripted(&home, fails, &["service", "install"]);
    let failed = failed.must_exit(1);
    assert!(
        failed.stderr().contains("`systemctl --user enable sinew.socket sinew.service` failed"),
        "{failed}"
    );
    assert!(reported.contains("disable --now"), "what was started is stopped: {reported}");
    assert!(!unit(&home, "sinew.service").exists() && !unit(&home, "sinew.socket").exists());
    // Files of an earlier installation come back.
    std::fs::write(unit(&home, "sinew.service"), "of another version").unwrap();
    let (failed, reported) = run_scripted(&home, fails, &["service", "install"]);
    failed.must_exit(1);
    assert!(!reported.contains("disable"), "the earlier service is left running: {reported}");
    assert_eq!(std::fs::read_to_string(unit(&home, "sinew.service")).unwrap(), "of another version");
    assert!(!unit(&home, "sinew.socket").exists());
}

#[test]
fn service_file_names_the_link_to_the_program() {
    let home = Home::initialised();
    let link = home.user_home().join("bin/sinew");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(sinew().get_program(), &link).unwrap();
    let text = |program: &std::path::Path, path: &str| {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", path).env("SINEW_HOME", home.root()).env("HOME", home.user_home());
        let output =
            command.args(["service", "install", "--platform", "systemd", "--print"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let line = format!("ExecStart=\"{}\" serve", link.display());
    assert!(text(&link, "/usr/bin:/bin").contains(&line), "the path it was started by");
    let path = format!("{}:/usr/bin", link.parent().unwrap().display());
    assert!(text(std::path::Path::new(sinew().get_program()), &path).contains(&line), "the name in PATH");
}

#[test]
fn service_files_are_valid_for_both_managers() {
    let home = Home::initialised();
    let list = home.run(&["service", "install", "--platform", "launchd", "--print"]).must_exit(0).stdout();
    let check = "import plistlib,sys; p=plistlib.loads(sys.stdin.buffer.read()); \
                 s=p['Sockets']; a=p['ProgramArguments']; v=p['EnvironmentVariables']; \
                 assert a[1]=='serve' and p['ProcessType']=='Interactive' and p['KeepAlive']=={'SuccessfulExit':False}; \
                 assert p['Umask']==0o077 and p['SoftResourceLimits']['NumberOfFiles']>=4096 and p['RunAtLoad']; \
                 assert all(s[n]['SockPathMode']==0o600 for n in ('agent','control')); \
                 assert '/usr/bin' in v['PATH'].split(':') and '/opt/homebrew/bin' in v['PATH'].split(':'); \
                 assert all(f.startswith('/') for f in [a[0],p['WorkingDirectory'],p['StandardOutPath'],p['StandardErrorPath'], \
                   s['agent']['SockPathName'],s['control']['SockPathName'],v['SINEW_HOME']]); print('ok')";
    let mut python = Command::new("python3");
    python.args(["-c", check]).stdin(Stdio::piped()).stdout(Stdio::piped());
    match python.spawn() {
        Ok(mut child) => {
            use std::io::Write;
            child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ok", "{list}");
        }
        Err(error) => println!("left out: python3: {error}"),
    }
    let units = home.run(&["service", "install", "--platform", "systemd", "--print"]).must_exit(0).stdout();
    assert!(units.contains("[Service]") && units.contains("ListenStream="), "{units}");
    assert!(!unit(&home, "sinew.service").exists(), "nothing was written");
    verify_units(&home, &units);
}

/// Checks units with `systemd-analyze verify`, which finds unknown keys and invalid values.
fn verify_units(home: &Home, units: &str) {
    let folder = home.user_home().join("units");
    std::fs::create_dir(&folder).unwrap();
    let heading = "# Written by";
    let [_, service, socket] = units.split(heading).collect::<Vec<_>>()[..] else {
        panic!("two units: {units}")
    };
    for (name, text) in [("sinew.service", service), ("sinew.socket", socket)] {
        std::fs::write(folder.join(name), format!("{heading}{text}")).unwrap();
    }
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--user"]).arg(folder.join("sinew.service")).arg(folder.join("sinew.socket"));
    match verify.env("XDG_RUNTIME_DIR", home.user_home()).output() {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let ours: Vec<&str> = stderr.lines().filter(|line| line.contains("sinew.")).collect();
            assert!(ours.is_empty(), "{stderr}");
        }
        Err(error) => println!("left out: systemd-analyze: {error}"),
    }
}

/// A service manager does not read the shell's variables, so the unit has to contain those that set
/// directories.
#[test]
fn service_uses_the_directories_of_the_installing_shell() {
    let home = Home::new();
    let mut command = sinew();
    command.args(["service", "install", "--platform", "systemd", "--print"]).env("HOME", home.user_home());
    command.env("XDG_STATE_HOME", home.user_home().join("elsewhere")).env("XDG_CONFIG_HOME", "not/absolute");
    let units = SinewRun { arguments: "service install".to_owned(), output: command.output().unwrap() }
        .must_exit(0)
        .stdout();
    assert!(units.contains(&format!("XDG_STATE_HOME={}/elsewhere\"", home.user_home().display())), "{units}");
    assert!(!units.contains("XDG_CONFIG_HOME") && !units.contains("SINEW_HOME"), "{units}");
}

#[test]
fn no_service_is_installed_beside_a_manual_daemon() {
    let daemon = tests::Daemon::start();
    let (refused, reported) = run_managed(daemon.home(), 0, &["service", "install"]);
    let refused = refused.must_exit(1);
    assert!(refused.stderr().contains(&format!("kill {}", daemon.pid())), "{refused}");
    assert!(
        reported.is_empty() && !unit(daemon.home(), "sinew.service").exists(),
        "nothing was touched: {reported}"
    );
    let home = daemon.stop();
    let (installed, _) = run_managed(&home, 0, &["service", "install"]);
    installed.must_exit(0);
    let absent = home.run(&["status"]).must_exit(6);
    assert!(absent.stderr().contains("sinew service start"), "the way out is that of this machine: {absent}");
    let daemon = tests::Daemon::start_in(home);
    let (again, _) = run_managed(daemon.home(), 0, &["service", "install"]);
    assert!(again.must_exit(0).stdout().contains("unchanged"), "its own daemon is no other");
    for verb in ["start", "restart"] {
        // A number elsewhere in the output of the manager is not its answer.
        for text in ["0", "", "1", &format!("Tasks: {} (limit: 99)", daemon.pid())] {
            let (refused, reported) = run_answered(daemon.home(), (0, text), &["service", verb]);
            let refused = refused.must_exit(1);
            assert!(refused.stderr().contains(&format!("kill {}", daemon.pid())), "{refused}");
            assert!(
                reported.contains("MainPID") && !reported.contains(verb),
                "the manager was only asked: {reported}"
            );
        }
        let known = daemon.pid().to_string();
        let (run, reported) = run_answered(daemon.home(), (0, &known), &["service", verb]);
        let printed = run.must_exit(0).stdout();
        // What the manager started itself is its own. A running daemon restarts in place, in the same process.
        let restarted =
            printed.contains(&format!("restarted: version {}, pid {known};", env!("CARGO_PKG_VERSION")));
        assert_eq!(reported.contains("--user start "), verb == "start", "{reported}");
        assert_eq!(
            restarted && !reported.contains("--user restart "),
            verb == "restart",
            "{printed}{reported}"
        );
    }
}

/// A socket of a service manager accepts every connection, and a connection starts the daemon.
#[test]
fn read_only_commands_do_not_activate_the_socket() {
    let home = Home::initialised();
    let sockets = managed_sockets(&home);
    for words in [&["status"][..], &["wait", "--ready", "--timeout", "0"], &["service", "status"]] {
        let run = home.run(words).must_exit(6);
        assert!(!run.output.stderr.is_empty() || words[0] == "service", "{run}");
    }
    home.run(&["doctor"]).must_exit(0);
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
        let knocked = socket.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(knocked, Err(std::io::ErrorKind::WouldBlock), "no connection was made");
    }
}

/// Sockets as a service manager opens them.
fn managed_sockets(home: &Home) -> [UnixListener; 2] {
    std::fs::create_dir_all(home.root().join("run")).unwrap();
    std::fs::set_permissions(home.root().join("run"), PermissionsExt::from_mode(0o700)).unwrap();
    ["agent.sock", "control.sock"].map(|name| {
        let listener = UnixListener::bind(home.socket(name)).unwrap();
        std::fs::set_permissions(home.socket(name), PermissionsExt::from_mode(0o600)).unwrap();
        listener
    })
}

#[test]
fn activated_sockets_are_used_and_left_to_the_manager() {
    use std::os::fd::AsRawFd;
    let home = Home::initialised();
    let sockets = managed_sockets(&home);
    // As systemd does: descriptors from 3 on, and a `LISTEN_PID` that only the started process has.
    let mut shell = Command::new("/bin/sh");
    let redirect = format!("exec 3<&{} 4<&{}", sockets[0].as_raw_fd(), sockets[1].as_raw_fd());
    shell.arg("-c").arg(format!("{redirect}; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$0\" serve"));
    shell.arg(sinew().get_program()).env("SINEW_HOME", home.root()).env("HOME", home.user_home());
    for socket in &sockets {
        nix::fcntl::fcntl(socket, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    }
    let mut daemon = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    drop(sockets);
    // The client connects before the daemon runs, and is answered all the same.
    let mut client = tests::Client::connect(&home.socket("agent.sock"));
    assert!(client.request("ping", &serde_json::json!({}))["result"].is_object());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    assert!(daemon.wait().unwrap().success());
    assert!(home.socket("agent.sock").exists(), "the manager's file is not removed");
}
