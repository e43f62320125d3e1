//! Names that the built-in denials protect from reading and from writing.

use super::*;

/// Checks the group that denies reading, and the group that denies writing and removing.
fn check(path: &str, read: Option<&str>, write: Option<&str>) {
    let denials =
        BuiltInDenials::new(&ProtectedFolders { folders: vec![PathBuf::from("/h/.local/share/sinew")] })
            .unwrap();
    let name = NormalizedPath::canonical(path.as_ref()).unwrap();
    for (access, expect) in
        [(PathAccess::Read, read), (PathAccess::Write, write), (PathAccess::Remove, write)]
    {
        let found = denials.find_denial(&name, access).map(|found| found.rule.id);
        assert_eq!(
            found.as_deref(),
            expect.map(|group| format!("built_in.{group}")).as_deref(),
            "{access:?} {path}"
        );
    }
}

const WRITE_DENIED_PATHS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "/r/.git/HEAD",
            "/r/.git/objects/ab/cd",
            "/r/.git/worktrees/wt/commondir",
            "/r/bare.git/rebase-merge/git-rebase-todo",
            "/r/bare.git/remotes/origin",
            "/r/bare.git/branches/main",
            "/r/bare.git/info/attributes",
            "/r/bare.git/modules/m/config",
            "/r/.hg/hgrc-not-shared",
            "/r/.git/modules/sub/commondir",
            "/r/bare.git/config",
            "/r/bare.git/hooks/post-update",
            "/r/.husky/pre-commit",
            "/r/.pre-commit-config.yaml",
            "/r/lefthook.yml",
            "/r/.config/lefthook.toml",
            "/r/.lefthook-local.json",
            "/r/.lefthook/pre-commit/lint.sh",
            "/h/.config/jj/config.toml",
            "/r/.sl/config",
            "/r/.gitmodules",
            "/r/.hg/hgrc",
            "/r/.jj/repo/config.toml",
            "/r/mirror/info/attributes",
            "/r/.git",
            "/r/.git/hooks",
            "/r/.git/hooks/pre-commit",
            "/r/.git/config",
            "/r/sub/.git/config",
            "/r/.git/modules/m/config",
            "/r/.git/modules/a/b/hooks/x",
            "/r/.git/info/attributes",
            "/h/.gitconfig",
            "/h/.config/git/config",
            "/r/.GIT/Hooks/x",
        ],
    ),
    (
        "shell_startup",
        &[
            "/h/.bashrc",
            "/r/.mise.toml",
            "/r/mise.toml",
            "/r/mise.local.toml",
            "/r/.mise.local.toml",
            "/r/mise.production.toml",
            "/r/.mise/config.toml",
            "/r/mise/config.local.toml",
            "/r/.config/mise.toml",
            "/r/.envrc",
            "/h/.config/direnv/direnvrc",
            "/h/.config/direnv/lib/x.sh",
            "/r/direnvrc",
            "/h/.config/nushell/env.nu",
            "/h/.config/tmux/tmux.conf",
            "/h/.zshrc",
            "/h/.profile",
            "/h/.bash_profile",
            "/h/.zshenv",
            "/h/.zprofile",
            "/h/.bash_login",
            "/h/.bash_logout",
            "/h/.zlogin",
            "/h/.config/fish/config.fish",
            "/r/dotfiles/.bashrc",
            "/h/.BashRC",
            "/h/.ba\u{17f}hrc",
            "/etc/profile",
            "/etc/profile.d/x.sh",
            "/private/etc/zshrc",
        ],
    ),
    ("ssh", &["/h/.ssh", "/h/.ssh/authorized_keys", "/h/.SSH/config", "/h/.\u{df}h/config"]),
    ("keychain", &["/h/Library/Keychains/login.keychain-db", "/Library/Keychains", "/h/.gnupg/x"]),
    (
        "autostart",
        &[
            "/h/Library/LaunchAgents/x.plist",
            "/Library/LaunchDaemons/x.plist",
            "/h/.config/systemd/user/x.service",
            "/etc/systemd/system/x",
            "/lib/systemd/system/x",
            "/usr/lib/systemd/x",
            "/h/.config/autostart/x.desktop",
            "/etc/rc.local",
        ],
    ),
    (
        "crontab",
        &[
            "/var/spool/cron/crontabs/root",
            "/etc/crontab",
            "/etc/cron.d/x",
            "/private/var/at/tabs/x",
            "/private/etc/cron.d/x",
            "/var/at/x",
        ],
    ),
    (
        "agent_settings",
        &[
            "/r/.mcp.json",
            "/r/.mcp.json/x",
            "/r/.vscode/settings.json",
            "/r/.vscode",
            "/r/.idea/workspace.xml",
            "/r/.claude/settings.local.json",
            "/r/.claude/agents/reviewer.md",
            "/r/.claude/skills/deploy/SKILL.md",
            "/h/.claude/plugins/p/hooks/hooks.json",
            "/h/.claude/statusline.sh",
            "/h/.codex/config.toml",
            "/r/.cursor/mcp.json",
            "/h/.vimrc",
            "/r/.exrc",
            "/r/.zed/tasks.json",
            "/r/.windsurf/hooks.json",
            "/r/.devcontainer/devcontainer.json",
            "/r/opencode.json",
            "/r/.nvim.lua",
            "/r/.dir-locals.el",
            "/r/.devcontainer.json",
            "/r/app.code-workspace",
            "/h/.vim/plugin/x.vim",
            "/h/.vim/after/ftplugin/c.vim",
            "/r/.helix/languages.toml",
            "/r/.aider.conf.yml",
        ],
    ),
    (
        "tool_startup",
        &[
            "/r/.gdbinit",
            "/r/.lldbinit",
            "/r/.pdbrc",
            "/r/.ghci",
            "/r/.iex.exs",
            "/r/.ocamlinit",
            "/r/.Rprofile",
            "/r/.npmrc",
            "/r/.yarnrc",
            "/r/.yarnrc.yml",
            "/r/.yarn/releases/yarn.cjs",
            "/r/.pnpmfile.cjs",
            "/r/pnpmfile.mjs",
        ],
    ),
];
const UNPROTECTED_PATHS: &[&str] = &[
    "/r/.github/workflows/ci.yml",
    "/r/.gitignore",
    "/r/hooks/pre-commit",
    "/r/git/config",
    "/r/x.git/README",
    "/r/bashrc",
    "/r/.bashrc.md",
    "/r/x.ssh/y",
    "/r/.sshd",
    "/r/systemd/x",
    "/etc/hosts",
    "/r/.claude/CLAUDE.md",
    "/r/Library/x",
    "/r/conftest.py",
    "/r/package.json",
    "/r/Makefile",
    "/r/build.rs",
    "/r/.cargo/config.toml",
    "/r/.yarn/cache/x.zip",
    "/r/code-workspace",
    "/r/mise.lock",
    "/r/npmrc",
];

#[test]
fn protected_names_cannot_be_written() {
    for (group, paths) in WRITE_DENIED_PATHS {
        paths.iter().for_each(|path| check(path, None, Some(group)));
    }
    UNPROTECTED_PATHS.iter().for_each(|path| check(path, None, None));
}

#[test]
fn programs_may_not_leave_auto_executed_files() {
    for (path, expect) in [
        ("/w/.bashrc", true),
        ("/w/sub/.BashRC", true),
        ("/w/.ba\u{17f}hrc", true),
        ("/w/.mcp.json", true),
        ("/w/.vscode", true),
        ("/w/.git/hooks", true),
        ("/w/.git/config", true),
        ("/w/.GIT/Config", true),
        ("/w/.mcp.json/x", true),
        ("/w/.git/index", false),
        ("/w/.git/objects/ab", false),
        ("/w/.git", false),
        ("/w/mirror.git/config", true),
        ("/w/mirror.git/objects", false),
        ("/w/b.git/info", true),
        ("/w/hooks", false),
        ("/w/config", false),
        ("/w/.config/fish", true),
        ("/w/.config/app", false),
        ("/w/.claude/settings.json", true),
        ("/w/.git/modules", true),
        ("/w/.git/rebase-merge", true),
        ("/w/.git/rebase-merge/git-rebase-todo", true),
        ("/w/.git/worktrees/other/rebase-merge", true),
        ("/w/.git/remotes", true),
        ("/w/.git/info/attributes", true),
        ("/w/.git/refs/heads/main", false),
        ("/w/.git/objects/info/alternates", true),
        ("/w/.local/share/keyrings", true),
        ("/w/Library/LaunchAgents", true),
        ("/w/bashrc", false),
        ("/", false),
    ] {
        assert_eq!(is_run_automatically(path.as_ref(), PathEntryKind::Folder), expect, "{path}");
    }
    assert!(
        is_run_automatically("/w/.git".as_ref(), PathEntryKind::Other),
        "it redirects git to another repository"
    );
    assert!(
        is_run_automatically("w/x".as_ref(), PathEntryKind::Folder),
        "a name that is not canonical is protected"
    );
}

#[test]
fn write_denials_for_tools_hold_for_programs_except_git() {
    for (_, paths) in WRITE_DENIED_PATHS {
        for path in *paths {
            let closed = is_run_automatically(path.as_ref(), PathEntryKind::Other);
            let gits = path.to_ascii_lowercase().contains("/.git/") || path.ends_with("/.git");
            assert!(closed || gits, "{path}");
        }
    }
}

#[test]
fn process_files_and_own_folders_cannot_be_accessed() {
    for path in [
        "/proc/1/environ",
        "/proc/self/mem",
        "/Proc/self/MEM",
        "/DEV/mem",
        "/proc/42/maps",
        "/proc/self/fd",
        "/proc/self/fd/3",
        "/proc/1/root",
        "/proc/1/root/etc/shadow",
        "/proc/self/cwd",
        "/proc/self/cwd/x",
        "/proc/thread-self/environ",
        "/proc/1/task/2/mem",
        "/proc/1/task/2/root/x",
        "/proc/kcore",
        "/dev/mem",
        "/dev/fd/7",
        "/dev/stdin",
        "/dev/stdin/x",
    ] {
        check(path, Some("processes"), Some("processes"));
    }
    for free in ["/proc/loadavg", "/proc/1/status", "/proc/meminfo", "/dev/null", "/r/proc/1/environ"] {
        check(free, None, None);
    }
    for own in ["/h/.local/share/sinew", "/h/.local/share/sinew/state/x", "/h/.local/share/Sinew/x"] {
        check(own, Some("sinew"), Some("sinew"));
    }
    check("/h/.local/share/sinew-notes", None, None);
}

#[test]
fn git_objects_are_closed_to_tools_and_open_to_programs() {
    let denials = BuiltInDenials::new(&ProtectedFolders { folders: Vec::new() }).unwrap();
    for (path, is_closed) in [
        ("/r/.git/objects", true),
        ("/r/.git/objects/ab/cdef", true),
        ("/r/.GIT/Objects/pack/x.pack", true),
        ("/r/bare.git/objects/ab/cd", true),
        ("/r/.git/modules/a/b/objects/ab/cd", true),
        ("/r/.git/lfs/objects/x", true),
        ("/r/.git/HEAD", false),
        ("/r/objects/x", false),
    ] {
        let name = NormalizedPath::canonical(path.as_ref()).unwrap();
        assert_eq!(denials.find_tool_denial(&name, PathAccess::Read).is_some(), is_closed, "{path}");
        assert_eq!(denials.find_denial(&name, PathAccess::Read), None, "{path}");
    }
}

#[test]
fn own_folder_is_protected_under_both_of_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("real")).unwrap();
    std::os::unix::fs::symlink("real", root.join("link")).unwrap();
    let check = |folder: &str, name: &str, expect: bool| {
        let denials = BuiltInDenials::new(&ProtectedFolders { folders: vec![root.join(folder)] }).unwrap();
        let found =
            denials.find_denial(&NormalizedPath::canonical(&root.join(name)).unwrap(), PathAccess::Read);
        let expect = expect.then_some(RefusalCode::ControlPlane);
        assert_eq!(found.map(|found| found.code), expect, "{folder} {name}");
    };
    for name in ["real/x", "link/x", "real", "REAL/x", "L\u{200b}ink"] {
        check("link", name, true);
        check("link/", name, true);
    }
    check("link", "links", false);
    check("a[b]*", "a[b]*/x", true);
    check("a[b]*", "ab/x", false);
}

/// Returns names that match each pattern or nearly do: itself, below it, above it, elsewhere, one letter
/// longer, and without its folders.
fn names_near(list: &[DenialGroup]) -> Vec<String> {
    let own = list.iter().flat_map(|group| group.rows).flat_map(|(pattern, _)| expand_braces(pattern));
    own.flat_map(|pattern| {
        let name = fold_case(&pattern).replace("**", "some").replace('*', "x");
        let (whole, short) = (name.clone(), name.rsplit_once('/').map_or("", |(above, _)| above).to_owned());
        [
            format!("{name}/below"),
            format!("/far{name}"),
            format!("{name}y"),
            name.replace("/some", ""),
            whole,
            short,
        ]
    })
    .filter(|name| name.len() > 1)
    .collect()
}

#[test]
fn trie_and_globset_agree_on_built_in_denials() {
    for (list, reach) in [
        (ACCESS_DENIED, PatternScope::Subtree),
        (WRITE_DENIED, PatternScope::Subtree),
        (TOOL_READ_DENIED, PatternScope::Subtree),
        (TOOL_WRITE_DENIED, PatternScope::Subtree),
        (NON_FOLDER_DENIED, PatternScope::Exact),
    ] {
        let guarded = DenialList::compile(list, reach).unwrap();
        assert_eq!(guarded.trie.regex_set_count(), 0, "a regex would be compiled at every start");
        let (mut set, mut groups) = (globset::GlobSetBuilder::new(), Vec::new());
        for group in list {
            for text in group.rows.iter().flat_map(|(pattern, _)| pattern_variants(pattern, reach)) {
                let text = fold_case(&text);
                let mut glob = globset::GlobBuilder::new(&text);
                set.add(glob.literal_separator(true).empty_alternates(true).build().unwrap());
                groups.push((group.id, group.reason));
            }
        }
        let set = set.build().unwrap();
        let mut found = 0;
        for text in names_near(list) {
            let name = NormalizedPath::canonical(text.as_ref()).unwrap().case_folded();
            let expect = set.matches(name.as_path()).into_iter().min().map(|first| groups[first]);
            assert_eq!(guarded.find(&name), expect, "{text}");
            found += usize::from(expect.is_some());
        }
        assert!(found > list.len(), "{found} names were in the list");
    }
}

#[test]
fn each_protected_name_has_a_source_and_is_documented() {
    let page = include_str!("../../../../docs/protected-names.md");
    for group in WRITE_DENIED
        .iter()
        .chain(TOOL_READ_DENIED)
        .chain(TOOL_WRITE_DENIED)
        .chain(NON_FOLDER_DENIED)
        .chain(ACCESS_DENIED)
    {
        for (pattern, source) in group.rows {
            let is_manual_page = source.ends_with(')') && source.contains('(') && !source.contains(' ');
            assert!(is_manual_page || source.starts_with("https://"), "{pattern}: {source}");
        }
    }
    for group in WRITE_DENIED {
        assert!(page.contains(&format!("### `{}`", group.id)), "{}", group.id);
        for (pattern, source) in group.rows {
            let row = format!("| `{pattern}` | {source} |");
            assert!(page.contains(&row), "docs/protected-names.md lacks the row\n{row}");
        }
    }
}
