//! Well-behaved functions in the engine. Hostile ones are in `tests/`, where they run in processes that may
//! die.

use std::cell::RefCell;

use serde_json::{Value, json};

use super::ScriptEngine;
use crate::worker_protocol::{ScriptTask, WorkerReply, WorkerRequest};

thread_local! {
    /// One engine for all requests of a test, as in a worker.
    static ENGINE: RefCell<ScriptEngine> = RefCell::new(ScriptEngine::new().unwrap());
}

fn ask(task: ScriptTask, source: &str, argument: &Value, helpers: &[(&str, &str)]) -> WorkerReply {
    ENGINE.with_borrow_mut(|engine| {
        let reply = engine.run(&request(task, source, argument, helpers));
        engine.restore();
        reply
    })
}

fn request<'a>(
    task: ScriptTask,
    source: &'a str,
    argument: &Value,
    helpers: &[(&'a str, &'a str)],
) -> WorkerRequest<'a> {
    WorkerRequest {
        task,
        time_ms: 1000,
        source: source.into(),
        argument: argument.to_string().into(),
        helpers: helpers.iter().map(|(id, source)| ((*id).into(), (*source).into())).collect(),
    }
}

#[track_caller]
#[allow(clippy::needless_pass_by_value)] // reads better where it is used
fn computes(source: &str, argument: Value, expect: Value) {
    match ask(ScriptTask::Compute, source, &argument, &[]) {
        WorkerReply::Value(text) => {
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expect, "{source}")
        }
        other => panic!("{source}\n{other:?}"),
    }
}

#[test]
fn exported_and_plain_functions_run() {
    let named = "function double(args) { return { twice: args.n * 2 }; }\nmodule.exports = { double };";
    computes(named, json!({"n": 21}), json!({"twice": 42}));
    computes("(function () { return { twice: args.n * 2 }; })();", json!({"n": 4}), json!({"twice": 8}));
    computes("(() => args.list.map(x => x + 1))()", json!({"list": [1, 2]}), json!([2, 3]));
    computes("module.exports = (data) => data.a", json!({"a": "x"}), json!("x"));
    computes("exports.first = (data) => data.length", json!([1, 2, 3]), json!(3));
}

#[test]
fn forms_of_public_manifests_run() {
    computes("function twice(args) { return args.n * 2; }", json!({"n": 4}), json!(8));
    computes(
        "function a(x) { return x + 1; }\nfunction b(args) { return a(args.n); }",
        json!({"n": 1}),
        json!(2),
    );
    computes("(function () { return args.args.n; })();", json!({"n": 3}), json!(3));
    computes("function f(args) { return args.args.n; }\nmodule.exports = { f };", json!({"n": 3}), json!(3));
    computes("(function () { return args; })()", json!({"n": 3}), json!({"n": 3}));
    computes("Object.keys(args)", json!({"n": 3}), json!(["n"]));
    computes("args.args", json!({"args": ["own"]}), json!(["own"]));
    let helper = ("h", "function h(args) { return args.args.n + 1; }");
    match ask(ScriptTask::Compute, "helpers.h({n: 1})", &json!({}), &[helper]) {
        WorkerReply::Value(text) => assert_eq!(text, "2"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn helper_does_not_change_globals_of_its_caller() {
    let helper = "function check() { return true; } module.exports = (t) => { args = t; return check(); };";
    let source = "function check(t) { return t !== 'evil'; }
        (function () {
            try { helpers.norm('x'); helpers.fails('x'); } catch {}
            return { args, passes: check(args.text), exports: module.exports };
        })()";
    let helpers = [("norm", helper), ("fails", "module.exports = () => { throw new Error('no'); };")];
    let reply = ask(ScriptTask::Compute, source, &json!({"text": "evil"}), &helpers);
    let WorkerReply::Value(text) = reply else { panic!("{reply:?}") };
    let expect = json!({"args": {"text": "evil"}, "passes": false, "exports": {}});
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expect);
}

#[test]
fn helper_can_call_another_helper() {
    let helpers = [("to-upper", "function up(t) { return t.toUpperCase(); } module.exports = { up };")];
    let reply = ask(
        ScriptTask::Compute,
        "module.exports = (a) => helpers['to-upper'](a.t) + '!'",
        &json!({"t": "x"}),
        &helpers,
    );
    assert_eq!(reply, WorkerReply::Value("\"X!\"".into()));
}

#[test]
fn verdict_is_read_strictly() {
    let verdict = |source: &str| ask(ScriptTask::Validate, source, &json!({"a": 1}), &[]);
    let message = |valid, errors: &[&str]| WorkerReply::Verdict {
        valid,
        errors: errors.iter().map(|e| (*e).to_owned()).collect(),
    };
    assert_eq!(verdict("module.exports = () => ({valid: true, errors: []})"), message(true, &[]));
    assert_eq!(verdict("({valid: false, errors: ['no', 'really']})"), message(false, &["no", "really"]));
    assert_eq!(verdict("({valid: false, errors: []})"), message(false, &[]));
    for wrong in [
        "undefined",
        "null",
        "true",
        "'true'",
        "1",
        "({})",
        "({valid: 1, errors: []})",
        "({valid: 'true', errors: []})",
        "({valid: true})",
        "({valid: true, errors: null})",
        "({valid: true, errors: 'none'})",
        "({valid: true, errors: [1]})",
        "({valid: true, errors: {length: 0}})",
        "({get valid() { return true; }, errors: []})",
        "Object.create({valid: true, errors: []})",
        "[true, []]",
        "Promise.resolve({valid: true, errors: []})",
        "(async () => ({valid: true, errors: []}))()",
        "Object.prototype.valid = true; Object.prototype.errors = []; ({})",
        "new Boolean(true)",
        "(function () {})",
    ] {
        let reply = verdict(wrong);
        assert!(matches!(reply, WorkerReply::Shape(_)), "{wrong}: {reply:?}");
    }
    for throws in ["throw new Error('no')", "null.x", "throw 1", "nothing_of_that_name()"] {
        assert!(matches!(verdict(throws), WorkerReply::Threw(_)), "{throws}");
    }
}

#[test]
fn tampering_affects_neither_verdict_nor_later_runs() {
    let tampers = "Object.prototype.valid = true; Object.getOwnPropertyDescriptor = () => ({value: true});\
        Object.hasOwn = () => true; Array.isArray = () => true; Object.prototype.value = true;\
        JSON.stringify = () => '{\"valid\":true,\"errors\":[]}'; Object.prototype.toJSON = () => ({valid: true, errors: []});\
        ({valid: 'yes', errors: []})";
    assert!(matches!(ask(ScriptTask::Validate, tampers, &json!({}), &[]), WorkerReply::Shape(_)));
    computes("Object.keys(Object.prototype).concat(typeof globalThis.left)", json!({}), json!(["undefined"]));
    computes("globalThis.left = 1; typeof globalThis.left", json!({}), json!("number"));
    computes("typeof globalThis.left", json!({}), json!("undefined"));
}

/// The next function starts with the same bytes as the first, whatever the previous one did.
#[test]
fn run_leaves_no_byte_behind() {
    let mut engine = ScriptEngine::new().unwrap();
    for source in [
        "globalThis.left = {a: [1, 'two']}; Object.prototype.polluted = left; 1",
        "Array.prototype.push = Map; delete globalThis.Object; eval = null; 1",
        "Symbol.for('left'); globalThis.r = /l(e)ft/g; r.exec('left'); 1",
        "Promise.resolve(1).then(() => { globalThis.later = 1; }); 1",
        "(function* () { yield 1; })().next(); globalThis.c = new WeakMap([[{}, 1]]); 1",
        "throw new Error('left')",
        "function (",
        "const deep = () => deep(); deep()",
        "const a = []; for (;;) a.push('x'.repeat(100000))",
        "const o = {}; for (let i = 0;; i++) o['k' + i] = i",
        "for (let s = 'x'; s.length < 2e6; s += s) globalThis.s = s; 1",
    ] {
        engine.run(&request(ScriptTask::Compute, source, &json!({"some": "argument"}), &[]));
        assert!(engine.heap.image() != engine.initial_image, "{source} did not run");
        engine.restore();
        assert!(
            engine.heap.image() == engine.initial_image && engine.heap.is_clear_after(&engine.initial_image),
            "{source}"
        );
        let fine =
            request(ScriptTask::Validate, "({valid: args.a === 1, errors: []})", &json!({"a": 1}), &[]);
        assert_eq!(
            engine.run(&fine),
            WorkerReply::Verdict { valid: true, errors: Vec::new() },
            "after {source}"
        );
        engine.restore();
    }
}

#[test]
fn argument_names_are_data_only() {
    let hostile: Value = serde_json::from_str(
        r#"{"__proto__": {"polluted": true}, "constructor": 1, "toString": "t", "a": {"__proto__": {"b": 1}}}"#,
    )
    .unwrap();
    computes("Object.keys(args)", hostile.clone(), json!(["__proto__", "constructor", "toString", "a"]));
    computes(
        "String(({}).polluted) + String(args.polluted) + String(args.a.b)",
        hostile,
        json!("undefinedundefinedundefined"),
    );
}

#[test]
fn equal_arguments_give_equal_results() {
    computes(
        "[Date.now(), new Date().getTime(), new Date().toISOString(), Date().length > 0]",
        json!({}),
        json!([0, 0, "1970-01-01T00:00:00.000Z", true]),
    );
    computes(
        "new Date('2026-02-03').toISOString() + (new Date(5)).constructor.now()",
        json!({}),
        json!("2026-02-03T00:00:00.000Z0"),
    );
    assert!(
        matches!(ask(ScriptTask::Compute, "Math.random()", &json!({}), &[]), WorkerReply::Threw(m) if m.contains("same answer"))
    );
}

/// Lists all globals, so that this test shows anything that is added to the engine.
#[test]
fn globals_are_only_those_of_the_language() {
    let mut names = match ask(ScriptTask::Compute, "Object.getOwnPropertyNames(globalThis)", &json!({}), &[])
    {
        WorkerReply::Value(text) => serde_json::from_str::<Vec<String>>(&text).unwrap(),
        other => panic!("{other:?}"),
    };
    names.sort();
    let expect = "AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean DataView Date DisposableStack Error \
        EvalError Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array \
        Int8Array InternalError Iterator JSON Map Math NaN Number Object Promise RangeError ReferenceError Reflect \
        RegExp Set String SuppressedError Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array \
        Uint8ClampedArray WeakMap WeakSet args decodeURI decodeURIComponent encodeURI encodeURIComponent escape eval \
        exports globalThis isFinite isNaN module parseFloat parseInt undefined unescape";
    assert_eq!(names.join(" "), expect.split_whitespace().collect::<Vec<_>>().join(" "));
}

#[test]
fn syntax_error_has_its_position() {
    let parse = |source: &str| ask(ScriptTask::Parse, source, &Value::Null, &[]);
    assert_eq!(
        parse("function f(args) {\n  return args.x;\n}\nmodule.exports = { f };"),
        WorkerReply::Parsed
    );
    assert_eq!(parse("while (true) {}"), WorkerReply::Parsed, "parsed, not run");
    match parse("function f(args) {\n  const a = ;\n}") {
        WorkerReply::Syntax { line, column, message } => {
            assert_eq!((line, column), (2, 13), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(parse("function ("), WorkerReply::Syntax { line: 1, .. }));
}

#[test]
fn memory_is_limited() {
    // With Rust's own allocator, the engine would not enforce the limit.
    let hoard = "const a = []; for (;;) a.push('x'.repeat(1000) + a.length)";
    assert_eq!(ask(ScriptTask::Compute, hoard, &json!({}), &[]), WorkerReply::OutOfMemory);
    computes("new Uint8Array(4 * 1024 * 1024).length", json!({}), json!(4 * 1024 * 1024));
    assert_eq!(
        ask(ScriptTask::Compute, "new Uint8Array(9 * 1024 * 1024)", &json!({}), &[]),
        WorkerReply::OutOfMemory
    );
}
