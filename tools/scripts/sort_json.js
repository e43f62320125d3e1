// Sorts the keys of a JSON value at every level, or the values of a list. Reads and writes JSON.
const { readFileSync } = require("fs");
const { command, arguments: given } = JSON.parse(readFileSync(0, "utf8"));

const sorted = (value) => {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
};

const commands = {
  sort_keys: ({ value }) => ({ value: sorted(value) }),
  sort_list: ({ list }) => ({ value: [...list].sort() }),
};
process.stdout.write(JSON.stringify(commands[command](given)));
