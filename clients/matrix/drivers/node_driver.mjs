// Commands of a driver, one JSON object per line on standard input, one reply per line on standard output.

import { existsSync } from "node:fs";
import { createInterface } from "node:readline";

export function bridge() {
  const { HOME, PATH, SINEW_HOME, SINEW } = process.env;
  return { command: SINEW, args: ["mcp"], env: { HOME, PATH, SINEW_HOME } };
}

async function answer(client, request) {
  const { name, arguments: args } = request;
  const call = async (options) => {
    const reply = await client.callTool(name, args, options);
    const text = (reply.content ?? []).map((block) => block.text ?? "").join("\n");
    return { is_error: reply.isError === true, text, structured: reply.structuredContent ?? null };
  };
  if (request.command === "list") return { tools: await client.listTools() };
  if (request.command === "call") {
    let progress = 0;
    const reply = await call(request.progress ? { onprogress: () => (progress += 1) } : {});
    return { ...reply, progress };
  }
  if (request.command === "cancel") {
    const abort = new AbortController();
    const pending = call({ signal: abort.signal }).catch(() => undefined);
    while (!existsSync(request.when)) await new Promise((resolve) => setTimeout(resolve, 20));
    abort.abort();
    await pending;
    return { cancelled: true, ended: client.cancelEndsClient === true };
  }
  if (request.command === "many") {
    const started = Date.now();
    const replies = [];
    while (replies.length < request.count) {
      const length = Math.min(request.at_once, request.count - replies.length);
      replies.push(...(await Promise.allSettled(Array.from({ length }, () => call({})))));
    }
    const good = replies.filter((reply) => reply.status === "fulfilled" && !reply.value.is_error);
    const bad = replies.find((reply) => !good.includes(reply));
    const first = bad ? String(bad.reason ?? bad.value?.text).slice(0, 300) : null;
    return { good: good.length, first_bad: first, seconds: (Date.now() - started) / 1000 };
  }
  throw new Error(request.command);
}

/** Answers commands until standard input ends. */
export async function serve(client) {
  for await (const line of createInterface({ input: process.stdin })) {
    let reply;
    try {
      reply = await answer(client, JSON.parse(line));
    } catch (error) {
      reply = { error: String(error).slice(0, 2000) };
    }
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  }
}
