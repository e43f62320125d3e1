//! Lists of the built-in denials, as data: each row is a pattern and the source that documents why it is protected.
//!
//! Tools and sandboxed programs share the lists, because a name that is protected from only one of them can
//! be reached through the other. `docs/protected-names.md` lists the same rows and says how to add one.

use tool::git_acts_on;

/// Names that are denied for the same reason.
pub(super) struct DenialGroup {
    pub(super) id: &'static str,
    pub(super) reason: &'static str,
    /// Pattern, with at most one pair of braces, and its source: a manual page or the address of the documentation.
    pub(super) rows: &'static [(&'static str, &'static str)],
}

/// Names that neither a tool nor a program it runs may write. The policy decides about reading them.
pub(super) const WRITE_DENIED: &[DenialGroup] = &[
    DenialGroup {
        id: "git",
        reason: GIT_REASON,
        rows: &[
            // `.git` of a working tree, and bare repositories, which are recognised only by the usual ending.
            (concat!("/**/*.git/{", git_acts_on!(), "}/**"), "gitrepository-layout(5)"),
            // In a repository folder of any name.
            ("/**/info/{alternates,attributes}", "gitrepository-layout(5)"),
            ("/**/.gitconfig", "git-config(1)"),
            ("/**/.config/git/**", "git-config(1)"),
            ("/**/.gitmodules", "gitmodules(5)"),
            ("/**/.husky/**", "https://typicode.github.io/husky/how-to.html"),
            (
                "/**/.pre-commit-config.yaml",
                "https://pre-commit.com/#adding-pre-commit-plugins-to-your-project",
            ),
            (
                "/**/{lefthook,.lefthook,lefthook-local,.lefthook-local}.yml",
                "https://lefthook.dev/configuration/",
            ),
            (
                "/**/{lefthook,.lefthook,lefthook-local,.lefthook-local}.yaml",
                "https://lefthook.dev/configuration/",
            ),
            (
                "/**/{lefthook,.lefthook,lefthook-local,.lefthook-local}.toml",
                "https://lefthook.dev/configuration/",
            ),
            (
                "/**/{lefthook,.lefthook,lefthook-local,.lefthook-local}.json",
                "https://lefthook.dev/configuration/",
            ),
            (
                "/**/{lefthook,.lefthook,lefthook-local,.lefthook-local}.jsonc",
                "https://lefthook.dev/configuration/",
            ),
            ("/**/{.lefthook,.lefthook-local}/**", "https://lefthook.dev/configuration/source_dir.html"),
            ("/**/.hgrc", "hgrc(5)"),
            ("/**/.hg/{hgrc,hgrc-not-shared}", "hgrc(5)"),
            ("/**/.sl/config", "https://sapling-scm.com/docs/introduction/getting-started"),
            ("/**/.jj/repo/config.toml", "https://jj-vcs.github.io/jj/latest/config/"),
            ("/**/.jjconfig.toml", "https://jj-vcs.github.io/jj/latest/config/"),
            ("/**/.config/jj/**", "https://jj-vcs.github.io/jj/latest/config/"),
            ("/**/.lintstagedrc", "https://github.com/lint-staged/lint-staged#configuration"),
            ("/**/.lintstagedrc.*", "https://github.com/lint-staged/lint-staged#configuration"),
            ("/**/lint-staged.config.*", "https://github.com/lint-staged/lint-staged#configuration"),
            ("/**/.commitlintrc", "https://commitlint.js.org/reference/configuration.html"),
            ("/**/.commitlintrc.*", "https://commitlint.js.org/reference/configuration.html"),
            ("/**/commitlint.config.*", "https://commitlint.js.org/reference/configuration.html"),
            ("/**/.overcommit.yml", "https://github.com/sds/overcommit#configuration"),
        ],
    },
    DenialGroup {
        id: "project_policy",
        reason: "it holds the policy of the project",
        rows: &[("/**/.sinew/**", "sinew(1)")],
    },
    DenialGroup {
        id: "shell_startup",
        reason: "every new shell runs it",
        rows: &[
            ("/**/.profile", "sh(1)"),
            ("/**/.{bashrc,bash_profile,bash_login,bash_logout,bash_aliases}", "bash(1)"),
            ("/**/.bash_completion", "https://github.com/scop/bash-completion#faq"),
            ("/**/.inputrc", "readline(3)"),
            ("/**/.{zshrc,zshenv,zprofile,zlogin,zlogout}", "zsh(1)"),
            ("/**/.kshrc", "ksh(1)"),
            ("/**/.{cshrc,tcshrc,login,logout}", "tcsh(1)"),
            ("/**/.pam_environment", "pam_env(8)"),
            ("/**/.{xprofile,xsession,xsessionrc,xinitrc}", "Xsession(5)"),
            ("/**/.config/fish/**", "fish(1)"),
            ("/**/.config/nushell/**", "https://www.nushell.sh/book/configuration.html"),
            ("/**/.xonshrc", "https://xon.sh/xonshrc.html"),
            ("/**/.config/environment.d/**", "environment.d(5)"),
            ("/**/.tmux.conf", "tmux(1)"),
            ("/**/.config/tmux/**", "tmux(1)"),
            ("/**/.screenrc", "screen(1)"),
            ("/**/.wezterm.lua", "https://wezterm.org/config/files.html"),
            ("/**/{.envrc,.direnvrc,direnvrc}", "direnv(1)"),
            ("/**/.config/direnv/**", "direnv.toml(1)"),
            ("/**/{.mise,mise}.toml", "https://mise.jdx.dev/configuration.html"),
            ("/**/{.mise,mise}.*.toml", "https://mise.jdx.dev/configuration/environments.html"),
            ("/**/.mise/**", "https://mise.jdx.dev/configuration.html"),
            ("/**/mise/config*.toml", "https://mise.jdx.dev/configuration.html"),
            ("/**/.config/mise.toml", "https://mise.jdx.dev/configuration.html"),
            ("/**/.config/mise/**", "https://mise.jdx.dev/configuration.html"),
            ("/etc/{profile,bashrc,bash.bashrc,zshrc,zprofile,zshenv,environment}", "bash(1)"),
            ("/etc/{profile.d,zsh,fish}/**", "bash(1)"),
            ("/**/.config/elvish/**", "https://elv.sh/ref/command.html#rc-file"),
            ("/**/.elvish/**", "https://elv.sh/ref/command.html#rc-file"),
            (
                "/**/.config/powershell/**",
                "https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/about_profiles",
            ),
            ("/**/.oh-my-zsh/**", "https://github.com/ohmyzsh/ohmyzsh/wiki/Customization"),
            ("/**/.config/starship.toml", "https://starship.rs/config/#custom-commands"),
            ("/**/.lessfilter", "lesspipe(1)"),
            ("/**/.config/kitty/**", "https://sw.kovidgoyal.net/kitty/conf/"),
            ("/**/.config/alacritty/**", "alacritty(5)"),
            ("/**/.config/wezterm/**", "https://wezterm.org/config/files.html"),
            ("/**/.config/zellij/**", "https://zellij.dev/documentation/configuration.html"),
            ("/**/.rvmrc", "https://rvm.io/workflow/rvmrc"),
            ("/**/.asdfrc", "https://asdf-vm.com/manage/configuration.html"),
            ("/**/devbox.json", "https://www.jetify.com/docs/devbox/configuration/"),
        ],
    },
    DenialGroup {
        id: "program_folders",
        reason: "shells look for programs there",
        rows: &[
            ("/**/.local/bin/**", "file-hierarchy(7)"),
            ("/**/.{cargo,bun,deno,volta,npm-global}/bin/**", "bash(1)"),
            ("/**/.{pyenv,rbenv,nodenv,asdf}/shims/**", "bash(1)"),
        ],
    },
    DenialGroup {
        id: "ssh",
        reason: "it controls who can log in and with which keys",
        rows: &[
            ("/**/.ssh/**", "ssh(1)"),
            ("/**/.{rhosts,shosts}", "sshd(8)"),
            ("/**/.k5login", "k5login(5)"),
        ],
    },
    DenialGroup {
        id: "keychain",
        reason: "it stores passwords and keys",
        rows: &[
            ("/**/Library/Keychains/**", "security(1)"),
            ("/**/.local/share/keyrings/**", "https://wiki.gnome.org/Projects/GnomeKeyring"),
            ("/**/.local/share/kwalletd/**", "https://docs.kde.org/stable5/en/kwalletmanager/kwallet5/"),
            ("/**/.gnupg/**", "gpg(1)"),
            ("/**/.password-store/**", "pass(1)"),
        ],
    },
    DenialGroup {
        id: "autostart",
        reason: "the system starts programs listed there",
        rows: &[
            ("/**/Library/{LaunchAgents,LaunchDaemons,StartupItems}/**", "launchd.plist(5)"),
            ("/**/.config/systemd/**", "systemd.unit(5)"),
            ("/**/.local/share/systemd/**", "systemd.unit(5)"),
            ("/etc/systemd/**", "systemd.unit(5)"),
            ("/{usr/,}lib/systemd/**", "systemd.unit(5)"),
            ("/etc/{init,init.d,rc.d,rc.local}/**", "init(8)"),
            ("/etc/{init,init.d,rc.d,rc.local}", "init(8)"),
            ("/**/.config/autostart/**", "https://specifications.freedesktop.org/autostart-spec/latest/"),
            ("/**/.config/autostart-scripts/**", "https://userbase.kde.org/System_Settings/Autostart"),
            ("/etc/xdg/autostart/**", "https://specifications.freedesktop.org/autostart-spec/latest/"),
            ("/**/.config/plasma-workspace/env/**", "https://userbase.kde.org/Session_Environment_Variables"),
            ("/**/.config/hypr/**", "https://wiki.hypr.land/Configuring/Keywords/"),
            (
                "/**/.config/{i3,sway,river,awesome,qtile,openbox,bspwm,sxhkd,herbstluftwm,xmonad,labwc,niri}/**",
                "https://wiki.archlinux.org/title/Autostarting#Window_manager",
            ),
            (
                "/**/{.i3,.xmonad,.fluxbox,.icewm}/**",
                "https://wiki.archlinux.org/title/Autostarting#Window_manager",
            ),
            ("/**/.local/share/dbus-1/**", "dbus-daemon(1)"),
            (
                "/**/.local/share/applications/**",
                "https://specifications.freedesktop.org/desktop-entry-spec/latest/",
            ),
            ("/**/.{forward,procmailrc}", "aliases(5)"),
            ("/**/.{yabairc,skhdrc}", "https://github.com/koekeishiya/yabai/wiki/Configuration"),
            (
                "/**/.config/{yabai,skhd,karabiner,aerospace}/**",
                "https://karabiner-elements.pqrs.org/docs/json/location/",
            ),
            ("/**/.hammerspoon/**", "https://www.hammerspoon.org/go/"),
        ],
    },
    DenialGroup {
        id: "crontab",
        reason: "the system runs it on a schedule",
        rows: &[
            ("/var/spool/{cron,at}/**", "cron(8)"),
            ("/var/at/**", "at(1)"),
            ("/usr/lib/cron/**", "cron(8)"),
            ("/etc/{crontab,anacrontab}", "crontab(5)"),
            ("/etc/cron.*/**", "cron(8)"),
            ("/etc/periodic/**", "periodic.conf(5)"),
        ],
    },
    DenialGroup {
        id: "agent_settings",
        reason: "agents and editors run commands from it",
        rows: &[
            ("/**/.mcp.json", "https://docs.claude.com/en/docs/claude-code/mcp"),
            ("/**/.claude/settings*.json", "https://docs.claude.com/en/docs/claude-code/settings"),
            (
                "/**/.claude/{hooks,agents,skills,plugins,commands,workflows}/**",
                "https://docs.claude.com/en/docs/claude-code/settings",
            ),
            ("/**/.claude/*.{sh,py,js,mjs,cjs,ts}", "https://docs.claude.com/en/docs/claude-code/hooks"),
            ("/**/.claude.json", "https://docs.claude.com/en/docs/claude-code/settings"),
            ("/**/.codex/**", "https://github.com/openai/codex/blob/main/docs/config.md"),
            ("/**/.cursor/**", "https://docs.cursor.com/context/mcp"),
            ("/**/.windsurf/**", "https://docs.windsurf.com/windsurf/cascade/hooks"),
            ("/**/.kiro/**", "https://kiro.dev/docs/hooks/"),
            ("/**/.roo/**", "https://docs.roocode.com/features/mcp/using-mcp-in-roo"),
            (
                "/**/.amazonq/**",
                "https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/command-line-mcp.html",
            ),
            ("/**/.opencode/**", "https://opencode.ai/docs/config/"),
            ("/**/opencode.json", "https://opencode.ai/docs/config/"),
            (
                "/**/.gemini/settings.json",
                "https://github.com/google-gemini/gemini-cli/blob/main/docs/get-started/configuration.md",
            ),
            ("/**/.aider.conf.yml", "https://aider.chat/docs/config/aider_conf.html"),
            ("/**/.continue/**", "https://docs.continue.dev/reference"),
            ("/**/.devcontainer/**", "https://containers.dev/implementors/spec/#devcontainerjson"),
            ("/**/.devcontainer.json", "https://containers.dev/implementors/spec/#devcontainerjson"),
            ("/**/.vscode/**", "https://code.visualstudio.com/docs/debugtest/tasks"),
            (
                "/**/*.code-workspace",
                "https://code.visualstudio.com/docs/editing/workspaces/multi-root-workspaces",
            ),
            ("/**/.idea/**", "https://www.jetbrains.com/help/idea/project-security.html"),
            ("/**/.zed/**", "https://zed.dev/docs/tasks"),
            ("/**/.helix/**", "https://docs.helix-editor.com/configuration.html"),
            ("/**/.{vimrc,exrc,gvimrc}", "https://vimhelp.org/starting.txt.html"),
            ("/**/.vim/**", "https://vimhelp.org/starting.txt.html"),
            ("/**/.config/{vim,nvim}/**", "https://neovim.io/doc/user/starting.html"),
            ("/**/.{nvim.lua,nvimrc}", "https://neovim.io/doc/user/options.html#'exrc'"),
            ("/**/.{emacs,emacs.el}", "emacs(1)"),
            ("/**/.emacs.d/**", "emacs(1)"),
            ("/**/.config/emacs/**", "emacs(1)"),
            (
                "/**/{.dir-locals,.dir-locals-2}.el",
                "https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html",
            ),
            (
                "/**/.gemini/extensions/**",
                "https://github.com/google-gemini/gemini-cli/blob/main/docs/extensions/reference.md",
            ),
            (
                "/**/.qwen/settings.json",
                "https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings/",
            ),
            (
                "/**/.github/hooks/**",
                "https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-hooks-reference",
            ),
            (
                "/**/.copilot/**",
                "https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-hooks-reference",
            ),
            ("/**/.clinerules/hooks/**", "https://docs.cline.bot/customization/hooks"),
            ("/**/{crush,.crush}.json", "https://github.com/charmbracelet/crush#configuration"),
            ("/**/{crushrc,.crushrc}", "https://github.com/charmbracelet/crush#configuration"),
            ("/**/.config/crush/**", "https://github.com/charmbracelet/crush#configuration"),
            ("/**/.kilocode/mcp.json", "https://kilocode.ai/docs/features/mcp/using-mcp-in-kilo-code"),
            ("/**/.factory/*.json", "https://docs.factory.ai/cli/configuration/hooks-guide"),
            ("/**/.junie/mcp/**", "https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html"),
            ("/**/.config/goose/**", "https://block.github.io/goose/docs/guides/config-file"),
            (
                "/**/.config/{Code,VSCodium,Cursor}/User/**",
                "https://code.visualstudio.com/docs/configure/settings",
            ),
            ("/**/.config/{zed,helix,lvim,kak}/**", "https://zed.dev/docs/configuring-zed"),
            ("/**/.kakrc", "kak(1)"),
        ],
    },
    DenialGroup {
        id: "tool_startup",
        reason: "debuggers, interpreters and package managers run commands from it",
        rows: &[
            ("/**/.{gdbinit,gdbearlyinit}", "gdb(1)"),
            ("/**/.lldbinit", "lldb(1)"),
            ("/**/{.pdbrc,.pdbrc.py}", "https://docs.python.org/3/library/pdb.html#debugger-commands"),
            ("/**/.perldb", "perldebug(1)"),
            ("/**/.jdbrc", "jdb(1)"),
            ("/**/.phpdbginit", "https://www.php.net/manual/en/book.phpdbg.php"),
            (
                "/**/.ghci",
                "https://downloads.haskell.org/ghc/latest/docs/users_guide/ghci.html#the-ghci-and-haskeline-files",
            ),
            (
                "/**/.ghc/**",
                "https://downloads.haskell.org/ghc/latest/docs/users_guide/ghci.html#the-ghci-and-haskeline-files",
            ),
            ("/**/.irbrc", "irb(1)"),
            ("/**/.pryrc", "https://github.com/pry/pry/wiki/Pry-rc"),
            (
                "/**/.{Rprofile,Renviron}",
                "https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html",
            ),
            ("/**/.iex.exs", "https://hexdocs.pm/iex/IEx.html#module-the-iex-exs-file"),
            ("/**/.erlang", "erl(1)"),
            ("/**/.ocamlinit", "ocaml(1)"),
            ("/**/.octaverc", "octave(1)"),
            ("/**/.sbclrc", "sbcl(1)"),
            ("/**/.ipython/**", "https://ipython.readthedocs.io/en/stable/config/intro.html"),
            (
                "/**/.julia/config/**",
                "https://docs.julialang.org/en/v1/manual/command-line-interface/#Startup-file",
            ),
            ("/**/.psqlrc", "psql(1)"),
            ("/**/.sqliterc", "sqlite3(1)"),
            ("/**/.npmrc", "https://docs.npmjs.com/cli/configuring-npm/npmrc"),
            ("/**/.yarnrc", "https://classic.yarnpkg.com/en/docs/yarnrc"),
            ("/**/.yarnrc.yml", "https://yarnpkg.com/configuration/yarnrc"),
            ("/**/.yarn/{plugins,releases}/**", "https://yarnpkg.com/configuration/yarnrc"),
            ("/**/{.pnpmfile,pnpmfile}.cjs", "https://pnpm.io/pnpmfile"),
            ("/**/{.pnpmfile,pnpmfile}.mjs", "https://pnpm.io/pnpmfile"),
            ("/**/.local/lib/python*/site-packages/**", "https://docs.python.org/3/library/site.html"),
            ("/**/.my.cnf", "mysql(1)"),
            ("/**/.guile", "guile(1)"),
            ("/**/.radare2rc", "radare2(1)"),
            ("/**/.ammonite/**", "https://ammonite.io/#ScriptFiles"),
            ("/**/.config/{lf,ranger,yazi,mpv}/**", "lf(1)"),
            ("/**/.wgetrc", "wget(1)"),
            ("/**/.{tigrc,lesskey,muttrc,mailcap,lftprc}", "mailcap(5)"),
            ("/**/.{mongoshrc.js,mongorc.js}", "https://www.mongodb.com/docs/mongodb-shell/mongoshrc/"),
            ("/**/.config/{gh,tig,lazygit,mc}/**", "https://cli.github.com/manual/gh_alias_set"),
            (
                "/**/.kube/config",
                "https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins",
            ),
            (
                "/**/.aws/{config,credentials}",
                "https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-sourcing-external.html",
            ),
            (
                "/**/.docker/{config.json,cli-plugins}/**",
                "https://docs.docker.com/reference/cli/docker/login/#credential-helpers",
            ),
            (
                "/**/.{terraformrc,ansible.cfg}",
                "https://developer.hashicorp.com/terraform/cli/config/config-file",
            ),
            (
                "/**/.gradle/{init.gradle,init.gradle.kts,init.d}/**",
                "https://docs.gradle.org/current/userguide/init_scripts.html",
            ),
            ("/**/.{lein,sbt}/**", "https://www.scala-sbt.org/1.x/docs/Global-Settings.html"),
            ("/**/.jupyter/**", "https://docs.jupyter.org/en/latest/use/config.html"),
        ],
    },
];

const GIT_REASON: &str = "git runs programs named there";

/// Names that a tool must not write, although sandboxed programs may, because git is such a program.
///
/// The whole folder is closed to tools, because each git version adds files that can make git run a program.
pub(super) const TOOL_WRITE_DENIED: &[DenialGroup] = &[DenialGroup {
    id: "git",
    reason: GIT_REASON,
    rows: &[("/**/.git", "gitrepository-layout(5)"), ("/**/.git/**", "gitrepository-layout(5)")],
}];

/// Names that a tool must not read, although sandboxed programs may, because git is such a program. The objects contain
/// every version of every file, forbidden ones too; the git tools filter them by path.
pub(super) const TOOL_READ_DENIED: &[DenialGroup] = &[DenialGroup {
    id: "git_objects",
    reason: "git stores all contents there, those of forbidden files too; use git_log, git_diff or git_status",
    rows: &[
        ("/**/*.git/objects/**", "gitrepository-layout(5)"),
        ("/**/*.git/modules/**/objects/**", "gitrepository-layout(5)"),
        ("/**/*.git/lfs/objects/**", "https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md"),
    ],
}];

/// Names that must be folders: a file or a link with such a name redirects git to another repository.
pub(super) const NON_FOLDER_DENIED: &[DenialGroup] =
    &[DenialGroup { id: "git", reason: GIT_REASON, rows: &[("/**/.git", "gitrepository-layout(5)")] }];

/// Names that must not be accessed at all.
pub(super) const ACCESS_DENIED: &[DenialGroup] = &[DenialGroup {
    id: "processes",
    reason: "it exposes the memory, secrets or open files of a process, or bypasses every path rule",
    rows: &[
        (
            "/proc/*/{environ,mem,maps,smaps,smaps_rollup,numa_maps,pagemap,auxv,stack,syscall,personality}",
            "proc(5)",
        ),
        ("/proc/*/{fd,fdinfo,map_files,root,cwd}/**", "proc(5)"),
        ("/proc/*/{fd,fdinfo,map_files,root,cwd,exe}", "proc(5)"),
        (
            "/proc/*/task/*/{environ,mem,maps,smaps,smaps_rollup,numa_maps,pagemap,auxv,stack,syscall}",
            "proc(5)",
        ),
        ("/proc/*/task/*/{fd,fdinfo,root,cwd}/**", "proc(5)"),
        ("/proc/*/task/*/{fd,fdinfo,root,cwd,exe}", "proc(5)"),
        ("/proc/{kcore,kmem,keys,key-users}", "proc(5)"),
        ("/dev/{mem,kmem,port}", "mem(4)"),
        ("/dev/fd/**", "fd(4)"),
        ("/dev/{fd,stdin,stdout,stderr}", "fd(4)"),
    ],
}];
