//! Queries of macOS about processes, ports and services, without the way in which a program is run. Compiled and
//! tested on every platform, against recorded output.

use jiff::civil::DateTime;

use super::ps;
use crate::system::process_facts::ProcessFacts;
use crate::system::service::{self, ServiceStatus};

/// Runs a program of the system by its absolute path. Returns its standard output, or none if the program could
/// not be run.
pub(super) type RunSystemProgram<'a> = &'a dyn Fn(&str, &[&str]) -> Option<String>;

const PS: &str = "/bin/ps";
const LSOF: &str = "/usr/sbin/lsof";

/// Returns the facts of a process, or nothing if `ps` shows no process with this pid.
pub(super) fn process_facts(
    run: RunSystemProgram<'_>,
    pid: i64,
    to_utc: impl Fn(DateTime) -> Option<f64>,
    now: f64,
) -> Option<ProcessFacts> {
    let text = run(PS, &["-o", ps::COLUMNS, "-p", &pid.to_string()])?;
    ps::parse_process(text.lines().next()?, to_utc, now)
}

/// Returns true if processes of all users are visible. The first process always exists, so if it is missing, `ps`
/// did not run or shows only some processes.
pub(super) fn shows_all_processes(run: RunSystemProgram<'_>) -> bool {
    run(PS, &["-o", "pid=", "-p", "1"]).is_some_and(|text| text.trim() == "1")
}

/// Returns the pids of the processes with this name, at most `max`.
pub(super) fn pids_by_name(run: RunSystemProgram<'_>, name: &str, max: usize) -> Vec<i64> {
    run(PS, &["-ax", "-o", "pid=,comm="]).map(|list| ps::pids_by_name(&list, name, max)).unwrap_or_default()
}

/// Returns the number of sockets listening on a port, and the pids of the visible processes that hold them. `lsof`
/// does not show the sockets of other users, `netstat` shows them without a process.
pub(super) fn port_listeners(run: RunSystemProgram<'_>, port: u16) -> (usize, Vec<i64>) {
    let tcp = run(LSOF, &["-nP", &format!("-iTCP:{port}"), "-sTCP:LISTEN", "-Fp"]);
    let udp = run(LSOF, &["-nP", &format!("-iUDP:{port}"), "-Fp"]);
    let mut holders: Vec<i64> =
        [tcp, udp].iter().flatten().flat_map(|text| ps::parse_lsof_pids(text)).collect();
    holders.sort_unstable();
    holders.dedup();
    let table = run("/usr/sbin/netstat", &["-an", "-f", "inet"]).unwrap_or_default();
    let table6 = run("/usr/sbin/netstat", &["-an", "-f", "inet6"]).unwrap_or_default();
    let sockets = ps::listening_sockets(&table, port) + ps::listening_sockets(&table6, port);
    (sockets.max(holders.len()), holders)
}

/// Queries a launchd agent of this user, or a daemon of the system.
pub(super) fn query_service(run: RunSystemProgram<'_>, user: u32, label: &str) -> Option<ServiceStatus> {
    let domains = [format!("gui/{user}/{label}"), format!("user/{user}/{label}"), format!("system/{label}")];
    let print = |target: &String| run("/bin/launchctl", &["print", target]);
    domains.iter().find_map(|target| service::parse_launchctl(label, &print(target)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs nothing: returns the recorded output of the first row whose program and words match.
    fn recorded<'a>(rows: &'a [(&str, &str, &str)]) -> impl Fn(&str, &[&str]) -> Option<String> + 'a {
        move |program, words| {
            let line = format!("{program} {}", words.join(" "));
            let row = rows.iter().find(|(program, word, _)| line.starts_with(program) && line.contains(word));
            row.map(|(.., output)| (*output).to_owned())
        }
    }

    fn utc(time: DateTime) -> Option<f64> {
        Some(time.in_tz("UTC").ok()?.timestamp().as_duration().as_secs_f64())
    }

    #[test]
    fn process_is_found_by_pid_and_by_name() {
        let line = "  501     1   501 S    Mon Nov 16 10:11:12 2026     0:02.50   0.0   2048 /usr/libexec/rapportd\n";
        let rows = [
            (PS, "-p 501", line),
            (PS, "-p 1", "    1\n"),
            (PS, "-p ", ""),
            (PS, "-ax", "    1 /sbin/launchd\n  501 /usr/libexec/rapportd\n"),
        ];
        let run = recorded(&rows);
        assert_eq!(process_facts(&run, 501, utc, 1_794_823_900.0).unwrap().name, "rapportd");
        assert!(process_facts(&run, 77, utc, 0.0).is_none(), "`ps` shows no such process");
        assert!(shows_all_processes(&run));
        assert_eq!(pids_by_name(&run, "rapportd", 9), [501]);
    }

    #[test]
    fn ps_that_does_not_answer_hides_all_processes() {
        for rows in [&[][..], &[(PS, "", "")][..], &[(PS, "", "ps: sysctl: Operation not permitted\n")][..]] {
            let run = recorded(rows);
            assert!(!shows_all_processes(&run), "{rows:?}");
            assert!(process_facts(&run, 1, utc, 0.0).is_none(), "{rows:?}");
            assert_eq!(pids_by_name(&run, "launchd", 9), [0; 0], "{rows:?}");
            assert_eq!(port_listeners(&run, 22), (0, vec![]), "{rows:?}");
            assert!(query_service(&run, 501, "com.openssh.sshd").is_none(), "{rows:?}");
        }
    }

    #[test]
    fn sockets_of_other_users_are_counted_without_a_process() {
        let inet = "Active Internet connections (including servers)\n\
                    Proto Recv-Q Send-Q  Local Address          Foreign Address        (state)\n\
                    tcp4       0      0  127.0.0.1.8080         *.*                    LISTEN\n\
                    tcp4       0      0  *.22                   *.*                    LISTEN\n\
                    tcp4       0      0  10.0.0.2.22            10.0.0.9.50022         ESTABLISHED\n\
                    udp4       0      0  *.5353                 *.*\n\
                    udp4       0      0  10.0.0.2.5353          10.0.0.9.22\n";
        let inet6 = "tcp6       0      0  *.22                   *.*                    LISTEN\n\
                     udp6       0      0  fe80::1%lo0.5353       *.*\n";
        let rows = [
            (LSOF, "-iTCP:8080", "p812\nf5\n"),
            (LSOF, "", ""),
            ("/usr/sbin/netstat", "-f inet6", inet6),
            ("/usr/sbin/netstat", "-f inet", inet),
        ];
        let run = recorded(&rows);
        assert_eq!(port_listeners(&run, 8080), (1, vec![812]));
        assert_eq!(port_listeners(&run, 22), (2, vec![]), "a daemon of root listens");
        assert_eq!(port_listeners(&run, 5353), (2, vec![]));
        assert_eq!(port_listeners(&run, 50022), (0, vec![]), "the other end of a connection");
    }

    #[test]
    fn service_is_searched_in_every_domain() {
        let missing = "Could not find service \"x\" in domain for user gui: 501\n";
        let printed = "system/com.openssh.sshd = {\n\tstate = running\n\tpid = 99\n\truns = 3\n\tlast exit code = (never exited)\n\t\tstate = inner\n}\n";
        let rows = [
            ("/bin/launchctl", "print system/com.openssh.sshd", printed),
            ("/bin/launchctl", "print", missing),
        ];
        let run = recorded(&rows);
        let found = query_service(&run, 501, "com.openssh.sshd").unwrap();
        assert_eq!(
            (found.state.as_str(), found.pid, found.restarts, found.last_exit_code),
            ("running", Some(99), Some(2), None)
        );
        assert!(query_service(&run, 501, "com.example.none").is_none());
    }
}
