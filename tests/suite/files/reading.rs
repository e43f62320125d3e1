//! `read_file`, `list_directory` and `search_files` on real files.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use serde_json::{Value, json};
use tool::canonical::sha256_hex;

use super::FileToolFixture;

#[test]
fn file_is_read_whole_or_in_part() {
    let mut scene = FileToolFixture::new();
    let text = "one\ntwo\nthree\nfour\n";
    scene.file("f.txt", text);
    let whole = scene.output_of("read_file", json!({"path": "f.txt"}));
    assert_eq!((&whole["content"], &whole["encoding"]), (&json!(text), &json!("utf-8")));
    assert_eq!((&whole["size"], &whole["sha256"]), (&json!(19), &json!(sha256_hex(text.as_bytes()))));
    assert!(whole["modified"].as_str().unwrap().ends_with('Z'));
    for (arguments, content, offset, cut) in [
        (json!({"offset": 4}), "two\nthree\nfour\n", 4, false),
        (json!({"offset": 4, "length": 3}), "two", 4, true),
        (json!({"start_line": 2, "end_line": 3}), "two\nthree\n", 4, true),
        (json!({"start_line": 3}), "three\nfour\n", 8, false),
        (json!({"head": 1}), "one\n", 0, true),
        (json!({"tail": 2}), "three\nfour\n", 8, false),
        (json!({"tail": 9}), text, 0, false),
        (json!({"offset": 99}), "", 99, false),
    ] {
        let mut asked = arguments.clone();
        asked["path"] = json!("f.txt");
        let result = scene.result_of("read_file", asked);
        let output = &result["output"];
        assert_eq!((&output["content"], &output["offset"]), (&json!(content), &json!(offset)), "{arguments}");
        assert_eq!(output["sha256"], whole["sha256"], "of the whole file");
        assert_eq!(result["metadata"]["truncated"].is_object(), cut, "{arguments}: {result}");
    }
    let (kind, message) = scene.failure_of("read_file", json!({"path": "f.txt", "head": 1, "tail": 1}));
    assert_eq!(
        (kind.as_str(), message.as_str()),
        ("conflict", "the arguments name more than one part of the file")
    );
}

#[test]
fn read_failures_are_distinct() {
    let mut scene = FileToolFixture::new();
    scene.file("secret.txt", "x");
    scene.file("large.txt", "x".repeat(2048));
    let shut = scene.daemon.home().workspace().join("secret.txt");
    std::fs::set_permissions(shut, std::fs::Permissions::from_mode(0o000)).unwrap();
    for (arguments, kind) in [
        (json!({"path": "missing"}), "not_found"),
        (json!({"path": "."}), "wrong_kind"),
        (json!({"path": "large.txt", "max_size_mb": 0.001}), "too_large"),
        (json!({"path": "secret.txt"}), "unreadable"),
    ] {
        assert_eq!(scene.failure_of("read_file", arguments.clone()).0, kind, "{arguments}");
    }
}

#[test]
fn binary_content_is_returned_unchanged() {
    let mut scene = FileToolFixture::new();
    let bytes: Vec<u8> = (0..=255).collect();
    scene.file("b", &bytes);
    let read = scene.output_of("read_file", json!({"path": "b"}));
    assert_eq!((&read["encoding"], &read["sha256"]), (&json!("base64"), &json!(sha256_hex(&bytes))));
    assert!(read["content"].as_str().unwrap().starts_with("AAECAwQFBgcICQoLDA0ODxAR"));
    scene.file("t", "text");
    let read = scene.output_of("read_file", json!({"path": "t", "encoding": "base64"}));
    assert_eq!((&read["content"], &read["encoding"]), (&json!("dGV4dA=="), &json!("base64")));
}

#[test]
fn long_text_is_cut_between_characters_and_can_be_continued() {
    let mut scene = FileToolFixture::new();
    let text = "é€𝄞x".repeat(120_000);
    scene.file("long.txt", &text);
    let (mut read, mut offset) = (String::new(), 0);
    loop {
        let result = scene.result_of("read_file", json!({"path": "long.txt", "offset": offset}));
        let part = result["output"]["content"].as_str().unwrap();
        read.push_str(part);
        let truncated = &result["metadata"]["truncated"];
        if truncated.is_null() {
            break;
        }
        offset = read.len();
        assert_eq!(truncated["how_to_continue"], format!("call again with offset={offset}"));
        assert_eq!(truncated["total"], text.len());
    }
    assert!(read == text, "nothing is lost at the cuts");
}

#[test]
fn special_files_are_not_opened() {
    let mut scene = FileToolFixture::new();
    let pipe = scene.daemon.home().workspace().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    // One handle for both ends of the pipe, so that the written bytes stay unread.
    let mut waiting = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    std::io::Write::write_all(&mut waiting, b"data").unwrap();
    let socket = scene.daemon.home().workspace().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let began = Instant::now();
    for tool in ["read_file", "write_file", "edit_file", "delete_file"] {
        for name in ["pipe", "socket"] {
            let mut arguments = json!({"path": name});
            match tool {
                "write_file" => arguments["content"] = json!("x"),
                "edit_file" => arguments["edits"] = json!([{"old_text": "a", "new_text": "b"}]),
                _ => {}
            }
            let (kind, message) = scene.failure_of(tool, arguments);
            assert_eq!(kind, "wrong_kind", "{tool} {name}: {message}");
        }
    }
    assert!(began.elapsed() < Duration::from_secs(10), "the call does not wait for a peer");
    assert_eq!(scene.names(), ["pipe", "socket"]);
    assert_eq!(std::io::Read::read(&mut waiting, &mut [0; 16]).unwrap(), 4, "not a byte was taken");
    let found = scene.output_of("search_files", json!({"query": "x"}));
    assert_eq!((&found["matches"], &found["searched_files"]), (&json!([]), &json!(0)));
}

/// Devices are refused even if the policy allows their paths.
#[test]
fn devices_are_never_read_or_written() {
    let home = tests::Home::initialised();
    let entry = "{allowed_in_modes: [NORMAL], allowed_paths: [\"/dev/**\"]}";
    home.configure(
        "governance/tools.yaml",
        &format!("tools:\n  read_file: {entry}\n  write_file: {entry}\n"),
    );
    let daemon = tests::Daemon::start_in(home);
    let mut agent = daemon.agent();
    let block = std::fs::read_dir("/dev")
        .unwrap()
        .flatten()
        .find(|entry| std::os::unix::fs::FileTypeExt::is_block_device(&entry.file_type().unwrap()));
    let block = block.map(|entry| entry.path().display().to_string());
    let fixed = ["/dev/zero", "/dev/urandom", "/dev/full", "/dev/tty", "/dev/stdin"].map(str::to_owned);
    for path in fixed.into_iter().chain(block) {
        for (tool, arguments) in [
            ("read_file", json!({"path": path, "length": 1})),
            ("write_file", json!({"path": path, "content": "x"})),
        ] {
            let result = agent.execute(tool, &arguments);
            assert_eq!(result["success"], false, "{tool} {path}: {result}");
            let kind = result["metadata"]["failure"]["kind"].as_str();
            let code = result["metadata"]["refusal"]["code"].as_str();
            let refused = code
                .is_some_and(|code| ["control_plane", "path_forbidden", "path_not_allowed"].contains(&code));
            assert!(
                kind == Some("wrong_kind") || kind == Some("unreadable") || refused,
                "{tool} {path}: {result}"
            );
        }
    }
}

#[test]
fn endless_file_gives_its_beginning_and_its_size() {
    let mut scene = FileToolFixture::new();
    let path = scene.daemon.home().workspace().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.write_all_at(b"first\n", 0).unwrap();
    if file.set_len(1 << 40).is_err() {
        file.set_len(1 << 33).unwrap();
    }
    let size = file.metadata().unwrap().len();
    assert_eq!(scene.failure_of("read_file", json!({"path": "sparse"})).0, "too_large");
    let read = scene.result_of("read_file", json!({"path": "sparse", "head": 1}));
    assert_eq!((&read["output"]["content"], &read["output"]["size"]), (&json!("first\n"), &json!(size)));
    assert!(read["metadata"]["truncated"].is_object(), "{read}");
    assert_eq!(read["output"]["sha256"], Value::Null, "a tebibyte is not digested");
    let read = scene.result_of("read_file", json!({"path": "sparse", "offset": 6, "length": 10}));
    assert_eq!(read["output"]["encoding"], "base64", "what has a NUL in it is no text: {read}");
    assert_eq!(read["output"]["content"], "AAAAAAAAAAAAAA==");
    let found = scene.output_of("search_files", json!({"query": "first"}));
    assert_eq!(found["skipped"]["too_large"], 1, "{found}");
    let before = peak(&scene);
    for arguments in [
        json!({"tail": 10}),
        json!({"offset": 1_u64 << 32, "length": 1_u64 << 32}),
        json!({"start_line": 2, "max_size_mb": 32}),
        json!({"start_line": 1_u64 << 40}),
    ] {
        let mut asked = arguments.clone();
        asked["path"] = json!("sparse");
        let answer = scene.agent.execute("read_file", &asked);
        assert!(answer["success"].is_boolean(), "{arguments}: {answer:.300}");
    }
    let grown = peak(&scene).saturating_sub(before);
    assert!(grown < 64 << 20, "a tebibyte went by and the daemon grew by {grown}");
}

#[test]
fn number_that_fits_no_integer_is_refused_by_the_schema() {
    let mut scene = FileToolFixture::new();
    scene.file("a.txt", "one\n");
    let least = 1_u64 << 53;
    // Some parsers read the second number as the first, so both are refused.
    let near = [json!(least), json!(least + 1)];
    let far = [json!(1e30), json!(18_446_744_073_709_551_616.0), json!(1e19), json!(u64::MAX)];
    for number in near.into_iter().chain(far) {
        let answer = scene.agent.execute("read_file", &json!({"path": "a.txt", "head": number}));
        assert_eq!(answer["metadata"]["refusal"]["code"], "invalid_arguments", "{number}: {answer:.300}");
    }
    let most = json!({"path": "a.txt", "head": least - 1});
    assert_eq!(scene.result_of("read_file", most)["output"]["content"], "one\n");
}

/// Returns the peak resident memory of the daemon, in bytes.
fn peak(scene: &FileToolFixture) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", scene.daemon.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn directory_is_listed_by_depth_in_order_and_in_pages() {
    let mut scene = FileToolFixture::new();
    scene.file("b.rs", "22");
    scene.file("a/deep/c.rs", "333");
    scene.file("a/x.txt", "1");
    scene.file(".env", "SECRET=1");
    symlink("/etc", scene.daemon.home().workspace().join("link")).unwrap();
    let names = |output: &Value| -> Vec<String> {
        let entries = output["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    let listed = scene.output_of("list_directory", json!({"path": "."}));
    assert_eq!(
        (names(&listed), &listed["total"]),
        (vec!["a".into(), "b.rs".into(), "link".into()], &json!(3))
    );
    assert_eq!(
        (&listed["entries"][2]["kind"], &listed["entries"][2]["target"]),
        (&json!("symlink"), &json!("/etc"))
    );
    let deep = scene.output_of("list_directory", json!({"path": ".", "depth": 5}));
    assert_eq!(names(&deep), ["a", "a/deep", "a/deep/c.rs", "a/x.txt", "b.rs", "link"]);
    let globbed =
        scene.output_of("list_directory", json!({"path": ".", "depth": 5, "glob": "*.rs", "sort": "size"}));
    assert_eq!(names(&globbed), ["a/deep/c.rs", "b.rs"]);
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut arguments = json!({"path": ".", "depth": 5, "max_entries": 2});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = scene.result_of("list_directory", arguments);
        seen.extend(names(&page["output"]));
        // An entry that is added before the cursor is not shown and shifts nothing.
        scene.file("a/deep/0", "new");
        cursor = page["output"]["next_cursor"].clone();
        assert_eq!(page["metadata"]["truncated"].is_object(), !cursor.is_null());
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, ["a", "a/deep", "a/deep/0", "a/deep/c.rs", "a/x.txt", "b.rs", "link"]);
    assert_eq!(scene.failure_of("list_directory", json!({"path": ".", "cursor": "nonsense"})).0, "conflict");
    let shut = scene.daemon.home().workspace().join("a/deep");
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o000)).unwrap();
    let listed = scene.output_of("list_directory", json!({"path": ".", "depth": 5}));
    std::fs::set_permissions(shut, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(listed["unreadable"], json!(["a/deep"]));
}

#[test]
fn large_directory_is_listed_in_parts() {
    let mut scene = FileToolFixture::new();
    let all: BTreeSet<String> = (0..10_100).map(|number| format!("n{number:05}")).collect();
    let folder = scene.daemon.home().workspace().join("large");
    std::fs::create_dir(&folder).unwrap();
    all.iter().for_each(|name| std::fs::write(folder.join(name), "x").unwrap());
    let (mut seen, mut arguments) = (Vec::new(), json!({"path": "large", "max_entries": 4000}));
    loop {
        let page = scene.result_of("list_directory", arguments.clone());
        let entries = page["output"]["entries"].as_array().unwrap();
        assert!(entries.len() <= 4000 && entries.iter().all(|entry| entry["size"] == 1), "{page}");
        assert_eq!(page["output"]["complete"], false);
        seen.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        arguments["cursor"] = page["output"]["next_cursor"].clone();
        assert_eq!(page["metadata"]["truncated"].is_object(), !arguments["cursor"].is_null());
        if arguments["cursor"].is_null() {
            break;
        }
    }
    assert_eq!((seen.len(), seen.into_iter().collect()), (all.len(), all));
    let found = scene.output_of("list_directory", json!({"path": "large", "glob": "*99"}));
    assert_eq!((found["entries"].as_array().unwrap().len(), &found["total"]), (101, &json!(101)));
    arguments = json!({"path": "large", "cursor": "at.zz"});
    assert_eq!(scene.failure_of("list_directory", arguments).0, "conflict");
}

#[test]
fn lines_and_names_are_found() {
    let mut scene = FileToolFixture::new();
    scene.file("src/main.rs", "fn main() {\n    // TODO: more\n}\n");
    scene.file("src/lib.rs", "// todo\n// TODO(x)\n");
    scene.file("target/out.rs", "TODO\n");
    scene.file(".gitignore", "target/\n*.log\n");
    scene.file("src/.gitignore", "!keep.log\n");
    scene.file("src/keep.log", "TODO kept\n");
    scene.file("a.log", "TODO\n");
    scene.file("binary", b"TODO\0\n");
    scene.file(".env", "TODO=secret\n");
    symlink("../..", scene.daemon.home().workspace().join("src/loop")).unwrap();
    let places = |output: &Value| -> Vec<String> {
        let matches = output["matches"].as_array().unwrap();
        let place =
            |each: &Value| format!("{}:{}:{}", each["path"].as_str().unwrap(), each["line"], each["column"]);
        matches.iter().map(place).collect()
    };
    let found = scene.output_of("search_files", json!({"path": ".", "query": "TODO"}));
    assert_eq!(places(&found), ["src/keep.log:1:1", "src/lib.rs:2:4", "src/main.rs:2:8"]);
    assert_eq!((&found["skipped"]["binary"], &found["complete"]), (&json!(1), &json!(true)));
    let all =
        json!({"query": "todo", "case_sensitive": false, "include_ignored": true, "include_hidden": true});
    let found = scene.output_of("search_files", all);
    assert_eq!(places(&found).len(), 6, "what may not be read is not searched: {found}");
    assert!(!found.to_string().contains("secret"));
    let found = scene.output_of(
        "search_files",
        json!({"query": "TODO\\(.\\)", "regex": true, "glob": "*.rs", "context": 1}),
    );
    assert_eq!(
        (places(&found), &found["matches"][0]["before"]),
        (vec!["src/lib.rs:2:4".into()], &json!(["// todo"]))
    );
    let named = scene.output_of("search_files", json!({"glob": "src/*.rs"}));
    let names: Vec<_> = named["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(names, ["src/lib.rs", "src/main.rs"]);
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut arguments = json!({"query": "TODO", "max_results": 1});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = scene.output_of("search_files", arguments);
        seen.extend(places(&page));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, ["src/keep.log:1:1", "src/lib.rs:2:4", "src/main.rs:2:8"]);
    assert_eq!(scene.failure_of("search_files", json!({"query": "(", "regex": true})).0, "conflict");
    assert_eq!(scene.refusal_of("search_files", json!({"path": "."})).0, "invalid_arguments");
}

/// Parsing one of these files takes a tenth of a second and ten megabytes, and folders can be nested.
#[test]
fn ignore_file_bombs_are_skipped_and_reported() {
    const DEPTH: usize = 30;
    let mut scene = FileToolFixture::new();
    let wild: String = (0..2_000).map(|number| format!("*a*b*{number}*c*\n")).collect();
    let mut folder = String::new();
    for _ in 0..DEPTH {
        scene.file(&format!("{folder}.gitignore"), &wild);
        folder.push_str("d/");
    }
    scene.file(&format!("{folder}found.rs"), "fn main() {}\n");
    let found = scene.output_of("search_files", json!({"path": ".", "glob": "*.rs"}));
    assert_eq!(found["files"][0]["path"], format!("{folder}found.rs"), "{found}");
    assert_eq!(found["complete"], true, "{found}");
    assert_eq!(
        found["skipped"]["ignore_files"],
        DEPTH - 4,
        "four are as much as is followed at once: {found}"
    );
    scene.file("x/.ignore", format!("{}\n*.rs\n", "*a".repeat(60_000)));
    scene.file("x/seen.rs", "");
    let found = scene.output_of("search_files", json!({"path": "x", "glob": "*.rs"}));
    assert_eq!(found["files"][0]["path"], "seen.rs", "not followed by half: {found}");
    assert_eq!(found["skipped"]["ignore_files"], 1, "{found}");
}

/// A search does not read a file that `read_file` refuses because of another hard link.
#[test]
fn search_skips_a_forbidden_file_under_its_other_hard_link() {
    let mut scene = FileToolFixture::new();
    let home = scene.daemon.home();
    let (workspace, keys) = (home.workspace(), home.user_home().join(".ssh"));
    std::fs::create_dir(&keys).unwrap();
    std::fs::write(keys.join("config"), "CANARY key\n").unwrap();
    home.file(".env", "CANARY env\n");
    home.file("fine.txt", "CANARY fine\n");
    for (file, name) in [
        (keys.join("config"), "notes.txt"),
        (workspace.join(".env"), "other.txt"),
        (workspace.join("fine.txt"), "twin.txt"),
    ] {
        std::fs::hard_link(file, workspace.join(name)).unwrap();
    }
    for name in ["notes.txt", "other.txt"] {
        assert_eq!(scene.refusal_of("read_file", json!({"path": name})).0, "path_forbidden", "{name}");
    }
    let found = scene.output_of("search_files", json!({"query": "CANARY", "include_hidden": true}));
    let paths: Vec<&str> =
        found["matches"].as_array().unwrap().iter().filter_map(|each| each["path"].as_str()).collect();
    assert_eq!(paths, ["fine.txt", "twin.txt"], "{found}");
    assert_eq!(found["skipped"]["hard_links"], 2, "and it says so: {found}");
}

/// The number of files whose hard links are searched is bounded, and a search that reaches the bound reports
/// it.
#[test]
fn search_among_many_hard_links_can_be_continued() {
    let mut scene = FileToolFixture::new();
    let home = scene.daemon.home();
    for n in 0..20 {
        let file = home.file(&format!("{n:02}-a.txt"), "CANARY\n");
        std::fs::hard_link(file, home.workspace().join(format!("{n:02}-b.txt"))).unwrap();
    }
    let first = scene.output_of("search_files", json!({"query": "CANARY"}));
    assert_eq!(
        (first["matches"].as_array().unwrap().len(), &first["complete"]),
        (32, &json!(false)),
        "{first}"
    );
    assert_eq!(first["skipped"]["hard_links"], 0, "none is passed over: {first}");
    let rest = scene.output_of("search_files", json!({"query": "CANARY", "cursor": first["next_cursor"]}));
    assert_eq!((rest["matches"].as_array().unwrap().len(), &rest["complete"]), (8, &json!(true)), "{rest}");
}

/// A name is a sequence of bytes. Whatever is listed can be opened, also behind a link.
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_listed_and_opened() {
    use std::os::unix::ffi::OsStrExt;

    let daemon = tests::Daemon::start();
    let folder = daemon.home().workspace().join("real");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(std::ffi::OsStr::from_bytes(b"bad\xff\x80.txt")), "needle").unwrap();
    std::os::unix::fs::symlink("real", daemon.home().workspace().join("link")).unwrap();
    let mut agent = daemon.agent();
    for root in ["real", "link"] {
        let listed = agent.execute("list_directory", &json!({"path": root, "glob": "*.txt"}));
        let name = listed["output"]["entries"][0]["name"].as_str().unwrap_or_else(|| panic!("{listed}"));
        let found =
            agent.execute("search_files", &json!({"path": root, "query": "needle", "glob": "**/*.txt"}));
        assert_eq!(found["output"]["matches"][0]["path"], name, "{root}: {found}");
        let read = agent.execute("read_file", &json!({"path": format!("{root}/{name}")}));
        assert_eq!(read["output"]["content"], "needle", "{root}: {read}");
    }
    let name =
        agent.execute("list_directory", &json!({"path": "real"}))["output"]["entries"][0]["name"].clone();
    let path = format!("real/{}", name.as_str().unwrap());
    let deleted = agent.execute("delete_file", &json!({"path": path}));
    assert_eq!(deleted["success"], true, "{deleted}");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}
