//! What a standing rule covers: what was displayed, and nothing that differs in any input.

use tool::Door;

use super::*;

fn caller() -> Caller {
    Caller {
        uid: 501,
        pid: None,
        door: Door::Mcp,
        connection: 3,
        client: Some("claude".into()),
        session: None,
    }
}

fn with_wanted<T>(change: impl FnOnce(&mut Wanted<'_>), then: impl FnOnce(&Wanted<'_>) -> T) -> T {
    let (caller, rules) = (caller(), vec!["tools.yaml write_file".to_owned()]);
    let mut wanted = Wanted {
        tool: "write_file",
        definition: "d",
        caller: &caller,
        life: "now",
        mode: Mode::Alert,
        rules: &rules,
        bounds: "in /w, network off, at most 30 s",
        facts: &[],
        paths: vec![("path".into(), "/w/src/a.rs".into())],
        commands: Vec::new(),
        hosts: Vec::new(),
        arguments: "x",
    };
    change(&mut wanted);
    then(&wanted)
}

fn command(wanted: &mut Wanted<'_>, words: &[&str]) {
    wanted.paths = Vec::new();
    wanted.commands = vec![words.iter().map(|word| (*word).to_owned()).collect()];
}

fn rule() -> Rule {
    with_wanted(|_| (), |wanted| Rule::like(wanted).unwrap())
}

fn covers(rule: &Rule, change: impl FnOnce(&mut Wanted<'_>)) -> bool {
    with_wanted(change, |wanted| rule.covers(wanted))
}

#[test]
fn every_input_of_the_decision_is_in_the_key() {
    let rule = rule().on("now", 3);
    assert!(covers(&rule, |_| ()));
    assert!(covers(&rule, |wanted| wanted.arguments = "other content"), "other arguments: any, as displayed");
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
    ] {
        let covered =
            with_wanted(|_| (), |wanted| rule.covers(&Wanted { caller: &caller, ..wanted.clone() }));
        assert!(!covered, "another {what}");
    }
    let more = vec!["tools.yaml write_file".to_owned(), "safety.yaml human_approval.rules".to_owned()];
    let asked_by_more = with_wanted(|_| (), |wanted| rule.covers(&Wanted { rules: &more, ..wanted.clone() }));
    assert!(!asked_by_more, "a rule that did not ask then");
    assert!(!covers(&rule, |wanted| wanted.tool = "delete_file"));
    assert!(!covers(&rule, |wanted| wanted.definition = "changed"));
    assert!(!covers(&rule, |wanted| wanted.mode = Mode::Degraded));
    assert!(!covers(&rule, |wanted| wanted.life = "after a restart"));
    assert!(!covers(&rule, |wanted| wanted.bounds = "in /w, network full, at most 30 s"));
    assert!(!covers(&rule, |wanted| wanted.paths[0].1 = "/w/src/b.rs".into()));
    assert!(!covers(&rule, |wanted| wanted.paths.push(("also".into(), "/w/src/a.rs".into()))));
    assert!(!covers(&rule, |wanted| wanted.hosts.push("example.org".into())));
}

#[test]
fn another_program_folder_or_script_is_asked_about() {
    let fact = |label: &str, text: &str| (label.to_owned(), text.to_owned());
    let then =
        [fact("program", "/bin/git (sha256 1)"), fact("runs in", "/w"), fact("reads", "/w/a (sha256 2)")];
    let (words, pattern) = (["git", "apply", "a"], "command=git apply".to_owned());
    let make = |facts: &[(String, String)]| {
        with_wanted(
            |wanted| command(wanted, &words),
            |wanted| Rule::like(&Wanted { facts, ..wanted.clone() }).unwrap(),
        )
    };
    let covers = |rule: &Rule, facts: &[(String, String)]| {
        with_wanted(
            |wanted| command(wanted, &words),
            |wanted| rule.covers(&Wanted { facts, ..wanted.clone() }),
        )
    };
    let exact = make(&then);
    let open = make(&then).widened(&[pattern]).unwrap();
    assert!(covers(&exact, &then) && covers(&open, &then));
    for (n, other) in [fact("program", "/bin/git (sha256 9)"), fact("runs in", "/x")].into_iter().enumerate()
    {
        let mut now = then.to_vec();
        now[n] = other;
        assert!(!covers(&exact, &now) && !covers(&open, &now), "{now:?}");
    }
    let mut script = then.to_vec();
    script[2] = fact("reads", "/w/a (sha256 9)");
    assert!(!covers(&exact, &script), "a script that was changed");
    assert!(covers(&open, &script), "further words name what they like, as displayed");
    assert!(exact.lines().join("\n").contains("runs in /w\nreads /w/a (sha256 2)"), "{:?}", exact.lines());
}

#[test]
fn a_pattern_is_what_is_displayed_and_no_more() {
    let widened = |pattern: &str| rule().widened(&[pattern.to_owned()]);
    let rule = widened("path=/w/src/*.rs").unwrap();
    assert!(rule.lines().join("\n").contains("path matches /w/src/*.rs\n"), "{:?}", rule.lines());
    assert!(covers(&rule, |wanted| wanted.paths[0].1 = "/w/src/b.rs".into()));
    assert!(!covers(&rule, |wanted| wanted.paths[0].1 = "/w/src/deep/b.rs".into()), "`*` crosses no `/`");
    for wide in
        ["path=/**", "path=/w*/**", "path=src/**", "path=/w/src/../../**", "path=/etc/ssl/**", "mode=x"]
    {
        assert!(widened(wide).is_err(), "{wide}");
    }
    // A name that looks like a pattern is a name.
    let named = with_wanted(
        |wanted| wanted.paths[0].1 = "/w/src/[a].rs".into(),
        |wanted| Rule::like(wanted).unwrap(),
    );
    assert!(named.lines().join("\n").contains("path is /w/src/[a].rs\n"), "{:?}", named.lines());
    assert!(!covers(&named, |wanted| wanted.paths[0].1 = "/w/src/a.rs".into()));
}

#[test]
fn a_wrapper_is_never_approved_by_its_beginning() {
    let make = |words: &[&str], pattern: &str| {
        let like = with_wanted(|wanted| command(wanted, words), |wanted| Rule::like(wanted).unwrap());
        like.widened(&[format!("command={pattern}")])
    };
    for (words, pattern) in [
        (["sh", "-c", "ls"], "sh -c"),
        (["/bin/bash", "-c", "ls"], "/bin/bash -c"),
        (["env", "X=1", "rm"], "env X=1"),
        (["python3.12", "-c", "x"], "python3.12 -c"),
        (["xargs", "-0", "rm"], "xargs -0"),
        (["git", "status", "-s"], "git"),
        (["git", "status", "-s"], "git push"),
    ] {
        assert!(make(&words, pattern).is_err(), "{pattern}");
    }
    let rule = make(&["git", "status", "-s"], "git status").unwrap();
    assert!(covers(&rule, |wanted| command(wanted, &["git", "status", "--long"])));
    assert!(!covers(&rule, |wanted| command(wanted, &["git", "push"])));
    let exact = make(&["sh", "-c", "ls"], "sh -c ls").unwrap();
    assert!(exact.lines().join("\n").contains("and no further words"));
    assert!(!covers(&exact, |wanted| command(wanted, &["sh", "-c", "ls", "rm"])));
}
