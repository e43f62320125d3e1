//! The floor: what no file can allow.
//!
//! Names are protected, not files: a start-up file that does not exist yet is exactly the one worth creating.
//! The list is data. Letters are compared without case on every system, because a volume that ignores case can
//! be mounted anywhere.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use tool::{PathAccess, RefusalCode, RuleRef};

use crate::name::{Name, fold};
use crate::pattern::{everything_below, is_wild};
use crate::surroundings::Protected;

mod names;

pub use names::git_acts_on;
use names::{GITS_OWN, Group, NEVER_TOUCHED, NEVER_WRITTEN, ONLY_FOLDERS};

/// The fixed part, compiled once: it is the same for every policy.
static FIXED: LazyLock<Result<Fixed, globset::Error>> = LazyLock::new(Fixed::compile);

/// The floor, compiled.
#[derive(Debug)]
pub(crate) struct Floor {
    /// Sinew's own folders, under every name they have, with case and a final slash taken out.
    own: BTreeSet<String>,
    /// Sinew's own folders, by the names they lead to.
    folders: Vec<PathBuf>,
    fixed: &'static Fixed,
}

#[derive(Debug)]
struct Fixed {
    touched: Guarded,
    written: Guarded,
    gits_own: Guarded,
    only_folders: Guarded,
}

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// A folder.
    Folder,
    /// Anything else: a file, a link.
    Other,
}

/// Whether something on a machine runs what stands under this name by itself, so that a confined program may neither
/// change nor leave it.
pub fn runs_by_itself(path: &Path, stands: Stands) -> bool {
    // A list that could not be read frees nothing.
    let (Ok(fixed), Some(name)) = (FIXED.as_ref(), Name::canonical(path)) else { return true };
    let name = name.folded();
    let asked = Asked::of(&name);
    fixed.written.has(&asked) || (stands == Stands::Other && fixed.only_folders.has(&asked))
}

/// What the floor says of a name it protects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FloorRule {
    pub(crate) code: RefusalCode,
    pub(crate) rule: RuleRef,
    pub(crate) why: &'static str,
}

/// How far a name reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// To itself.
    Alone,
    /// To everything below it too. Walls close a folder of that name as a whole: what they keep from a program is kept from
    /// tools.
    Below,
}

#[derive(Debug)]
struct Guarded {
    set: GlobSet,
    /// The group of each glob, in the order of the set.
    groups: Vec<(&'static str, &'static str)>,
    /// Where all of it lies, by the first part of the name; `None` where any part may be the first.
    roots: Option<BTreeSet<String>>,
}

/// A name with its case taken out, as the lists are asked about it.
struct Asked<'a> {
    name: &'a Path,
    /// Its first part.
    root: &'a [u8],
    /// What expressions are asked about, once one is.
    candidate: OnceCell<Candidate<'a>>,
}

impl<'a> Asked<'a> {
    fn of(folded: &'a Name) -> Self {
        let name = folded.as_path();
        let mut parts = name.as_os_str().as_bytes().split(|byte| *byte == b'/').skip(1);
        Asked { name, root: parts.next().unwrap_or_default(), candidate: OnceCell::new() }
    }

    /// Whether it is this folder or in it, letter by letter.
    fn is_below(&self, folder: &str) -> bool {
        let rest = self.name.as_os_str().as_bytes().strip_prefix(folder.as_bytes());
        matches!(rest, Some([] | [b'/', ..]))
    }

    fn candidate(&self) -> &Candidate<'a> {
        self.candidate.get_or_init(|| Candidate::new(self.name))
    }
}

impl Floor {
    /// Compiles the list and adds Sinew's own folders, under the names given and the names they lead to.
    pub(crate) fn new(protected: &Protected) -> Result<Self, globset::Error> {
        let (mut own, mut folders) = (BTreeSet::new(), Vec::new());
        for folder in &protected.folders {
            let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
            let spellings = [folder, &real].map(|spelling| fold(&spelling.to_string_lossy()));
            own.extend(spellings.map(|spelling| spelling.trim_end_matches('/').to_owned()));
            folders.push(real);
        }
        Ok(Floor { own, folders, fixed: FIXED.as_ref().map_err(Clone::clone)? })
    }

    /// Sinew's own folders.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The rule that protects this name from this access.
    pub(crate) fn protects(&self, name: &Name, access: PathAccess) -> Option<FloorRule> {
        let name = name.folded();
        let asked = Asked::of(&name);
        if self.own.iter().any(|folder| asked.is_below(folder)) {
            let rule = rule("sinew");
            return Some(FloorRule { code: RefusalCode::ControlPlane, rule, why: "it is Sinew's own" });
        }
        let written = || match access {
            PathAccess::Write | PathAccess::Remove => {
                self.fixed.written.find(&asked).or_else(|| self.fixed.gits_own.find(&asked))
            }
            PathAccess::Read => None,
        };
        let (group, why) = self.fixed.touched.find(&asked).or_else(written)?;
        Some(FloorRule { code: RefusalCode::PathForbidden, rule: rule(group), why })
    }

    /// The groups that were looked at before this one was found; all of them if none was.
    pub(crate) fn before(&self, access: PathAccess, found: Option<&RuleRef>) -> Vec<(RuleRef, String)> {
        let written = match access {
            PathAccess::Write | PathAccess::Remove => NEVER_WRITTEN,
            PathAccess::Read => &[],
        };
        let groups = NEVER_TOUCHED.iter().chain(written).map(|group| (rule(group.id), group.why.to_owned()));
        let own = std::iter::once((rule("sinew"), "it is Sinew's own".to_owned()));
        own.chain(groups).take_while(|(rule, _)| Some(rule) != found).collect()
    }
}

impl Fixed {
    fn compile() -> Result<Self, globset::Error> {
        Ok(Fixed {
            touched: Guarded::compile(NEVER_TOUCHED, Reach::Below)?,
            written: Guarded::compile(NEVER_WRITTEN, Reach::Below)?,
            gits_own: Guarded::compile(GITS_OWN, Reach::Below)?,
            only_folders: Guarded::compile(ONLY_FOLDERS, Reach::Alone)?,
        })
    }
}

impl Guarded {
    fn compile(list: &[Group], reach: Reach) -> Result<Self, globset::Error> {
        let mut set = GlobSetBuilder::new();
        let (mut groups, mut roots) = (Vec::new(), Vec::new());
        for group in list {
            for text in group.names.iter().flat_map(|pattern| spellings(pattern, reach)) {
                set.add(glob(&text)?);
                groups.push((group.id, group.why));
                roots.push(root(&text));
            }
        }
        Ok(Guarded { set: set.build()?, groups, roots: roots.into_iter().collect() })
    }

    fn has(&self, asked: &Asked<'_>) -> bool {
        // Most names lie elsewhere, and to compare one part is far cheaper than to ask expressions.
        let here = |roots: &BTreeSet<String>| roots.iter().any(|root| root.as_bytes() == asked.root);
        self.roots.as_ref().is_none_or(here) && self.set.is_match_candidate(asked.candidate())
    }

    fn find(&self, asked: &Asked<'_>) -> Option<(&'static str, &'static str)> {
        if !self.has(asked) {
            return None;
        }
        let first = self.set.matches_candidate(asked.candidate()).into_iter().min()?;
        self.groups.get(first).copied()
    }
}

/// A pattern, the folder it is about or what is below it, and all of it below `/private`, where a Mac keeps what `/etc` and
/// `/var` link to.
fn spellings(pattern: &str, reach: Reach) -> Vec<String> {
    let folder = pattern.strip_suffix("/**").map(str::to_owned);
    let below = everything_below(pattern).filter(|_| reach == Reach::Below);
    let plain = [Some(pattern.to_owned()), folder, below].into_iter().flatten();
    let linked = pattern.starts_with("/etc/") || pattern.starts_with("/var/");
    plain.flat_map(|text| [linked.then(|| format!("/private{text}")), Some(text)]).flatten().collect()
}

/// The first part of whatever a pattern matches, where it says so itself.
fn root(text: &str) -> Option<String> {
    let first = text.strip_prefix('/')?.split('/').next()?;
    (!is_wild(first)).then(|| fold(first))
}

fn glob(text: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(&fold(text)).literal_separator(true).empty_alternates(true).build()
}

pub(crate) fn rule(group: &str) -> RuleRef {
    RuleRef { file: BUILT_IN_FLOOR.into(), line: 0, id: format!("floor.{group}").into() }
}

/// What stands for the file of a rule that no file can change.
pub(crate) const BUILT_IN_FLOOR: &str = "built-in floor";

#[cfg(test)]
mod tests {
    use super::*;

    /// What the floor says of reading and of writing, in words.
    fn check(path: &str, read: Option<&str>, write: Option<&str>) {
        let floor = Floor::new(&Protected { folders: vec![PathBuf::from("/h/.local/share/sinew")] }).unwrap();
        let name = Name::canonical(path.as_ref()).unwrap();
        for (access, expect) in
            [(PathAccess::Read, read), (PathAccess::Write, write), (PathAccess::Remove, write)]
        {
            let found = floor.protects(&name, access).map(|found| found.rule.id);
            assert_eq!(
                found.as_deref(),
                expect.map(|group| format!("floor.{group}")).as_deref(),
                "{access:?} {path}"
            );
        }
    }

    const WRITTEN: &[(&str, &[&str])] = &[
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
            ],
        ),
    ];
    const FREE: &[&str] = &[
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
    ];

    #[test]
    fn names_that_are_never_written() {
        for (group, paths) in WRITTEN {
            paths.iter().for_each(|path| check(path, None, Some(group)));
        }
        FREE.iter().for_each(|path| check(path, None, None));
    }

    #[test]
    fn names_that_no_program_may_leave() {
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
            assert_eq!(runs_by_itself(path.as_ref(), Stands::Folder), expect, "{path}");
        }
        assert!(runs_by_itself("/w/.git".as_ref(), Stands::Other), "it leads git elsewhere");
        assert!(runs_by_itself("w/x".as_ref(), Stands::Folder), "what has no canonical name is not free");
    }

    #[test]
    fn what_no_tool_writes_no_program_leaves_but_for_what_is_gits_own() {
        for (_, paths) in WRITTEN {
            for path in *paths {
                let closed = runs_by_itself(path.as_ref(), Stands::Other);
                let gits = path.to_ascii_lowercase().contains("/.git/") || path.ends_with("/.git");
                assert!(closed || gits, "{path}");
            }
        }
    }

    #[test]
    fn names_that_are_never_touched() {
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
    fn sinews_own_folder_is_known_by_both_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let check = |folder: &str, name: &str, expect: bool| {
            let floor = Floor::new(&Protected { folders: vec![root.join(folder)] }).unwrap();
            let found = floor.protects(&Name::canonical(&root.join(name)).unwrap(), PathAccess::Read);
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
}
