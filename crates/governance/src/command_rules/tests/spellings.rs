//! A forbidden name written so that only the program behind it finds it: in a script of sed's, glued to a sign, in an escape,
//! or with a version.

use super::ways::{check, verdict};

#[test]
fn a_script_of_seds_starts_nothing_forbidden() {
    check(
        "forbidden",
        &[
            &["sed", "-n", "1e sudo ls", "f"],
            &["sed", "1e\tsudo", "f"],
            &["sed", "e\\\nsudo ls", "f"],
            &["sed", "$!esudo", "f"],
            &["sed", "1~2esudo", "f"],
            &["sed", "/a/,/b/Iesudo", "f"],
            &["sed", "\\_a_,+3 ! esudo", "f"],
            &["sed", "p;p;1esudo", "f"],
            &["sed", "/x/{p;esudo\n}", "f"],
            &["sed", ":a;N;ba;esudo", "f"],
            &["sed", "# a word\nesudo", "f"],
            &["sed", "a text\\\nmore\nesudo", "f"],
            &["sed", "s/x/sudo ls/e", "f"],
            &["sed", "s/x/sudo/2gpe;p", "f"],
            &["sed", "s-x-sudo ls-e", "f"],
            &["sed", "s+x+sudo+e", "f"],
            &["sed", "s.x.sudo.e", "f"],
            &["sed", "s_x_sudo_e", "f"],
            &["sed", "sXxXsudoXe", "f"],
            &["sed", "s1x1sudo1e", "f"],
            &["sed", "s.[.].sudo.e", "f"],
            &["sed", "s.[^]].sudo.e", "f"],
            &["sed", "s_\\__sudo_e", "f"],
            &["sed", "s_x_sudo ls_;e", "f"],
            &["sed", "s_x_sudo ls_;1{e;}", "f"],
            &["sed", "s_x_sudo ls_;s_^__e", "f"],
            &["sed", "s_x_s\\udo_e", "f"],
            &["sed", "s_x_y\\nsudo_e", "f"],
            &["sed", "-es_x_sudo_e", "f"],
            &["sed", "-nEes_x_sudo_e", "f"],
            &["sed", "--expression=s_x_sudo_e", "f"],
            &["sed", "--exp=1esudo", "f"],
            &["sed", "-e", "p", "-e", "1esudo"],
            &["sed", "-e", "s_x_\\", "-e", "sudo_e", "f"],
            &["sed", "1egit p", "f"],
            &["gsed", "s_x_sudo_e", "f"],
            &["my-own-sed", "s_x_sudo_e", "f"],
            &["find", ".", "-exec", "sed", "-i", "s_x_sudo_e", "{}", ";"],
            &["sh", "-c", "sed 's_x_sudo ls_e' f"],
            &["sh", "-c", "sed \"s_'_sudo ls_e\" f"],
            &["sh", "-c", "sh -c 'sed \"s_x_sudo ls_e\" f'"],
            &["sh", "-c", "sed 1esudo f"],
        ],
    );
    check(
        "allowed",
        &[
            &["sed", "-i", "s_x_sudo_", "f"],
            &["sed", "-i", "s_x_sudo_;p", "sudoers.txt"],
            &["sed", "s_pseudo_x_e", "f"],
            &["sed", "-n", "1,5p", "esudoku"],
            &["sed", "i sudo-like", "examples/run.txt"],
            &["sed", "hesudo", "f"],
        ],
    );
}

#[test]
fn a_file_that_an_editor_is_given_is_no_script() {
    let lists = "allowed: [\"*\"]\nforbidden: [sh]\n";
    for words in [
        &["sed", "-i", "s_a_b_", "examples/run.sh"][..],
        &["find", ".", "-name", "*.sh"],
        &["bash", "-c", "./x.sh y.txt"],
        &["python3", "build.py", "x-sh.txt", "q.sh"],
    ] {
        assert_eq!(verdict(words, lists), "allowed", "{words:?}");
    }
}

#[test]
fn a_name_is_found_behind_what_is_glued_to_it() {
    check(
        "forbidden",
        &[
            &["make", "--eval=all:;-sudo ls"],
            &["make", "--eval", "all: ; -sudo ls"],
            &["make", "--eval", "all:\n\t+sudo ls"],
            &["make", "--eval", "all:;-+@--sudo ls"],
            &["systemd-run", "-p", "ExecStart=-sudo", "x"],
            &["perl", "-e", "exec+sudo"],
            &["vim", "+sudo"],
            &["perl", "-e", "qx.sudo."],
            &["perl", "-e", "print qx-sudo ls-"],
            &["perl", "-e", "qx+sudo+"],
            &["perl", "-e", "system qq_sudo_"],
            &["perl", "-e", "exec q XsudoX"],
            &["perl", "-e", "exec qw.git push."],
            &["perl", "-e", "q z; exec q.sudo."],
            &["ruby", "-e", "%x-sudo-"],
            &["ruby", "-e", "exec %.sudo."],
            &["make", "--eval=all:;-git p"],
        ],
    );
    check(
        "allowed",
        &[
            &["make", "-sudo"],
            &["docker", "run", "--sudo", "x"],
            &["bash", "-c", "docker run --sudo x"],
            &["cargo", "test", "no-sudo"],
            &["perl", "-e", "no_sudo"],
            &["wget", "https://example.org/my.sudo"],
            &["git", "clone", "https://example.org/b.git", "target"],
        ],
    );
}

#[test]
fn a_name_is_found_behind_an_escape_and_in_escapes() {
    check(
        "forbidden",
        &[
            &["sh", "-c", "printf 'a\\nsudo' | sh"],
            &["sh", "-c", "printf 'a\\\\nsudo' | sh"],
            &["bash", "-c", "$'\\tsudo'"],
            &["awk", "BEGIN{system(\"\\nsudo\")}"],
            &["awk", "BEGIN{system(\"true\\x0asudo\")}"],
            &["awk", "BEGIN{system(\"\\x73udo\")}"],
            &["awk", "BEGIN{system(\"true\\012sudo\")}"],
            &["awk", "BEGIN{system(\"\\163\\165do\")}"],
            &["printf-like", "%b", "\\0012sudo"],
            &["python3", "-c", "import os; os.system('\\u000asudo')"],
            &["node", "-e", "exec('\\u{73}udo')"],
            &["python3", "-c", "import os; os.system('\\U0000000asudo')"],
            &["perl", "-e", "exec qq(\\x{73}udo)"],
            &["bash", "-c", "$'\\cJsudo'"],
            &["bash", "-c", "$'git\\x20p'"],
        ],
    );
    check(
        "allowed",
        &[
            &["sh", "-c", "printf 'a\\nsudoku' | sh"],
            &["awk", "BEGIN{print \"\\x\"}"],
            &["awk", "BEGIN{print \"\\u{110000}\\x{\\\"}"],
            &["awk", "é\\cé\\c\\"],
        ],
    );
}

#[test]
fn a_name_is_found_in_the_escapes_of_sed_perl_and_python() {
    check(
        "forbidden",
        &[
            &["sed", "s_x_\\o163udo_e", "f"],
            &["sed", "s_x_\\d115udo_e", "f"],
            &["sed", "s_x_\\x73udo_e", "f"],
            &["sed", "1e\\o163udo", "f"],
            &["sed", "1e\\d115udo", "f"],
            &["sed", "s_x_\\LSUDO_e", "f"],
            &["sed", "s_x_\\lSudo_e", "f"],
            &["sed", "s_x_s\\LUD\\Eo_e", "f"],
            &["sed", "s/x/\\LS\\o125do/e", "f"],
            &["perl", "-e", "exec qq(\\o{163}udo)"],
            &["perl", "-e", "exec qq(\\N{U+73}udo)"],
            &["perl", "-e", "exec \"\\LSUDO\""],
            &["perl", "-e", "exec \"\\LGIT PUSH\""],
            &["python3", "-c", "import os; os.system('\\N{LATIN SMALL LETTER S}udo')"],
            &["sh", "-c", "python3 -c 'exec(\"\\N'\"{LATIN SMALL LETTER S}udo\"'\")'"],
        ],
    );
    check(
        "allowed",
        &[
            &["sed", "s_x_\\LSUDOKU_e", "f"],
            &["perl", "-e", "print qq(\\N{U+70}udo)"],
            &["perl", "-ne", "print if /\\d{3}\\D/"],
            &["grep", "\\N{BULLET}", "f"],
        ],
    );
    let lists = "allowed: [\"*\"]\nforbidden: [Xorg]\n";
    assert_eq!(verdict(&["sed", "s_x_\\uxorg_e", "f"], lists), "forbidden");
    assert_eq!(verdict(&["nice", "xorg"], lists), "allowed");
}

#[test]
fn a_name_is_found_in_every_quote_of_perls_and_in_what_a_shell_puts_for_a_variable() {
    check(
        "forbidden",
        &[
            &["perl", "-e", "$_=x;s.x.sudo.;exec"],
            &["perl", "-e", "$_=x;s zxzsudoz;exec"],
            &["perl", "-e", "$_=x;y-x-sudo-;exec"],
            &["perl", "-e", "$_=x;tr.x.sudo.;exec"],
            &["perl", "-e", "m.sudo.;exec $&"],
            &["perl", "-e", "exec qr.sudo."],
            &["sh", "-c", "${x-sudo} ls"],
            &["sh", "-c", "${x-${y-sudo}} ls"],
            &["bash", "-c", "${x[1]-sudo} ls"],
            &["sh", "-c", "${x:-sudo} ls"],
            &["sh", "-c", "${x=sudo} ls"],
            &["sh", "-c", "${x+sudo} ls"],
            &["sh", "-c", "${x-git p}"],
        ],
    );
    check(
        "allowed",
        &[
            &["perl", "-e", "s.x.sudo"],
            &["perl", "-e", "terms.x.sudo."],
            &["sh", "-c", "${x} no-sudo"],
            &["sh", "-c", "{ x-sudo; }"],
        ],
    );
}

#[test]
fn a_name_is_found_behind_the_letters_of_any_programs_options() {
    check(
        "forbidden",
        &[
            &["zip", "-TTsudo", "x.zip", "x"],
            &["su", "-qcsudo"],
            &["man", "-aPsudo", "ls"],
            &["man", "-aP/usr/bin/sudo", "ls"],
        ],
    );
    check("allowed", &[&["zip", "-TTsudoku", "x.zip"], &["man", "--aPsudo", "ls"], &["zip", "TTsudo"]]);
}

#[test]
fn a_program_is_known_with_its_version_and_by_any_path() {
    for (rule, line, expect) in [
        ("python", "python3.11 x.py", "forbidden"),
        ("python", "/usr/bin/python3 x.py", "forbidden"),
        ("python3", "env python3.11 x.py", "forbidden"),
        ("python3", "python x.py", "forbidden"),
        ("python2", "python3 x.py", "allowed"),
        ("python3", "python2.7 x.py", "allowed"),
        ("gcc", "gcc-12 x.c", "forbidden"),
        ("gcc", "gcc-ar x.a", "allowed"),
        ("python", "python3-config", "allowed"),
        ("python", "pythonista", "allowed"),
        ("sudo", "/usr/bin/../bin/sudo", "forbidden"),
        ("rm", "busybox rm x", "forbidden"),
        ("rm", "toybox rm x", "forbidden"),
        ("rm", "coreutils --coreutils-prog=rm x", "forbidden"),
        ("rm", "rmdir x", "allowed"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let lists = format!("allowed: [\"*\"]\nforbidden: [{rule}]\n");
        assert_eq!(verdict(&words, &lists), expect, "{rule}: {line}");
    }
}

/// Squared, each of these would take minutes.
#[test]
fn a_long_script_is_read_once() {
    let marks: String = (0..10_000_u32).filter_map(char::from_u32).map(|c| format!("s{c}x\nq {c}")).collect();
    let lines = "s/x\\\n".repeat(40_000);
    let commands = "e x;".repeat(40_000);
    let letters = format!("-{}", "a".repeat(250_000));
    for script in [marks, lines, commands, letters] {
        check("allowed", &[&["sed", &script], &["tar", &script]]);
    }
}
