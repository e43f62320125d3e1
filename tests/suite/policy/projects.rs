//! Project policies bind programs that start in another workspace, in the real sandbox.

use serde_json::{Value, json};
use tests::Daemon;

#[test]
fn program_started_elsewhere_cannot_change_a_project() {
    let home = crate::sandbox::home("");
    let project = home.user_home().canonicalize().unwrap().join("project");
    for folder in ["src", ".sinew"] {
        std::fs::create_dir_all(project.join(folder)).unwrap();
    }
    let file = project.join("src/a.txt");
    std::fs::write(&file, "old").unwrap();
    let policy = "tools: {run_command: {allowed_commands: [ls]}}\n";
    std::fs::write(project.join(".sinew/policy.yaml"), policy).unwrap();
    std::os::unix::fs::symlink(&project, home.workspace().join("link")).unwrap();
    home.run(&["workspace", "add", project.to_str().unwrap()]).must_exit(0);
    let daemon = Daemon::start_in(home);
    let run = |words: &[&str]| -> Value { daemon.agent().execute("run_command", &json!({"command": words})) };
    let named = run(&["touch", file.to_str().unwrap()]);
    assert_eq!(named["metadata"]["refusal"]["code"], "command_not_allowed", "{named}");
    // No word of these leads into the project by its text.
    let parts = file.to_str().unwrap().replace('/', "|");
    let by_parts = format!("open('{parts}'.replace('|', chr(47)), 'w').write('new')");
    let by_link = "open('link/src/a.txt', 'w').write('new')";
    let renamed = "import os; os.rename('link/src/a.txt', 'link/src/b.txt')";
    let linked = "import os; os.link('link/src/a.txt', 'b.txt'); open('b.txt', 'w').write('new')";
    for script in [&by_parts, by_link, renamed, linked] {
        let result = run(&["python3", "-c", script]);
        assert_ne!(result["output"]["exit_code"], 0, "{script}: {result}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old", "{script}: {result}");
    }
    let read = run(&["python3", "-c", "print(open('link/src/a.txt').read())"]);
    assert_eq!(read["output"]["stdout"], "old\n", "reading is not restricted: {read}");
    let own = run(&["python3", "-c", "open('own.txt', 'w').write('new')"]);
    assert_eq!(own["output"]["exit_code"], 0, "its own workspace stays writable: {own}");
}
