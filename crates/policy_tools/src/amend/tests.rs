//! Edits of hand-written policy files.

use super::{ListBelow, add_commented_items, apply_edit};
use governance::suggested_change::{EditAction, PolicyEdit, PolicyFile};

fn check(text: &str, keys: &str, act: EditAction, expect: Option<&str>) {
    let keys = keys.split('.').map(str::to_owned).collect();
    let edit = PolicyEdit { file: PolicyFile::Tools, keys, action: act };
    assert_eq!(apply_edit(text, &edit, ListBelow::Absent).as_deref(), expect, "{edit:?}\n{text}");
}

fn add(value: &str) -> EditAction {
    EditAction::Add(value.to_owned())
}

fn set(value: &str) -> EditAction {
    EditAction::Set(value.to_owned())
}

fn remove(line: u64, text: &str) -> EditAction {
    EditAction::Remove { line, text: text.to_owned() }
}

const TOOLS_FILE: &str = "# head
tools:
  # the first
  read_file:   # reads
    allowed_in_modes: [NORMAL, \"A, B\"]  # where
    allowed_paths:
      # mine
      - /a
      - \"/b\"   # twice

    forbidden_paths:
    - /x
    # why
    max_file_size_mb: 10 # small

  'Write':
    allowed_paths: [
      /a,  # one
      /b,
    ]
last: [] # end
";

#[test]
fn edit_changes_one_place_only() {
    let put = |from: &str, to: &str| Some(TOOLS_FILE.replacen(from, to, 1));
    let cases = [
        ("tools.read_file.allowed_in_modes", add("ALERT"), put("B\"]", "B\", ALERT]")),
        ("tools.read_file.allowed_paths", add("/c"), put("# twice\n", "# twice\n      - /c\n")),
        ("tools.read_file.forbidden_paths", add("/y"), put("- /x\n", "- /x\n    - /y\n")),
        ("tools.write.allowed_paths", add("/c"), put("/b,\n", "/b, /c,\n")),
        ("last", add("x"), put("[]", "[x]")),
        ("tools.read_file.max_file_size_mb", set("11"), put("10 #", "11 #")),
        ("tools.read_file.hard_links", set("allow"), put("# small\n", "# small\n    hard_links: allow\n")),
        (
            "tools.new.allowed_commands",
            add("ls"),
            put("    ]\n", "    ]\n  new:\n    allowed_commands: [ls]\n"),
        ),
        ("other.key", set("true"), Some(format!("{TOOLS_FILE}other:\n  key: true\n"))),
        ("tools.read_file.allowed_in_modes", remove(5, "A, B"), put(", \"A, B\"]", "]")),
        ("tools.read_file.allowed_in_modes", remove(5, "NORMAL"), put("NORMAL, ", "")),
        ("tools.read_file.allowed_paths", remove(9, ""), put("      - \"/b\"   # twice\n", "")),
        (
            "tools.read_file.forbidden_paths",
            remove(12, ""),
            put("forbidden_paths:\n    - /x\n", "forbidden_paths: []\n"),
        ),
        ("tools.write.allowed_paths", remove(18, "/a"), put("/a,  # one\n      /b", "/b")),
    ];
    for (keys, act, expect) in cases {
        check(TOOLS_FILE, keys, act, expect.as_deref());
    }
}

#[test]
fn unsupported_yaml_forms_are_not_edited() {
    let cases = [
        ("tools: {read_file: {allowed_paths: [/a]}}\n", "tools.read_file.allowed_paths", add("/b")),
        ("a: *list\n", "a", add("x")),
        ("a: [b, *c\n", "a", add("x")),
        ("a: [b] [c]\n", "a", add("x")),
        ("a:\n  b: c\n", "a", add("x")),
        ("a: [b, c]\n", "a", remove(1, "d")),
        ("a: [b]\n", "a", set("true")),
        ("a: |\n  b\n", "a", set("true")),
        ("b: 1\n", "a", remove(1, "x")),
        ("a: [b]\r\n", "a", add("x")),
    ];
    for (text, keys, act) in cases {
        check(text, keys, act, None);
    }
}

#[test]
fn added_items_keep_their_comments() {
    let check = |text: &str, has_list_below: bool, expect: &str| {
        let keys = ["tools", "t", "allowed_paths"].map(str::to_owned);
        let items =
            [("/b".to_owned(), "call 1".to_owned()), ("\"/c/*\"".to_owned(), "calls 2, 3".to_owned())];
        let found = add_commented_items(text, &keys, has_list_below, &items);
        assert_eq!(found.as_deref(), Some(expect), "{text}");
    };
    let block = "        # call 1\n        - /b\n        # calls 2, 3\n        - \"/c/*\"\n";
    check("", true, &format!("tools:\n  t:\n    allowed_paths:\n      add:\n{block}"));
    check("", false, &format!("tools:\n  t:\n    allowed_paths:\n{}", block.replace("        ", "      ")));
    let listed = "tools:\n  t:\n    allowed_paths:\n        # mine\n        - /a\n";
    check(listed, true, &format!("{listed}{block}"));
    let changed = "tools:\n  t:\n    allowed_paths:\n      add:\n        - /a\n";
    check(changed, true, &format!("{changed}{block}"));
    check(
        "tools:\n  t:\n    allowed_paths: [/a] # mine\n",
        true,
        "tools:\n  t:\n    # /b: call 1\n    # \"/c/*\": calls 2, 3\n    allowed_paths: [/a, /b, \"/c/*\"] # mine\n",
    );
    check(
        "tools:\n  # mine\n  t: {allowed_paths: [/a], hard_links: allow}\n",
        true,
        "tools:\n  # mine\n  # /b: call 1\n  # \"/c/*\": calls 2, 3\n  t: {allowed_paths: [/a, /b, \"/c/*\"], hard_links: allow}\n",
    );
    check(
        "tools:\n  t: {hard_links: allow}\n",
        true,
        "tools:\n  # /b: call 1\n  # \"/c/*\": calls 2, 3\n  t: {hard_links: allow, allowed_paths: {add: [/b, \"/c/*\"]}}\n",
    );
}
