//! A standing rule covers what was displayed, and no call that differs in any input of the decision.

use tool::CallerEndpoint;

use super::*;

fn caller() -> Caller {
    Caller {
        uid: 501,
        pid: None,
        endpoint: CallerEndpoint::Mcp,
        connection: 3,
        client: Some("claude".into()),
        session: None,
        account: None,
    }
}

fn with_profile<T>(change: impl FnOnce(&mut CallProfile<'_>), then: impl FnOnce(&CallProfile<'_>) -> T) -> T {
    let (caller, rules) = (caller(), vec!["tools.yaml write_file".to_owned()]);
    let mut wanted = CallProfile {
        tool: "write_file",
        definition: "d",
        caller: &caller,
        instance_id: "now",
        mode: Mode::Alert,
        rules: &rules,
        bounds: "in /w, network off, at most 30 s",
        facts: &[],
        paths: vec![("path".into(), "/w/src/a.rs".into())],
        commands: Vec::new(),
        hosts: Vec::new(),
        switches: BTreeMap::from([("dry_run".into(), true)]),
        other_arguments_digest: None,
        arguments_digest: "x",
    };
    change(&mut wanted);
    then(&wanted)
}

fn command(wanted: &mut CallProfile<'_>, words: &[&str]) {
    wanted.paths = Vec::new();
    wanted.commands = vec![words.iter().map(|word| (*word).to_owned()).collect()];
}

fn rule() -> RuleScope {
    with_profile(|_| (), |wanted| RuleScope::from_call(wanted).unwrap())
}

fn covers(rule: &RuleScope, change: impl FnOnce(&mut CallProfile<'_>)) -> bool {
    with_profile(change, |wanted| rule.covers(wanted))
}

#[test]
fn rule_binds_every_input_of_the_decision() {
    let rule = rule().on_connection("now", 3);
    assert!(covers(&rule, |_| ()));
    assert!(
        covers(&rule, |wanted| wanted.arguments_digest = "other content"),
        "other arguments: any, as displayed"
    );
    let other = |change: fn(&mut Caller)| {
        let mut caller = caller();
        change(&mut caller);
        caller
    };
    for (what, caller) in [
        ("user", other(|caller| caller.uid = 502)),
        ("client", other(|caller| caller.client = None)),
        ("session", other(|caller| caller.session = Some("s".into()))),
        ("connection", other(|caller| caller.connection = 4)),
        ("process", other(|caller| caller.account = Some(CallerKey::of_pid(8)))),
    ] {
        let covered =
            with_profile(|_| (), |wanted| rule.covers(&CallProfile { caller: &caller, ..wanted.clone() }));
        assert!(!covered, "another {what}");
    }
    let more = vec!["tools.yaml write_file".to_owned(), "safety.yaml human_approval.rules".to_owned()];
    let same_name = with_profile(
        |_| (),
        |wanted| {
            rule.covers(&CallProfile {
                caller: &other(|caller| caller.endpoint = CallerEndpoint::Control),
                ..wanted.clone()
            })
        },
    );
    assert!(!same_name, "the same client name on another socket");
    let asked_by_more =
        with_profile(|_| (), |wanted| rule.covers(&CallProfile { rules: &more, ..wanted.clone() }));
    assert!(!asked_by_more, "a rule that did not require approval then");
    assert!(!covers(&rule, |wanted| wanted.tool = "delete_file"));
    assert!(!covers(&rule, |wanted| wanted.definition = "changed"));
    assert!(!covers(&rule, |wanted| wanted.mode = Mode::Degraded));
    assert!(!covers(&rule, |wanted| wanted.instance_id = "after a restart"));
    assert!(!covers(&rule, |wanted| wanted.bounds = "in /w, network full, at most 30 s"));
    assert!(!covers(&rule, |wanted| wanted.paths[0].1 = "/w/src/b.rs".into()));
    assert!(!covers(&rule, |wanted| wanted.paths.push(("also".into(), "/w/src/a.rs".into()))));
    assert!(!covers(&rule, |wanted| wanted.hosts.push("example.org".into())));
    assert!(!covers(&rule, |wanted| wanted.switches.clear()), "a dry run, and now the real run");
    assert!(!covers(&rule, |wanted| wanted.switches = BTreeMap::from([("dry_run".into(), false)])));
    assert!(!covers(&rule, |wanted| wanted.switches.extend([("recursive".into(), true)])));
    assert!(rule.lines().contains(&"  dry_run is true".to_owned()), "{:?}", rule.lines());
}

#[test]
fn other_program_directory_or_script_needs_approval() {
    let fact = |label: &str, text: &str| (label.to_owned(), text.to_owned());
    let then =
        [fact("program", "/bin/cat (sha256 1)"), fact("runs in", "/w"), fact("reads", "/w/a (sha256 2)")];
    let (words, pattern) = (["cat", "a"], "command=cat".to_owned());
    let make = |facts: &[(String, String)]| {
        with_profile(
            |wanted| command(wanted, &words),
            |wanted| RuleScope::from_call(&CallProfile { facts, ..wanted.clone() }).unwrap(),
        )
    };
    let covers = |rule: &RuleScope, facts: &[(String, String)]| {
        with_profile(
            |wanted| command(wanted, &words),
            |wanted| rule.covers(&CallProfile { facts, ..wanted.clone() }),
        )
    };
    let exact = make(&then);
    let open = make(&then).with_patterns(&[pattern]).unwrap();
    assert!(covers(&exact, &then) && covers(&open, &then));
    for (n, other) in [fact("program", "/bin/cat (sha256 9)"), fact("runs in", "/x")].into_iter().enumerate()
    {
        let mut now = then.to_vec();
        now[n] = other;
        assert!(!covers(&exact, &now) && !covers(&open, &now), "{now:?}");
    }
    let mut script = then.to_vec();
    script[2] = fact("reads", "/w/a (sha256 9)");
    assert!(!covers(&exact, &script), "a script that was changed");
    assert!(covers(&open, &script), "further words may name any file, as displayed");
    assert!(exact.lines().join("\n").contains("runs in /w\nreads /w/a (sha256 2)"), "{:?}", exact.lines());
}

#[test]
fn pattern_covers_only_what_is_displayed() {
    let widened = |pattern: &str| rule().with_patterns(&[pattern.to_owned()]);
    let rule = widened("path=/w/src/*.rs").unwrap();
    assert!(rule.lines().join("\n").contains("path matches /w/src/*.rs\n"), "{:?}", rule.lines());
    assert!(covers(&rule, |wanted| wanted.paths[0].1 = "/w/src/b.rs".into()));
    assert!(!covers(&rule, |wanted| wanted.paths[0].1 = "/w/src/deep/b.rs".into()), "`*` crosses no `/`");
    for wide in
        ["path=/**", "path=/w*/**", "path=src/**", "path=/w/src/../../**", "path=/etc/ssl/**", "mode=x"]
    {
        assert!(widened(wide).is_err(), "{wide}");
    }
    assert!(widened("path=/w/src/[").unwrap_err().contains("is not a valid pattern"));
    // A path that looks like a pattern is still a literal path.
    let named = with_profile(
        |wanted| wanted.paths[0].1 = "/w/src/[a].rs".into(),
        |wanted| RuleScope::from_call(wanted).unwrap(),
    );
    assert!(named.lines().join("\n").contains("path is /w/src/[a].rs\n"), "{:?}", named.lines());
    assert!(!covers(&named, |wanted| wanted.paths[0].1 = "/w/src/a.rs".into()));
}

#[test]
fn only_read_only_programs_allow_further_words() {
    let make = |words: &[&str], file: &str, pattern: &str| {
        let facts = [("program".to_owned(), format!("{file} (sha256 1)"))];
        let like = with_profile(
            |wanted| command(wanted, words),
            |wanted| RuleScope::from_call(&CallProfile { facts: &facts, ..wanted.clone() }).unwrap(),
        );
        like.with_patterns(&[format!("command={pattern}")])
    };
    for (words, pattern) in [
        (["sh", "-c", "ls"].as_slice(), "sh -c"),
        (&["/bin/bash", "-c", "ls"], "/bin/bash -c"),
        (&["rbash", "x.sh"], "rbash"),
        (&["env", "X=1", "rm"], "env X=1"),
        (&["python3.12", "-c", "x"], "python3.12 -c"),
        (&["xargs", "-0", "rm"], "xargs -0"),
        (&["setarch", "x86_64", "rm"], "setarch x86_64"),
        (&["/lib64/ld-linux-x86-64.so.2", "/bin/rm"], "/lib64/ld-linux-x86-64.so.2"),
        (&["prlimit", "rm"], "prlimit"),
        (&["choom", "rm"], "choom"),
        (&["git", "-c", "a.b=c", "x"], "git -c a.b=c"),
        (&["git", "ls-remote", "x"], "git ls-remote"),
        (&["git", "grep", "x"], "git grep"),
        (&["git", "diff", "x"], "git diff"),
        (&["git", "status", "-s"], "git status"),
        (&["sort", "-u", "r.txt"], "sort -u r.txt"),
        (&["sort", "r.txt", "x"], "sort r.txt"),
        (&["find", ".", "x"], "find ."),
        (&["ls", "-l", "x"], "ls -l"),
        (&["ls", "src"], "cat"),
        (&["ls", "src"], ""),
    ] {
        let file = format!("/usr/bin/{}", words[0].rsplit('/').next().unwrap());
        let made = make(words, &file, pattern);
        let is_exact = pattern.split(' ').eq(words.iter().copied());
        assert_eq!(made.is_ok(), is_exact, "{pattern}: {made:?}");
    }
    assert!(make(&["ls", "src"], "/bin/busybox", "ls").is_err(), "another program has that name");
    let rule = make(&["ls", "src", "-l"], "/usr/bin/ls", "ls src").unwrap();
    let facts = [("program".to_owned(), "/usr/bin/ls (sha256 1)".to_owned())];
    let covers = |rule: &RuleScope, words: &[&str]| {
        let change = |wanted: &mut CallProfile<'_>| command(wanted, words);
        with_profile(change, |wanted| rule.covers(&CallProfile { facts: &facts, ..wanted.clone() }))
    };
    assert!(covers(&rule, &["ls", "src", "-a"]) && covers(&rule, &["ls", "src"]));
    assert!(!covers(&rule, &["ls", "lib"]));
    let exact = make(&["ls", "src"], "/usr/bin/ls", "ls src").unwrap();
    assert!(exact.lines().join("\n").contains("and no further words"));
    assert!(covers(&exact, &["ls", "src"]) && !covers(&exact, &["ls", "src", "lib"]));
}

#[test]
fn rule_binds_the_other_arguments() {
    let reported = |words: &str| Some(words.to_owned());
    let rule = with_profile(
        |wanted| wanted.other_arguments_digest = reported("stdin"),
        |wanted| RuleScope::from_call(wanted).unwrap(),
    );
    assert!(rule.lines().iter().any(|line| line == "  other arguments: the same"), "{:?}", rule.lines());
    assert!(covers(&rule, |wanted| wanted.other_arguments_digest = reported("stdin")));
    assert!(!covers(&rule, |wanted| wanted.other_arguments_digest = reported("other words")));
    assert!(!covers(&rule, |wanted| wanted.other_arguments_digest = None));
}
