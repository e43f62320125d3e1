// Transport for the official `@modelcontextprotocol/client`: newline-delimited JSON-RPC over Sinew's Unix socket.

import { connect } from "node:net";
import { createInterface } from "node:readline";

export class SinewSocket {
  constructor(path) {
    this.path = path;
  }

  async start() {
    this.socket = connect(this.path);
    await new Promise((resolve, reject) => this.socket.once("connect", resolve).once("error", reject));
    this.socket.on("error", (error) => this.onerror?.(error));
    this.socket.on("close", () => this.onclose?.());
    createInterface({ input: this.socket }).on("line", (line) => this.onmessage?.(JSON.parse(line)));
  }

  async send(message) {
    await new Promise((resolve, reject) =>
      this.socket.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve())),
    );
  }

  async close() {
    this.socket.end();
  }
}
