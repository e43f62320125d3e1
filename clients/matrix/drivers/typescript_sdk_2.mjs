// Official TypeScript SDK, version 2, in the newest revision that both sides know.

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { bridge, serve } from "./node_driver.mjs";

const client = new Client({ name: "matrix", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
await client.connect(new StdioClientTransport(bridge()));
await serve({
  listTools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  callTool: (name, args, options) => client.callTool({ name, arguments: args }, options),
});
await client.close();
