//! Programs that exhaust time, memory, processes or output. None of their processes survives.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Daemon, wait_until};

use super::{home, output, run};

fn python(daemon: &Daemon, code: &str) -> Value {
    run(daemon, &["python3", "-c", code])
}

/// Command lines of processes of this user that contain a word of this test.
fn survivors(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ours = std::process::id();
    let lines =
        ids.filter(|id| *id != ours).filter_map(|id| std::fs::read(format!("/proc/{id}/cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

/// Waits until no process with this word is left; each of them would stay for a minute. The exact delay is
/// measured on an idle machine.
pub(super) fn must_vanish(word: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = survivors(word);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "still there: {left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn runs_have_a_file_size_limit_and_end_before_the_daemon() {
    let daemon = Daemon::start_in(home(""));
    let code = "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE)[0], \
                open('/proc/self/oom_score_adj').read())";
    let text = output(&python(&daemon, code));
    let numbers: Vec<i64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(numbers[0], 4 << 30, "{text}");
    let path = format!("/proc/{}/oom_score_adj", daemon.pid());
    let own: i64 = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
    assert!(numbers[1] > own, "{text} and {own}");
    let lowered = python(&daemon, "open('/proc/self/oom_score_adj', 'w').write('0')");
    assert_ne!(lowered["output"]["exit_code"], 0, "{lowered}");
}

#[test]
fn timeout_ends_everything_a_command_started() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 3\n"));
    let kinds = [
        ("sleeps", "echo so far; exec sleep WORD"),
        ("ignores", "trap '' TERM; echo so far; exec sleep WORD"),
        ("stops", "echo so far; kill -STOP $$; exec sleep WORD"),
        ("spins", "echo so far; exec sh -c 'while :; do :; done' WORD"),
        ("closes", "echo so far; exec >&- 2>&-; exec sleep WORD"),
        ("leaves", "echo so far; (setsid sleep WORD &); trap '' TERM; exec sleep WORD"),
    ];
    std::thread::scope(|scope| {
        for (number, (name, script)) in kinds.into_iter().enumerate() {
            let (daemon, word) = (&daemon, format!("6{number}.{}", std::process::id()));
            scope.spawn(move || time_is_up(daemon, name, &script.replace("WORD", &word), &word));
        }
    });
}

fn time_is_up(daemon: &Daemon, name: &str, script: &str, word: &str) {
    let began = Instant::now();
    let result = run(daemon, &["sh", "-c", script]);
    let took = began.elapsed();
    assert_eq!(result["error"], "Command timed out", "{name}: {result}");
    assert_eq!(result["metadata"]["failure"]["kind"], "timed_out", "{name}");
    let text = &result["output"];
    assert_eq!((&text["timed_out"], &text["exit_code"]), (&json!(true), &json!(-1)), "{name}");
    assert_eq!(text["stdout"], "so far\n", "{name}: {result}");
    assert_eq!(result["metadata"]["sandbox"]["tier"], "full");
    assert!(took > Duration::from_millis(2500), "{name} had its time: {took:?}");
    must_vanish(word);
}

#[test]
fn orphans_of_a_command_end_with_it() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 20\n"));
    let word = format!("sinew-orphan-{}", std::process::id());
    let code = format!(
        "'{word}'\nimport os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  time.sleep(60)\n os._exit(0)\nos.wait()\nprint('done')"
    );
    let began = Instant::now();
    assert_eq!(output(&python(&daemon, &code)), "done\n");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "the call does not wait for a pipe that an orphan holds"
    );
    must_vanish(&word);
}

#[test]
fn killed_daemon_takes_its_commands_along() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 60\n"));
    let word = format!("sinew-crash-{}", std::process::id());
    let mut agent = daemon.agent();
    let code = format!("'{word}'\nimport os, time\nos.setsid() if os.fork() == 0 else 0\ntime.sleep(60)");
    let caller = std::thread::spawn({
        let words = json!({"command": ["python3", "-c", code]});
        move || {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| agent.execute("run_command", &words)))
                .is_ok()
        }
    });
    wait_until("the command is under way", || survivors(&word).len() >= 2);
    let _home = daemon.crash();
    must_vanish(&word);
    let _ = caller.join();
}

#[test]
fn fork_bomb_stays_within_the_process_limit() {
    let daemon = Daemon::start_in(home("    max_processes: 20\n    timeout_seconds: 20\n"));
    let code = "import os\nchildren = 0\ntry:\n for _ in range(100):\n  if os.fork() == 0:\n   import time; time.sleep(30)\n  children += 1\nexcept OSError as error:\n print(children, error.errno)";
    let stdout = output(&python(&daemon, code));
    assert_eq!(stdout, "19 11\n", "the twentieth is refused with EAGAIN");
}

#[test]
fn others_are_served_during_a_fork_bomb() {
    let daemon = Daemon::start_in(home("    max_processes: 30\n    timeout_seconds: 5\n"));
    let word = format!("sinew-bomb-{}", std::process::id());
    // The bomb runs in a subshell, which may fail to fork and end; the outer shell goes on.
    let script = "bomb() { bomb | bomb & }; echo armed > armed; (bomb); while :; do :; done";
    let mut agent = daemon.agent();
    let bomb = json!({"command": ["sh", "-c", script, word]});
    let bomb = std::thread::spawn(move || agent.execute("run_command", &bomb));
    wait_until("the bomb is armed", || daemon.home().workspace().join("armed").exists());
    for number in 0..20 {
        let listed = daemon.agent().execute("list_directory", &json!({"path": "."}));
        assert_eq!(listed["success"], true, "{listed}");
        assert!(number > 0 || !bomb.is_finished(), "it is answered while the bomb goes off");
    }
    let ended = bomb.join().expect("an answer");
    assert_eq!(ended["output"]["timed_out"], true, "{ended}");
    must_vanish(&word);
}

#[test]
fn memory_bomb_is_ended_and_named() {
    let daemon = Daemon::start_in(home("    memory_mb: 128\n    timeout_seconds: 20\n"));
    let result = python(&daemon, "held = []\nwhile True: held.append(bytearray(1 << 20))");
    assert_eq!(result["output"]["end"], "out_of_memory", "{result}");
    assert_eq!(result["metadata"]["failure"]["kind"], "too_large", "no fault of the machine's");
    let result = python(&daemon, "open('/tmp/fill', 'wb').write(b'x' * (512 << 20))");
    assert_ne!(result["output"]["exit_code"], 0, "scratch space is memory too: {result}");
    let result = python(&daemon, "open('/dev/shm/fill', 'wb').write(b'x' * (512 << 20))");
    assert_ne!(result["output"]["exit_code"], 0, "and so is what is shared: {result}");
    let result = python(&daemon, "bytearray(100 << 30)");
    assert_eq!(result["output"]["exit_code"], 1, "refused at once: {result}");
}

#[test]
fn flood_of_output_is_cut_in_the_middle_and_counted() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 20\n"));
    let code = "import sys\nfor stream in (sys.stdout, sys.stderr):\n stream.write('first')\n stream.write('x' * 20_000_000)\n stream.write('last')";
    let result = python(&daemon, code);
    for (name, omitted) in [("stdout", "stdout_omitted_bytes"), ("stderr", "stderr_omitted_bytes")] {
        let text = result["output"][name].as_str().unwrap();
        assert!(text.starts_with("firstx") && text.ends_with("xlast"), "{name}");
        assert_eq!(result["output"][omitted], 20_000_009 - 65_536, "{name}");
    }
    assert_eq!(result["metadata"]["truncated"]["total"], 40_000_018);
    let bytes = python(&daemon, "import sys; sys.stdout.buffer.write(bytes([0, 255, 254]))");
    assert_eq!(bytes["output"]["stdout_encoding"], "base64");
    assert_eq!(bytes["output"]["stdout"], "AP/+");
}
