//! The ways in which one program has another started: each meets the rule that forbids the other, and what only mentions it
//! does not. The last table is what is not promised.

use super::*;

/// Verdict on words under a rule about a program and one about a command of git.
pub(super) fn verdict(words: &[&str], lists: &str) -> &'static str {
    let (rules, errors) = compile(lists, FileNames::CaseSensitive);
    assert_eq!(errors, [""; 0]);
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    let judged = rules.admit(&Command::Words(words), &mut Notes::on(&mut Trail::off()));
    match judged {
        Ok(()) => "allowed",
        Err(grounds) => match grounds.detail() {
            "forbidden_command" => "forbidden",
            other => panic!("{other}"),
        },
    }
}

#[track_caller]
pub(super) fn check(expect: &str, lines: &[&[&str]]) {
    for words in lines {
        let lists = "allowed: [\"*\"]\nforbidden: [sudo, {argv: [git, push]}]\n";
        assert_eq!(verdict(words, lists), expect, "{words:?}");
    }
}

#[test]
fn git_starts_nothing_forbidden() {
    check(
        "forbidden",
        &[
            &["git", "--shallow-file", "status", "p"],
            &["nice", "git", "--shallow-file", "status", "p"],
            &["git", "--shallow-file", "status", "bisect", "run", "sudo"],
            &["git", "--shallow-file", "status", "-c", "core.pager=sudo", "-p", "log"],
            &["git", "grep", "-Osudo", "x"],
            &["git", "grep", "-nOsudo", "x"],
            &["git", "grep", "-O", "sudo", "x"],
            &["git", "grep", "--open-files-in-pager=sudo", "x"],
            &["git", "grep", "--op=sudo", "x"],
            &["git", "-p", "grep", "--open=sudo -n", "x"],
            &["git", "rebase", "-x", "sudo ls"],
            &["git", "rebase", "-xsudo", "main"],
            &["git", "rebase", "--exe=sudo", "main"],
            &["git", "rebase", "-x", "git push"],
            &["git", "rebase", "-x", "git p"],
            &["git", "bisect", "run", "sh", "-c", "sudo ls"],
            &["git", "bisect", "run", "git", "p"],
            &["git", "submodule", "foreach", "sudo ls"],
            &["git", "submodule", "foreach", "--recursive", "cd x && git p"],
            &["git", "difftool", "-x", "sudo"],
            &["git", "difftool", "-xsudo"],
            &["git", "difftool", "--extcmd=sudo"],
            &["git", "difftool", "--ext=sudo"],
            &["git", "archive", "--remote=x", "--exec=sudo", "HEAD"],
            &["git", "archive", "--remote=ext::sudo ls", "HEAD"],
            &["git", "fetch", "--upload-pack", "sudo"],
            &["git", "fetch", "--upl=sudo", "x"],
            &["git", "clone", "-usudo", "x"],
            &["git", "clone", "-c", "core.sshCommand=sudo", "x"],
            &["git", "clone", "ext::sudo%Sx", "x"],
            &["git", "ls-remote", "ext::/usr/bin/sudo ls"],
            &["git", "push", "--receive-pack=sudo", "x"],
            &["git", "pull", "--rebase", "ext::git p"],
            &["git", "remote", "add", "x", "ext::sudo ls"],
            &["git", "config", "core.pager", "sudo"],
            &["git", "config", "alias.x", "!sudo ls"],
            &["git", "merge-index", "sudo", "-a"],
            &["git", "send-email", "--sendmail-cmd=sudo", "x"],
            &["git", "svn", "fetch", "--authors-prog=sudo"],
            &["git", "instaweb", "--httpd=sudo"],
            &["git", "filter-branch", "--tree-filter", "sudo ls"],
            &["git", "for-each-repo", "--config=x", "push"],
            &["git", "hook", "run", "sudo"],
            &["git", "-c", "core.pager=git p", "-p", "status"],
            &["git", "-c", "core.fsmonitor=sudo", "status"],
            &["git", "-c", "diff.external=sudo ls", "diff"],
            &["git", "-c", "gpg.program=/usr/bin/sudo", "log", "--show-signature"],
            &["git", "--config-env", "core.pager=sudo", "log"],
            &["git", "--exec-path", "sudo"],
            &["git", "-C", "x", "-c", "alias.status2=!sudo", "status2"],
            &["env", "GIT_SSH_COMMAND=sudo -n", "git", "fetch"],
            &["env", "GIT_EXTERNAL_DIFF=sudo", "git", "diff"],
            &["env", "GIT_PAGER=git p", "git", "-p", "log"],
            &["env", "GIT_EXEC_PATH=/x", "git", "x"],
            &["env", "-S", "git -C x", "push"],
            &["./git", "commit", "-m", "sudo"],
            &["git-push"],
            &["nice", "/usr/lib/git-core/git-push"],
            &["git", "submodule", "foreach", "git-push"],
            // A setting of several words is a line of its own, and may give git any name.
            &["git", "-c", "core.pager=less -R", "-p", "status"],
        ],
    );
}

#[test]
fn git_may_mention_what_is_forbidden() {
    check(
        "allowed",
        &[
            &["git", "grep", "sudo"],
            &["git", "grep", "-n", "--or", "-e", "sudo"],
            &["git", "add", "sudo"],
            &["git", "commit", "-m", "sudo: git p"],
            &["git", "log", "--grep=sudo", "--", "bin/sudo"],
            &["git", "-C", "my folder", "status"],
            &["git", "stash", "list"],
            &["git", "add", "git", "x"],
            &["grep", "git", "x"],
            &["git", "-c", "core.quotePath=off", "diff"],
            &["nice", "git", "-c", "core.quotePath=off", "diff"],
            &["git", "fetch", "origin", "main:main"],
            &["git", "clone", "git@example.org:a/b.git"],
            &["git", "rebase", "-x", "make test"],
            &["/usr/bin/git", "commit", "-m", "sudo"],
        ],
    );
}

#[test]
fn other_programs_start_nothing_forbidden() {
    check(
        "forbidden",
        &[
            &["find", ".", "-exec", "sudo", "ls", ";"],
            &["find", ".", "-execdir", "/usr/bin/sudo", "{}", "+"],
            &["find", ".", "-ok", "git", "push", ";"],
            &["fd", "-x", "sudo"],
            &["rg", "--pre", "sudo", "x"],
            &["rg", "--pre=sudo", "x"],
            &["rg", "--hostname-bin=sudo", "x"],
            &["sed", "1e sudo ls", "f"],
            &["sed", "1esudo", "f"],
            &["sed", "-n", "/x/esudo", "f"],
            &["sed", "-e", "s/x/sudo/e", "f"],
            &["sed", "s,x,sudo id,e", "f"],
            &["awk", "BEGIN{system(\"sudo ls\")}"],
            &["awk", "{print | \"sudo tee x\"}"],
            &["gawk", "BEGIN{\"sudo\"|getline}"],
            &["tar", "-cf", "x", "--checkpoint=1", "--checkpoint-action=exec=sudo ls", "."],
            &["tar", "-cf", "x", "--checkpoint-act", "exec=sudo", "."],
            &["tar", "-xIsudo", "-f", "x"],
            &["tar", "--use-comp=sudo", "-xf", "x"],
            &["tar", "xf", "x", "--to-command=sudo"],
            &["tar", "--rsh-command=/bin/sudo", "-xf", "h:x"],
            &["env", "sudo"],
            &["env", "-Ssudo ls"],
            &["env", "-iSsudo"],
            &["env", "-u", "HOME", "A=B", "sudo"],
            &["xargs", "-n1", "sudo"],
            &["nice", "-n5", "sudo"],
            &["timeout", "5", "nice", "sudo"],
            &["sort", "--compress-program=sudo", "x"],
            &["sort", "--compress-prog", "sudo", "x"],
            &["split", "--filter=sudo tee", "x"],
            &["install", "-s", "--strip-program=sudo", "a", "b"],
            &["rsync", "-e", "sudo", "a", "h:b"],
            &["rsync", "-avesudo", "a", "h:b"],
            &["rsync", "--rsync-path=sudo rsync", "a", "h:b"],
            &["ssh", "-oProxyCommand=sudo ls", "h"],
            &["ssh", "h", "git push"],
            &["scp", "-S", "sudo", "a", "b"],
            &["man", "-Psudo", "ls"],
            &["zip", "-T", "-TT", "sudo", "x.zip", "x"],
            &["vim", "-c", ":!sudo ls"],
            &["vim", "+!sudo"],
            &["make", "SHELL=/usr/bin/sudo"],
            &["cargo", "test", "--config", "target.x86.runner='sudo'"],
            &["socat", "-", "EXEC:sudo,pty"],
            &["python3", "-c", "import os; os.system('sudo ls')"],
            &["perl", "-e", "exec sudo"],
            &["bash", "-c", "s'u'd\"o\" ls"],
            &["bash", "-c", "git p\\ush"],
            &["bash", "-c", "command sudo"],
            &["npx", "sudo"],
            &["uv", "run", "git", "push"],
            &["docker", "run", "x", "sudo"],
            &["anything", "--at-all=sudo"],
            &["./ls", "sudo"],
            &["A=1", "sudo"],
        ],
    );
    check(
        "allowed",
        &[
            &["ls", "sudo"],
            &["/bin/cat", "/etc/sudo"],
            &["grep", "-r", "sudo", "."],
            &["rg", "sudo"],
            &["rg", "-n", "git push"],
            &["find", ".", "-name", "*.rs"],
            &["sed", "-i", "s/x/y/", "sudoers.txt"],
            &["tar", "-xzf", "x.tar.gz"],
            &["cargo", "test", "sudoku"],
            &["echo", "sudo"],
            &["python3", "pseudo.py"],
        ],
    );
}

#[test]
fn an_option_of_a_rule_is_known_by_its_beginning_and_among_others() {
    for (rule, line, expect) in [
        ("{argv: [git, push, --force]}", "git push --force", "forbidden"),
        ("{argv: [git, push, --force]}", "git push --forc origin", "forbidden"),
        ("{argv: [git, push, --force]}", "git --force push", "forbidden"),
        ("{argv: [git, push, --force]}", "git push --force-with-lease", "allowed"),
        ("{argv: [git, push, --force]}", "git push -- main", "allowed"),
        ("{argv: [git, push, -f]}", "git push -vf", "forbidden"),
        ("{argv: [git, push, -f]}", "git push origin", "allowed"),
        ("{argv: [git, clone, --upload-pack]}", "git clone --upload-pack=x y", "forbidden"),
        ("{argv: [git, clone, --upload-pack=x]}", "git clone --upl=x y", "forbidden"),
        ("{argv: [git, clone, --upload-pack=x]}", "git clone --upl=z y", "allowed"),
        ("{argv: [rm, -rf]}", "rm -rf x", "forbidden"),
        ("{argv: [rm, -rf]}", "rm -vfr x", "forbidden"),
        ("{argv: [rm, -rf]}", "rm -f -r x", "forbidden"),
        ("{argv: [rm, -rf]}", "rm -r x", "allowed"),
        ("{argv: [rm, -rf]}", "rm fr", "allowed"),
        ("{argv: [rm, -r, -f]}", "rm -fr x", "forbidden"),
        ("{argv: [find, -exec]}", "find . -exec x", "forbidden"),
        ("{argv: [find, -exec]}", "find . -executable", "allowed"),
        ("{argv: [find, -exec]}", "find . -name c -xdev", "allowed"),
        ("{argv: [cp, '-']}", "cp -a x y", "allowed"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let lists = format!("allowed: [\"*\"]\nforbidden: [{rule}]\n");
        assert_eq!(verdict(&words, &lists), expect, "{rule}: {line}");
    }
}

/// A long line is read in one walk: squared, this would take minutes.
#[test]
fn a_long_line_is_read_once() {
    let long: Vec<&str> = ["git", "-C"].into_iter().cycle().take(100_000).chain(["status"]).collect();
    let nested: Vec<&str> = ["nice"].into_iter().chain(long).collect();
    check("allowed", &[&nested]);
}

/// Program names that only the program's own interpretation of its words produces. The list of allowed
/// commands is the promise there.
#[test]
fn what_is_put_together_is_not_promised() {
    check(
        "allowed",
        &[
            &["sh", "-c", "a=su; ${a}do ls"],
            &["sh", "-c", "/usr/bin/sud? ls"],
            &["python3", "-c", "import os; os.system('su' + 'do ls')"],
            &["python3", "script.py"],
            &["make"],
            &["git", "-p", "log"],
        ],
    );
}
