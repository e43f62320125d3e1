// Official TypeScript SDK, version 1.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

import { bridge, serve } from "./node_driver.mjs";

const client = new Client({ name: "matrix", version: "1.0.0" });
await client.connect(new StdioClientTransport(bridge()));
await serve({
  listTools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  callTool: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
});
await client.close();
