//! `sinew check` across the rules of several tools: content that one tool may not read and another one shows.

use serde_json::json;
use tests::Home;

#[test]
fn path_forbidden_to_one_tool_and_open_to_others_warns() {
    let home = Home::initialised();
    let check = |others: &str| {
        let tools = format!("tools:\n  read_file:\n    forbidden_paths: [\"**/secret\"]\n{others}");
        home.configure("governance/tools.yaml", &tools);
        let found = home.run(&["check", "--json"]).must_exit(0).json();
        let warnings = found["warnings"].as_array().unwrap().iter();
        let about: Vec<String> = warnings
            .filter(|one| one["message"].as_str().unwrap().contains("may still be open to"))
            .map(|one| format!("{} {}", one["line"], one["message"]))
            .collect();
        about
    };
    let found = check("");
    assert_eq!(found.len(), 1, "{found:?}");
    for part in ["3 ", "**/secret", "edit_file", "search_files", "run_command"] {
        assert!(found[0].contains(part), "{part}: {found:?}");
    }
    assert!(!found[0].contains("list_directory"), "it shows names alone: {found:?}");
    let text = home.run(&["check"]).must_exit(0).stdout();
    assert!(text.contains("if no tool may read it, add it to `forbidden_paths` of"), "{text}");
    let named = found[0].split_once("open to ").unwrap().1.trim_end_matches('"').to_owned();
    let closed =
        named.split(", ").map(|tool| format!("  {tool}: {{forbidden_paths: {}}}\n", json!(["**/secret*"])));
    assert_eq!(check(&closed.collect::<String>()), [""; 0]);
}
