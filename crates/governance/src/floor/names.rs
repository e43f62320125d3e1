//! Lists of the built-in denials, as data.
//!
//! Tools and sandboxed programs share the lists, because a name that is protected from only one of them can
//! be reached through the other.

use tool::git_acts_on;

/// Names that are denied for the same reason.
pub(super) struct Group {
    pub(super) id: &'static str,
    pub(super) why: &'static str,
    pub(super) names: &'static [&'static str],
}

/// Names that neither a tool nor a program it runs may write. The policy decides about reading them.
pub(super) const NEVER_WRITTEN: &[Group] = &[
    Group {
        id: "git",
        why: GIT,
        names: &[
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
    Group {
        id: "shell_startup",
        why: "every new shell runs it",
        names: &[
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
    Group { id: "ssh", why: "it controls who can log in and with which keys", names: &["/**/.ssh/**"] },
    Group {
        id: "keychain",
        why: "it stores passwords and keys",
        names: &[
            "/**/Library/Keychains/**",
            "/**/.local/share/keyrings/**",
            "/**/.local/share/kwalletd/**",
            "/**/.gnupg/**",
            "/**/.password-store/**",
        ],
    },
    Group {
        id: "autostart",
        why: "the system starts programs listed there",
        names: &[
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
    Group {
        id: "crontab",
        why: "the system runs it on a schedule",
        names: &[
            "/var/spool/{cron,at}/**",
            "/var/at/**",
            "/usr/lib/cron/**",
            "/etc/{crontab,anacrontab}",
            "/etc/cron.*/**",
            "/etc/periodic/**",
        ],
    },
    Group {
        id: "agent_settings",
        why: "agents and editors run commands from it",
        names: &[
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

const GIT: &str = "git runs programs named there";

/// Names that a tool must not write, although sandboxed programs may, because git is such a program.
///
/// The whole folder is closed to tools, because each git version adds files that can make git run a program.
pub(super) const GITS_OWN: &[Group] = &[Group { id: "git", why: GIT, names: &["/**/.git", "/**/.git/**"] }];

/// Names that must be folders: a file or a link with such a name redirects git to another repository.
pub(super) const ONLY_FOLDERS: &[Group] = &[Group { id: "git", why: GIT, names: &["/**/.git"] }];

/// Names that must not be accessed at all.
pub(super) const NEVER_TOUCHED: &[Group] = &[Group {
    id: "processes",
    why: "it exposes the memory, secrets or open files of a process, or bypasses every path rule",
    names: &[
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
