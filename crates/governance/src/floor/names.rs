//! The names that no policy frees, as data. There is one list, for tools and for confined programs: a name that is
//! protected from the one and not from the other is a way round.

/// What in a repository names programs, leads git elsewhere, or says what it does next. A rebase that stopped goes on with the
/// commands of a list.
macro_rules! git_acts_on {
    () => {
        "config,config.worktree,commondir,hooks,info,modules,worktrees,remotes,branches,rebase-merge"
    };
}

/// The same, name by name: repositories whose folder has another name than git gives them are known by what is in them.
pub fn git_acts_on() -> impl Iterator<Item = &'static str> {
    git_acts_on!().split(',')
}

/// Names with one reason.
pub(super) struct Group {
    pub(super) id: &'static str,
    pub(super) why: &'static str,
    pub(super) names: &'static [&'static str],
}

/// Names that are never written to, by a tool or by a program it runs. Reading them is for the policy to judge.
pub(super) const NEVER_WRITTEN: &[Group] = &[
    Group {
        id: "git",
        why: GIT,
        names: &[
            // With a working tree or without one, whose folder only its usual ending gives away.
            concat!("/**/*.git/{", git_acts_on!(), "}/**"),
            "/**/info/{alternates,attributes}", // of a repository under any name
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
    Group { id: "ssh", why: "it decides who may log in, and with what", names: &["/**/.ssh/**"] },
    Group {
        id: "keychain",
        why: "passwords are kept there",
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
        why: "the system starts what stands there",
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
        why: "the system runs it by the clock",
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
        why: "agents and editors run what stands there",
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

const GIT: &str = "git runs what stands there";

/// Names that no tool writes to, and that a program must: the rest of a repository is git's to write, and git is one.
/// To a tool all of it is closed, because what ends in a program that git runs becomes more with its versions.
pub(super) const GITS_OWN: &[Group] = &[Group { id: "git", why: GIT, names: &["/**/.git", "/**/.git/**"] }];

/// Names that are no folders where all is well: as a file or a link they send git to a repository elsewhere.
pub(super) const ONLY_FOLDERS: &[Group] = &[Group { id: "git", why: GIT, names: &["/**/.git"] }];

/// Names that are never touched at all.
pub(super) const NEVER_TOUCHED: &[Group] = &[Group {
    id: "processes",
    why: "it holds the memory, secrets or open files of a running program, or leads out of every rule",
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
