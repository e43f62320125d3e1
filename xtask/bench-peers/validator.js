// Runs a validator in a fresh context for each line of arguments, as Sinew does: by `node:vm`, or by
// `isolated-vm` in an isolate of its own with 8 MB. Writes the verdict as one line.
"use strict";
const source = process.argv[3];
const call = `${source}; JSON.stringify(validate(JSON.parse(input)))`;

const engines = {
  vm() {
    const vm = require("node:vm");
    const script = new vm.Script(call);
    return (input) => script.runInContext(vm.createContext({ input }), { timeout: 500 });
  },
  "isolated-vm"() {
    const { Isolate } = require("isolated-vm");
    return (input) => {
      const isolate = new Isolate({ memoryLimit: 8 });
      const context = isolate.createContextSync();
      context.global.setSync("input", input);
      const verdict = context.evalSync(call, { timeout: 500 });
      isolate.dispose();
      return verdict;
    };
  },
};

const run = engines[process.argv[2]]();
require("node:readline")
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { id, params } = JSON.parse(line);
    process.stdout.write(`{"id":${id},"verdict":${run(params.input)}}\n`);
  });
