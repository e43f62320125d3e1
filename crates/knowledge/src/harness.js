// Evaluated as a module in every new context before the function. It captures the original built-ins, so that
// later changes to them by the function have no effect here. It exports the object through which the engine
// works.
export default (function (global) {
  const { getOwnPropertyDescriptor, keys, hasOwn, defineProperty } = Object;
  const { construct, apply } = Reflect;
  const { isArray } = Array;
  const { exec } = RegExp.prototype;
  const evaluate = global.eval;
  const compile = global.Function;
  const RealDate = global.Date;
  const refuse = TypeError;

  // The clock is fixed, because equal arguments must always give equal results.
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
    throw new refuse("Math.random is not available: a function must give the same answer each time");
  };
  for (const name of ["Atomics", "SharedArrayBuffer", "gc", "performance", "queueMicrotask", "navigator"]) {
    delete global[name];
  }

  // Reads own data properties only: no getter runs, and the prototype is ignored.
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

  // Declarations in the evaluated text stay local, so that they cannot replace equal names elsewhere.
  const within = new compile("return eval(arguments[0])");

  const put = (name, value) =>
    defineProperty(global, name, { value, writable: true, configurable: true, enumerable: true });

  // Public manifests read the arguments as `args` or as `args.args`. The second form is hidden from enumeration,
  // so that the input stays the same JSON value.
  const withAlias = (input) => {
    if (typeof input === "object" && input !== null && !isArray(input) && !hasOwn(input, "args")) {
      defineProperty(input, "args", { value: input, writable: true, configurable: true });
    }
    return input;
  };

  // Name of the last function that a text declares at its top level.
  const lastDeclared = (source) => {
    const pattern = /^function\s+([\w$]+)/gm;
    let name;
    for (let found; (found = apply(exec, pattern, [source])) !== null; ) name = found[1];
    return name;
  };

  const runBy = (means, source, input) => {
    withAlias(input);
    const module = { exports: {} };
    put("module", module);
    put("exports", module.exports);
    put("args", input);
    const completion = means(source);
    const callable = exported(own(module, "exports"), completion);
    if (callable !== undefined) return callable(input);
    // A bare function: its declaration has no value, so its name is evaluated.
    const name = completion === undefined ? lastDeclared(source) : undefined;
    return name === undefined ? completion : means(source + "\n;" + name)(input);
  };

  // Restores the caller's globals after a helper call.
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
