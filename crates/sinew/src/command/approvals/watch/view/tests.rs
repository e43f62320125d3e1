//! Tests of the view without a terminal: screen content and key handling.

use approvals::{ApprovalFact, ApprovalRequest, DiffLineKind, FileDiff};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;
use serde_json::json;
use tool::{CallId, Mode as Operating, RiskLevel, RuleRef};

use super::*;

fn pending_approval(id: &str, text: &str, lines: usize) -> ListedApproval {
    let change = FileDiff {
        path: text.to_owned(),
        what: "is created".to_owned(),
        lines: (0..lines).map(|n| (DiffLineKind::New, format!("{n} {text}"))).collect(),
    };
    ListedApproval {
        state: "pending".to_owned(),
        seconds_left: 120,
        waiting: true,
        editable: Some(Map::new()),
        request: ApprovalRequest {
            id: id.to_owned(),
            tool: text.to_owned(),
            summary: text.to_owned(),
            effect: vec![ApprovalFact { label: "writes".to_owned(), text: text.to_owned() }],
            changes: vec![change],
            arguments: Vec::new(),
            asked_by: vec![RuleRef { file: text.into(), line: 4, id: text.into() }],
            caller: text.to_owned(),
            session: None,
            call_id: CallId::fresh(),
            trace_id: "t".to_owned(),
            risk: RiskLevel::High,
            mode: Operating::Alert,
            masked: 0,
            edited: false,
            requested_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
        },
    }
}

fn view_of(questions: Vec<ListedApproval>) -> WatchView {
    let mut view = WatchView::default();
    update(&mut view, questions);
    view
}

fn update(view: &mut WatchView, questions: Vec<ListedApproval>) {
    let now = view.selected_at.unwrap_or_else(Instant::now);
    view.update_approvals(questions, now);
}

fn mark_decided(view: &mut WatchView, id: &str) {
    let now = view.selected_at.unwrap();
    view.show_decision(id, "approve", &json!({}), now);
}

/// Presses a key after the request has been on the screen for `MIN_DISPLAY_TIME`.
fn press_after_delay(view: &mut WatchView, code: KeyCode) -> Option<ViewAction> {
    let now = view.selected_at.unwrap_or_else(Instant::now) + MIN_DISPLAY_TIME;
    press_at(view, code, now)
}

fn press_at(view: &mut WatchView, code: KeyCode, now: Instant) -> Option<ViewAction> {
    view.handle_key(KeyEvent::new(code, KeyModifiers::NONE), now)
}

/// Returns the screen lines without colours.
fn plain_lines(view: &mut WatchView, width: usize, height: usize) -> Vec<String> {
    view.lines(width, height).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
}

#[test]
fn only_visible_text_and_own_colours_reach_the_screen() {
    let hostile = "a\u{1b}[2J\u{9b}1mb\rc\u{8}\u{202e}d\u{200b}e\u{e0041}\u{a0}\nf";
    let mut view = view_of(vec![pending_approval("one", hostile, 5), pending_approval("two", hostile, 5)]);
    let message = || json!([hostile, "rule"]);
    let check = |view: &mut WatchView| {
        for (width, height) in [(20, 8), (80, 24), (200, 60)] {
            let lines = view.lines(width, height);
            assert!(lines.len() <= height);
            for line in lines {
                // `strip_str` removes the colours set by `paint`; any other escape sequence would remain, or
                // would take visible text with it.
                let text = anstream::adapter::strip_str(&line).to_string();
                assert!(text.chars().all(|c| !c.is_control()), "{line:?}");
                for c in ['\u{202e}', '\u{200b}', '\u{e0041}', '\u{a0}'] {
                    assert!(!line.contains(c), "{line:?}");
                }
                assert_eq!(line.matches('\u{1b}').count(), line.matches("\u{1b}[").count(), "{line:?}");
                assert!(!line.contains("\u{1b}[2J"), "{line:?}");
            }
        }
    };
    check(&mut view);
    press_after_delay(&mut view, KeyCode::Char('x'));
    check(&mut view);
    view.show_rule("one", Map::new(), message());
    check(&mut view);
    view.set_status(hostile);
    check(&mut view);
}

#[test]
fn approval_requires_that_everything_was_displayed() {
    let mut view = view_of(vec![pending_approval("one", "x", 100)]);
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('a')), None, "nothing was drawn yet");
    view.lines(80, 24);
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('a')), None, "there is more below");
    assert!(plain_lines(&mut view, 80, 24).iter().any(|line| line.contains("scroll to its end first")));
    for _ in 0..20 {
        press_after_delay(&mut view, KeyCode::Char(' '));
        view.lines(80, 24);
    }
    let Some(ViewAction::Decide(id, params)) = press_after_delay(&mut view, KeyCode::Char('a')) else {
        panic!("everything was displayed")
    };
    assert_eq!((id.as_str(), &params["answer"]), ("one", &json!("approve")));
    // Jumping to the end does not count as displaying the middle.
    let mut jumped = self::view_of(vec![pending_approval("one", "x", 400)]);
    jumped.lines(80, 24);
    jumped.scroll = 10_000;
    jumped.lines(80, 24);
    assert_eq!(press_after_delay(&mut jumped, KeyCode::Char('a')), None);
}

#[test]
fn request_can_be_read_whole_on_any_screen_size() {
    for (width, height) in [(80, 20), (80, 12), (40, 16), (200, 60)] {
        let many = (0..9).map(|n| pending_approval(&format!("q{n}"), "x", 90)).collect();
        let mut view = view_of(many);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let screen = plain_lines(&mut view, width, height);
            seen.extend((0..90).filter(|n| screen.iter().any(|line| *line == format!("  +{n} x"))));
            press_after_delay(&mut view, KeyCode::Char(' '));
        }
        assert_eq!(seen.len(), 90, "{width}x{height}: {seen:?}");
        let yes = press_after_delay(&mut view, KeyCode::Char('a'));
        assert!(matches!(yes, Some(ViewAction::Decide(id, _)) if id == "q0"), "{width}x{height}");
    }
    // If no line of the request fits on the screen, its progress does not advance.
    let mut view = view_of((0..9).map(|n| pending_approval(&format!("q{n}"), "x", 0)).collect());
    for _ in 0..20 {
        view.lines(80, 9);
        press_after_delay(&mut view, KeyCode::Char(' '));
    }
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('a')), None);
}

#[test]
fn key_for_one_call_does_not_decide_the_next() {
    let mut view = view_of(vec![pending_approval("one", "x", 1), pending_approval("two", "y", 1)]);
    view.lines(80, 24);
    assert!(
        matches!(press_after_delay(&mut view, KeyCode::Char('a')), Some(ViewAction::Decide(id, _)) if id == "one")
    );
    mark_decided(&mut view, "one");
    let began = view.selected_at.unwrap();
    view.update_approvals(vec![pending_approval("two", "y", 1)], began);
    view.lines(80, 24);
    // A held key repeats every 30 ms.
    let mut now = began;
    for _ in 0..100 {
        now += Duration::from_millis(30);
        assert_eq!(press_at(&mut view, KeyCode::Char('a'), now), None, "held down");
    }
    assert_eq!(press_at(&mut view, KeyCode::Char('a'), now + MIN_DISPLAY_TIME / 2), None, "too early");
    assert!(
        matches!(press_after_delay(&mut view, KeyCode::Char('a')), Some(ViewAction::Decide(id, _)) if id == "two")
    );
}

#[test]
fn modified_keys_and_pasted_text_decide_nothing() {
    let mut view = view_of(vec![pending_approval("one", "x", 1)]);
    view.lines(80, 24);
    let now = view.selected_at.unwrap() + MIN_DISPLAY_TIME;
    for modifiers in [KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SUPER, KeyModifiers::META] {
        for key in "astdmeq".chars() {
            let pressed = view.handle_key(KeyEvent::new(KeyCode::Char(key), modifiers), now);
            let quits = modifiers == KeyModifiers::CONTROL && key == 'd';
            assert_eq!(pressed, quits.then_some(ViewAction::Quit), "{modifiers} {key}");
        }
    }
    view.paste("a");
    assert!(matches!(view.input_mode, InputMode::Browse));
    press_after_delay(&mut view, KeyCode::Char('m'));
    view.paste("not there");
    let Some(ViewAction::Decide(_, params)) = press_after_delay(&mut view, KeyCode::Enter) else {
        panic!("an answer")
    };
    assert_eq!((&params["answer"], &params["message"]), (&json!("deny"), &json!("not there")));
}

#[test]
fn width_change_resets_display_progress() {
    let mut view =
        view_of(vec![pending_approval("one", "a line that does not fit into a narrow screen", 60)]);
    for _ in 0..20 {
        view.lines(120, 24);
        press_after_delay(&mut view, KeyCode::Char(' '));
    }
    view.lines(30, 24);
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('a')), None, "the lines wrap differently now");
    for _ in 0..60 {
        view.lines(30, 24);
        press_after_delay(&mut view, KeyCode::Char(' '));
    }
    assert!(press_after_delay(&mut view, KeyCode::Char('a')).is_some());
}

#[test]
fn denial_needs_no_scrolling_and_may_carry_a_message() {
    let mut view = view_of(vec![pending_approval("one", "x", 100), pending_approval("two", "y", 1)]);
    view.lines(80, 24);
    press_after_delay(&mut view, KeyCode::Char('j'));
    press_after_delay(&mut view, KeyCode::Char('m'));
    for c in "qa!".chars() {
        assert_eq!(press_after_delay(&mut view, KeyCode::Char(c)), None, "typed text is not a command");
    }
    assert!(plain_lines(&mut view, 80, 24).iter().any(|line| line.contains("message to the model: qa!")));
    let Some(ViewAction::Decide(id, params)) = press_after_delay(&mut view, KeyCode::Enter) else {
        panic!("an answer")
    };
    assert_eq!((id.as_str(), &params["answer"], &params["message"]), ("two", &json!("deny"), &json!("qa!")));
    let Some(ViewAction::Decide(id, params)) = press_after_delay(&mut view, KeyCode::Char('d')) else {
        panic!("an answer")
    };
    assert_eq!((id.as_str(), params.get("message")), ("two", None));
}

#[test]
fn rule_is_shown_before_creation_and_pin_is_hidden() {
    let mut view = view_of(vec![pending_approval("one", "x", 1)]);
    view.lines(80, 24);
    let Some(ViewAction::Decide(_, params)) = press_after_delay(&mut view, KeyCode::Char('t')) else {
        panic!("an answer")
    };
    assert_eq!(params["for_seconds"], 600);
    view.show_rule("one", params.clone(), json!(["write_file needs no further approval where"]));
    assert!(plain_lines(&mut view, 80, 24).iter().any(|line| line.contains("needs no further approval")));
    assert_eq!(press_after_delay(&mut view, KeyCode::Enter), None, "only y agrees");
    view.show_rule("one", params, json!(["rule"]));
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('y')), None, "it was not drawn yet");
    view.lines(80, 24);
    let Some(ViewAction::Decide(_, params)) = press_after_delay(&mut view, KeyCode::Char('y')) else {
        panic!("an answer")
    };
    assert_eq!(params["rule"], json!(["rule"]));
    view.ask_pin("one", params.clone());
    for c in "2580".chars() {
        press_after_delay(&mut view, KeyCode::Char(c));
    }
    let screen = plain_lines(&mut view, 80, 24).join("\n");
    assert!(screen.contains("••••") && !screen.contains("2580"), "{screen}");
    assert_eq!(
        press_after_delay(&mut view, KeyCode::Enter),
        Some(ViewAction::DecideWithPin("2580".into(), "one".into(), params))
    );
}

#[test]
fn long_rule_must_be_scrolled_to_its_end() {
    let mut view = view_of(vec![pending_approval("one", "x", 1)]);
    view.lines(80, 24);
    let rule: Vec<String> = (0..60).map(|n| format!("line {n}")).collect();
    view.show_rule("one", Map::new(), json!(rule));
    view.lines(80, 24);
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('y')), None, "there is more below");
    assert!(plain_lines(&mut view, 80, 24).iter().any(|line| line.contains("part of the rule")));
    for _ in 0..8 {
        assert_eq!(press_after_delay(&mut view, KeyCode::Char(' ')), None);
        view.lines(80, 24);
    }
    let Some(ViewAction::Decide(_, params)) = press_after_delay(&mut view, KeyCode::Char('y')) else {
        panic!("all seen")
    };
    assert_eq!(params["rule"], json!(rule));
    // Showing a rule again resets its progress.
    view.show_rule("one", Map::new(), json!(rule));
    view.lines(80, 24);
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('y')), None);
}

#[test]
fn selection_persists_until_its_request_is_decided() {
    let (one, two) = (pending_approval("one", "x", 1), pending_approval("two", "y", 1));
    let mut view = view_of(vec![one.clone(), two.clone()]);
    press_after_delay(&mut view, KeyCode::Char('j'));
    update(&mut view, vec![pending_approval("zero", "z", 1), one.clone(), two]);
    assert_eq!(view.selected_id.as_deref(), Some("two"));
    mark_decided(&mut view, "two");
    update(&mut view, vec![one]);
    assert_eq!(view.selected_id.as_deref(), Some("one"));
    mark_decided(&mut view, "one");
    update(&mut view, Vec::new());
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('a')), None);
    assert!(plain_lines(&mut view, 80, 24)[0].contains("no calls are pending"));
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('q')), Some(ViewAction::Quit));
}

#[test]
fn selection_stays_in_its_place_and_the_notice_names_the_call() {
    let approvals = ["one", "two", "three"].map(|id| pending_approval(id, "x", 1));
    let [one, _, three] = approvals.clone();
    let mut view = view_of(approvals.to_vec());
    press_after_delay(&mut view, KeyCode::Char('j'));
    let now = view.selected_at.unwrap();
    view.show_decision("two", "deny", &json!({}), now);
    update(&mut view, vec![one, three]);
    assert_eq!(view.selected_id.as_deref(), Some("three"), "the one that took its place");
    assert!(plain_lines(&mut view, 50, 24).iter().any(|line| line.starts_with("denied: ")));
}

#[test]
fn question_mark_shows_the_keys_and_escape_does_not_quit() {
    let mut view = view_of(vec![pending_approval("one", "x", 1)]);
    assert_eq!(press_after_delay(&mut view, KeyCode::Esc), None);
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('?')), None);
    let shown = plain_lines(&mut view, 50, 24);
    assert!(shown.iter().any(|line| line.contains("scroll down and up")), "{shown:#?}");
    assert!(shown.iter().all(|line| line.chars().count() <= 50), "{shown:#?}");
    assert_eq!(press_after_delay(&mut view, KeyCode::Esc), None);
    assert!(plain_lines(&mut view, 50, 24).iter().any(|line| line.contains("0 x")), "the request is back");
}

#[test]
fn edit_that_cannot_be_applied_is_refused_first() {
    let check = |waiting: bool, editable: bool, expect: Result<(), &str>| {
        let editable = editable.then(serde_json::Map::new);
        let view = view_of(vec![ListedApproval { waiting, editable, ..pending_approval("one", "x", 1) }]);
        let found = view.editable_arguments("one");
        match (found, expect) {
            (Ok(_), Ok(())) => {}
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (found, expect) => panic!("{found:?} instead of {expect:?}"),
        }
    };
    check(true, true, Ok(()));
    check(false, true, Err("does not wait"));
    check(true, false, Err("masked"));
}

/// Checks that after the selected request vanishes by itself, no key decides its successor until the operator
/// has acknowledged the change.
fn check_selection_gone(mut view: WatchView, queues: &[&[&str]]) {
    for queue in queues {
        update(&mut view, queue.iter().map(|id| pending_approval(id, "y", 1)).collect());
        view.lines(200, 60);
        for key in "not that, and set it aside".chars() {
            assert_eq!(
                press_after_delay(&mut view, KeyCode::Char(key)),
                None,
                "{key} at {queue:?} of {queues:?}"
            );
        }
        assert!(
            plain_lines(&mut view, 200, 60).iter().any(|line| line.contains("is no longer pending")),
            "{queues:?}"
        );
    }
    assert_eq!(press_after_delay(&mut view, KeyCode::Enter), None, "enter acknowledges and sends nothing");
    let seen_at = view.selected_at.unwrap();
    view.lines(200, 60);
    assert_eq!(press_at(&mut view, KeyCode::Char('a'), seen_at), None, "and the next one is new");
    assert!(
        matches!(press_after_delay(&mut view, KeyCode::Char('a')), Some(ViewAction::Decide(id, _)) if id == "two")
    );
}

#[test]
fn keys_meant_for_a_vanished_call_decide_nothing() {
    let begin = |key: Option<char>| {
        let mut view = view_of(vec![pending_approval("one", "x", 1), pending_approval("two", "y", 1)]);
        view.lines(200, 60);
        key.map(|key| press_after_delay(&mut view, KeyCode::Char(key)));
        view
    };
    for key in [Some('m'), Some('x'), None] {
        check_selection_gone(begin(key), &[&["two"]]);
        check_selection_gone(begin(key), &[&[], &["two"]]);
        check_selection_gone(begin(key), &[&["three"], &[], &[], &["two"]]);
    }
}

#[test]
fn leaving_reasons_returns_to_the_request() {
    for key in [KeyCode::Char('q'), KeyCode::Char('x'), KeyCode::Esc, KeyCode::Enter] {
        let mut view = view_of(vec![pending_approval("one", "text", 1)]);
        assert_eq!(press_after_delay(&mut view, KeyCode::Char('x')), None);
        assert!(plain_lines(&mut view, 80, 24).iter().any(|line| line.contains("needs approval")));
        assert_eq!(press_after_delay(&mut view, key), None);
        assert!(
            plain_lines(&mut view, 80, 24).iter().any(|line| line.contains("0 text")),
            "the request is shown again"
        );
        assert_eq!(press_after_delay(&mut view, KeyCode::Char('q')), Some(ViewAction::Quit));
    }
}

#[test]
fn wrapping_breaks_between_words_and_loses_nothing() {
    let check = |text: &str, width: usize, pieces: &[&str]| {
        let line =
            approvals::ApprovalRequestLine { style: approvals::LineStyle::Plain, text: text.to_owned() };
        let wrapped: Vec<String> = layout::wrap(&line, width).into_iter().map(|line| line.text).collect();
        assert_eq!(wrapped, pieces, "{text}");
    };
    check("one two three", 20, &["one two three"]);
    check("one two three four five", 20, &["one two three four ", "    five"]);
    check("a /long/path/without/any/word", 20, &["a /long/path/without", "    /any/word"]);
    check("", 20, &[""]);
    check("日本語日本語日本語日本語", 20, &["日本語日本語日本語日", "    本語"]);
    // These take two columns on some terminals and one on others.
    check("яяяяяяяяяяя", 20, &["яяяяяяяяяя", "    я"]);
}

#[test]
fn every_visible_character_has_a_width() {
    let shown = (' '..=char::MAX).filter(|c| !tool::text::is_invisible(*c));
    for c in shown {
        let line = approvals::ApprovalRequestLine {
            style: approvals::LineStyle::Plain,
            text: c.to_string().repeat(41),
        };
        assert!(layout::wrap(&line, 20).len() >= 2, "{c:?} {:x}", u32::from(c));
    }
}

#[test]
fn nothing_is_approved_on_a_screen_too_narrow_to_draw() {
    let mut view = view_of(vec![pending_approval("one", "x", 1)]);
    assert_eq!(plain_lines(&mut view, 12, 40), ["too narrow"]);
    assert_eq!(press_after_delay(&mut view, KeyCode::Char('a')), None);
    view.lines(80, 40);
    assert!(matches!(press_after_delay(&mut view, KeyCode::Char('a')), Some(ViewAction::Decide(..))));
}
