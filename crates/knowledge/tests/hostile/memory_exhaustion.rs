//! Functions that exhaust memory.

pub(crate) const MEMORY_SCRIPTS: &[(&str, &str)] = &[
    ("array", "const a = []; for (;;) a.push(a.length)"),
    ("strings", "const a = []; for (;;) a.push('x'.repeat(1000) + a.length)"),
    ("doubling", "let s = 'x'; for (;;) s += s"),
    ("repeat", "'x'.repeat(2 ** 28)"),
    ("padStart", "'x'.padStart(2 ** 28, 'ab')"),
    ("padEnd", "'x'.padEnd(2 ** 29, 'ab')"),
    ("buffer", "new ArrayBuffer(64 * 1024 * 1024)"),
    ("typed array", "new Float64Array(1e8)"),
    ("buffers", "const a = []; for (;;) a.push(new Uint8Array(100000).fill(1))"),
    (
        "resizable",
        "const b = new ArrayBuffer(8, {maxByteLength: 1 << 28}); b.resize(1 << 28); new Uint8Array(b).fill(1)",
    ),
    ("objects", "const a = []; for (;;) a.push({a: {}})"),
    ("properties", "const o = {}; for (let i = 0;; i++) o['k' + i] = i"),
    ("map entries", "const m = new Map(); for (let i = 0;; i++) m.set(i, {})"),
    ("set entries", "const s = new Set(); for (let i = 0;; i++) s.add('k' + i)"),
    ("closures", "const a = []; for (;;) a.push(() => a)"),
    ("symbols", "const a = []; for (;;) a.push(Symbol('s'))"),
    ("concat hoard", "let a = [1]; for (;;) a = a.concat(a)"),
    ("join hoard", "Array(1e6).fill('x'.repeat(100)).join('')"),
    ("split hoard", "'ab'.repeat(1e6).split('').map(c => c + c)"),
    ("json hoard", "JSON.stringify(Array(1e6).fill('xxxxxxxxxx'))"),
    ("replace hoard", "'a'.repeat(1e6).replace(/a/g, 'b'.repeat(100))"),
    ("bigint hoard", "2n ** 100000000n"),
    ("bigint shift", "1n << 1000000000n"),
    ("errors hoard", "const errors = []; for (;;) errors.push('e'.repeat(10000))"),
    ("long error", "const e = 'e'.repeat(6e6); ({valid: false, errors: [e + e]})"),
    ("template", "let s = 'x'; for (;;) s = `${s}${s}`"),
    ("matchAll", "[...'a'.repeat(1e6).matchAll(/a/g)]"),
    ("array from", "Array.from({length: 1e8}, (_, i) => [i])"),
    // This script crashed the engine when memory ran out while an object grew.
    (
        "crash",
        "globalThis.pad = new Uint8Array(3700000); let o = {}; for (let i = 0; i < 100000; i++) o['k' + i] = i; JSON.stringify(o).length",
    ),
    (
        "promises hoard",
        "(function f() { return Promise.resolve().then(f); })(); const a = []; for (;;) a.push(Promise.resolve(a))",
    ),
];
