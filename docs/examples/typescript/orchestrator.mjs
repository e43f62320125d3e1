// Example orchestrator: lists Sinew's tools, calls one, and repairs a call that was refused.
//
//   node orchestrator.mjs SOCKET FILE [legacy|auto]     over the daemon's agent.sock
//   node orchestrator.mjs --bridge FILE [legacy|auto]   through `sinew mcp`, which starts a daemon if none runs

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { SinewSocket } from "./sinew-socket.mjs";

const [where, path, mode = "auto"] = process.argv.slice(2);
const { HOME, PATH, SINEW_HOME, SINEW = "sinew" } = process.env;
const env = { HOME, PATH, ...(SINEW_HOME && { SINEW_HOME }) };
const transport =
  where === "--bridge" ? new StdioClientTransport({ command: SINEW, args: ["mcp"], env }) : new SinewSocket(where);

const client = new Client({ name: "example", version: "1.0.0" }, { versionNegotiation: { mode } });
await client.connect(transport);
console.log("protocol", client.getNegotiatedProtocolVersion());
const { tools } = await client.listTools();
console.log("tools", tools.map((tool) => tool.name).join(" "));

// A misspelt argument is refused; the refusal contains arguments that would be permitted.
const refused = await client.callTool({ name: "read_file", arguments: { file_path: path } });
const refusal = refused._meta["sinew/refusal"];
console.log("refused", refusal.code);

const mended = await client.callTool({ name: "read_file", arguments: refusal.repair.arguments });
console.log("content", mended.structuredContent.content);
await client.close();
