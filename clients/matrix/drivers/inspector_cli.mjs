// MCP Inspector: one run of its command line per request. It has no way to cancel, so the run is killed.

import { execFile, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import { bridge, serve } from "./node_driver.mjs";

const found = createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json");
const program = join(dirname(found), "../../.bin/mcp-inspector");
const { command, args, env } = bridge();
const common = ["--cli", "-e", `SINEW_HOME=${env.SINEW_HOME}`, command, ...args];
const variables = { env: { ...process.env }, maxBuffer: 1 << 26 };

function words(name, given) {
  const pairs = Object.entries(given).flatMap(([key, value]) => [
    "--tool-arg",
    `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  ]);
  return [...common, "--method", "tools/call", "--tool-name", name, ...pairs];
}

async function output(list) {
  try {
    return JSON.parse((await promisify(execFile)(program, list, variables)).stdout);
  } catch (error) {
    // A result with `isError` ends the Inspector with an exit code.
    if (error.stdout) return JSON.parse(error.stdout);
    throw new Error(error.stderr || error.message);
  }
}

await serve({
  cancelEndsClient: true,
  listTools: async () => (await output([...common, "--method", "tools/list"])).tools.map((tool) => tool.name),
  callTool: (name, given, { signal }) => {
    if (!signal) return output(words(name, given));
    const child = spawn(program, words(name, given), { ...variables, stdio: "ignore" });
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => child.kill());
      child.once("exit", () => reject(new Error("killed")));
    });
  },
});
