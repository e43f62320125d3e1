//! Lists of the built-in denials, as data.
//!
//! Tools and sandboxed programs share the lists, because a name that is protected from only one of them can
//! be reached through the other.

use tool::git_acts_on;

/// Names that are denied for the same reason.
pub(super) struct DenialGroup {
    pub(super) id: &'static str,
    pub(super) reason: &'static str,
    pub(super) patterns: &'static [&'static str],
}

/// Names that neither a tool nor a program it runs may write. The policy decides about reading them.
pub(super) const WRITE_DENIED: &[DenialGroup] = &[
    DenialGroup {
        id: "git",
        reason: GIT_REASON,
        patterns: &[
            // `.git` of a working tree, and bare repositories, which are recognised only by the usual ending.
            concat!("/**/*.git/{", git_acts_on!(), "}/**"),
            "/**/info/{alternates,attributes}", // in a repository folder of any name
            "/**/.husky/**",
            "/**/.hgrc",
            "/**/.hg/{hgrc,hgrc-not-shared}",
            "/**/.jj/repo/config.toml",
            "/**/.gitconfig",
            "/**/.gitmodules",
            "/**/.config/git/**",
        ],
    },
    DenialGroup {
        id: "shell_startup",
        reason: "every new shell runs it",
        patterns: &[
            "/**/.profile",
            "/**/.{bashrc,bash_profile,bash_login,bash_logout,bash_aliases}",
            "/**/.{zshrc,zshenv,zprofile,zlogin,zlogout}",
            "/**/.{kshrc,cshrc,tcshrc,login,logout,inputrc,pam_environment}",
            "/**/.{xprofile,xsession,xsessionrc,xinitrc,bash_completion,envrc,direnvrc,tmux.conf,screenrc,wezterm.lua}",
            "/**/{.mise.toml,mise.toml}",
            "/**/.config/{mise,tmux}/**",
            "/**/.config/fish/**",
            "/**/.config/environment.d/**",
            "/etc/{profile,bashrc,bash.bashrc,zshrc,zprofile,zshenv,environment}",
            "/etc/{profile.d,zsh,fish}/**",
        ],
    },
    DenialGroup {
        id: "ssh",
        reason: "it controls who can log in and with which keys",
        patterns: &["/**/.ssh/**"],
    },
    DenialGroup {
        id: "keychain",
        reason: "it stores passwords and keys",
        patterns: &[
            "/**/Library/Keychains/**",
            "/**/.local/share/keyrings/**",
            "/**/.local/share/kwalletd/**",
            "/**/.gnupg/**",
            "/**/.password-store/**",
        ],
    },
    DenialGroup {
        id: "autostart",
        reason: "the system starts programs listed there",
        patterns: &[
            "/**/Library/{LaunchAgents,LaunchDaemons,StartupItems}/**",
            "/**/.config/systemd/**",
            "/**/.local/share/systemd/**",
            "/etc/systemd/**",
            "/etc/{init,init.d,rc.d,rc.local}/**",
            "/etc/{init,init.d,rc.d,rc.local}",
            "/{usr/,}lib/systemd/**",
            "/**/.config/autostart/**",
            "/**/.config/autostart-scripts/**",
            "/**/.config/{hypr,plasma-workspace/env}/**",
            "/etc/xdg/autostart/**",
        ],
    },
    DenialGroup {
        id: "crontab",
        reason: "the system runs it on a schedule",
        patterns: &[
            "/var/spool/{cron,at}/**",
            "/var/at/**",
            "/usr/lib/cron/**",
            "/etc/{crontab,anacrontab}",
            "/etc/cron.*/**",
            "/etc/periodic/**",
        ],
    },
    DenialGroup {
        id: "agent_settings",
        reason: "agents and editors run commands from it",
        patterns: &[
            "/**/.mcp.json",
            "/**/.vscode/**",
            "/**/.idea/**",
            "/**/.claude/settings*.json",
            "/**/.claude/{hooks,agents,skills,plugins,commands,workflows}/**",
            "/**/.claude/*.{sh,py,js,mjs,cjs,ts}",
            "/**/.claude.json",
            "/**/.codex/**",
            "/**/.cursor/**",
            "/**/.{windsurf,kiro,roo,amazonq,opencode,devcontainer}/**",
            "/**/opencode.json",
            "/**/.gemini/settings.json",
            "/**/.zed/**",
            "/**/.{vimrc,exrc,gvimrc,nvimrc,emacs,gdbinit,lldbinit,irbrc,pryrc,Rprofile}",
            "/**/.emacs.d/**",
            "/**/.config/nvim/**",
            "/**/.nvim.lua",
            "/**/.dir-locals.el",
        ],
    },
];

const GIT_REASON: &str = "git runs programs named there";

/// Names that a tool must not write, although sandboxed programs may, because git is such a program.
///
/// The whole folder is closed to tools, because each git version adds files that can make git run a program.
pub(super) const TOOL_WRITE_DENIED: &[DenialGroup] =
    &[DenialGroup { id: "git", reason: GIT_REASON, patterns: &["/**/.git", "/**/.git/**"] }];

/// Names that must be folders: a file or a link with such a name redirects git to another repository.
pub(super) const NON_FOLDER_DENIED: &[DenialGroup] =
    &[DenialGroup { id: "git", reason: GIT_REASON, patterns: &["/**/.git"] }];

/// Names that must not be accessed at all.
pub(super) const ACCESS_DENIED: &[DenialGroup] = &[DenialGroup {
    id: "processes",
    reason: "it exposes the memory, secrets or open files of a process, or bypasses every path rule",
    patterns: &[
        "/proc/*/{environ,mem,maps,smaps,smaps_rollup,numa_maps,pagemap,auxv,stack,syscall,personality}",
        "/proc/*/{fd,fdinfo,map_files,root,cwd}/**",
        "/proc/*/{fd,fdinfo,map_files,root,cwd,exe}",
        "/proc/*/task/*/{environ,mem,maps,smaps,smaps_rollup,numa_maps,pagemap,auxv,stack,syscall}",
        "/proc/*/task/*/{fd,fdinfo,root,cwd}/**",
        "/proc/*/task/*/{fd,fdinfo,root,cwd,exe}",
        "/proc/{kcore,kmem,keys,key-users}",
        "/dev/{mem,kmem,port}",
        "/dev/fd/**",
        "/dev/{fd,stdin,stdout,stderr}",
    ],
}];
