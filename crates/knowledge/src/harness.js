// Evaluated, as a module, in every fresh context before the function, with the pristine built-ins in hand: what the
// function does to them afterwards changes nothing here. What it exports is the object through which the engine works.
export default (function (global) {
  const { getOwnPropertyDescriptor, keys, hasOwn, defineProperty } = Object;
  const { construct } = Reflect;
  const evaluate = global.eval;
  const compile = global.Function;
  const RealDate = global.Date;
  const refuse = TypeError;

  // The same arguments must give the same answer, today and tomorrow.
  function FixedDate(...parts) {
    if (new.target === undefined) return new RealDate(0).toString();
    return construct(RealDate, parts.length === 0 ? [0] : parts, new.target);
  }
  FixedDate.prototype = RealDate.prototype;
  defineProperty(FixedDate, "name", { value: "Date" });
  const method = (value) => ({ value, writable: true, configurable: true });
  defineProperty(FixedDate, "now", method(() => 0));
  defineProperty(FixedDate, "parse", method(RealDate.parse));
  defineProperty(FixedDate, "UTC", method(RealDate.UTC));
  defineProperty(RealDate.prototype, "constructor", method(FixedDate));
  global.Date = FixedDate;
  Math.random = () => {
    throw new refuse("Math.random is not there: a function gives the same answer each time");
  };
  for (const name of ["Atomics", "SharedArrayBuffer", "gc", "performance", "queueMicrotask", "navigator"]) {
    delete global[name];
  }

  // Only what is the object's own, and a plain value: no getter runs, and no prototype answers for it.
  const own = (object, key) => {
    const found = getOwnPropertyDescriptor(object, key);
    return found !== undefined && hasOwn(found, "value") ? found.value : undefined;
  };

  const exported = (exports, completion) => {
    if (typeof exports === "function") return exports;
    if (typeof exports === "object" && exports !== null) {
      const names = keys(exports);
      for (let i = 0; i < names.length; i++) {
        const value = own(exports, names[i]);
        if (typeof value === "function") return value;
      }
    }
    return typeof completion === "function" ? completion : undefined;
  };

  // What a text declares is its own here, and replaces nothing that has the same name elsewhere.
  const within = new compile("return eval(arguments[0])");

  const put = (name, value) =>
    defineProperty(global, name, { value, writable: true, configurable: true, enumerable: true });

  const runBy = (means, source, input) => {
    const module = { exports: {} };
    put("module", module);
    put("exports", module.exports);
    put("args", input);
    const completion = means(source);
    const callable = exported(own(module, "exports"), completion);
    return callable === undefined ? completion : callable(input);
  };

  // Whoever calls a helper has, after it, what it had before.
  const help = (source, input) => {
    const module = own(global, "module");
    const exports = own(global, "exports");
    const args = own(global, "args");
    try {
      return runBy(within, source, input);
    } finally {
      put("module", module);
      put("exports", exports);
      put("args", args);
    }
  };

  const helpers = {};
  const define = (id, source) =>
    defineProperty(helpers, id, { value: (input) => help(source, input), enumerable: true });

  return {
    run: (source, input) => runBy(evaluate, source, input),
    own,
    parse: (source) => void new compile(source),
    helpers: () => put("helpers", helpers),
    define,
  };
})(globalThis);
