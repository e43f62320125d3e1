//! Notifications about pending approvals: they contain no secret, and no call waits for them.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::*;

#[test]
fn notifier_program_gets_title_and_text_without_secrets() {
    let home = home_requiring_approval(300);
    let reported = home.user_home().join("told.txt");
    let program = home.user_home().join("tell.sh");
    std::fs::write(&program, format!("#!/bin/sh\nprintf '%s|' \"$@\" >> '{}'\n", reported.display()))
        .unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let file = home.root().join("config/sinew.yaml");
    let settings = std::fs::read_to_string(&file).unwrap();
    let notify = format!("notify: [{:?}, \"$(touch pwned)\"]", program.display().to_string());
    home.configure("sinew.yaml", &settings.replace("notify: desktop", &notify));
    let daemon = Daemon::start_in(home);
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2));
    let id = request_approval(
        &mut daemon.agent(),
        &json!({"path": format!("{secret}\u{1b}.txt"), "content": "x"}),
    );
    let deadline = Instant::now() + Duration::from_secs(15);
    let text = loop {
        let text = std::fs::read_to_string(&reported).unwrap_or_default();
        if text.matches('|').count() >= 3 {
            break text;
        }
        assert!(Instant::now() < deadline, "no notification was sent: {text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(text.starts_with("$(touch pwned)|Sinew: a call needs your approval|"), "as arguments: {text}");
    assert!(text.contains(&id) && text.contains("write_file"), "{text}");
    assert!(!text.contains(&secret) && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn hanging_or_missing_notifier_delays_nothing() {
    for program in ["[sleep, \"600\"]", "[/no/such/program]"] {
        let home = home_requiring_approval(300);
        let file = home.root().join("config/sinew.yaml");
        let settings = std::fs::read_to_string(&file).unwrap();
        home.configure("sinew.yaml", &settings.replace("notify: desktop", &format!("notify: {program}")));
        let daemon = Daemon::start_in(home);
        let (mut agent, mut control) = (daemon.agent(), daemon.control());
        for n in 0..8 {
            let arguments = json!({"path": format!("{n}.txt"), "content": "x"});
            let id = request_approval(&mut agent, &arguments);
            decide(&mut control, &id, "approve");
            assert_eq!(write_with_approval(&mut agent, &arguments, &id)["success"], true);
        }
        daemon.stop();
    }
}
