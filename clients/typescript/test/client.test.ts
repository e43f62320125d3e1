/** Client against a real daemon. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";

import {
  AlreadyRan,
  ApprovalPending,
  CallCancelled,
  ConnectionLost,
  Control,
  DaemonUnavailable,
  Failed,
  type Progress,
  ProtocolError,
  Refused,
  Sinew,
} from "../src/index.js";
import { Daemon, isRunning, waitFor } from "./daemon.js";

let daemon: Daemon;
let s: Sinew;
let control: Control;

before(async () => {
  daemon = await Daemon.start();
  s = await Sinew.connect({ home: daemon.home, cwd: daemon.workspace });
  control = await Control.connect({ home: daemon.home });
});

afterEach(async () => {
  await control.request("control/mode.set", { mode: "NORMAL", reason: "next test" });
});

after(async () => {
  await s.close();
  await control.close();
  await daemon.stop();
});

async function caught<E extends Error>(kind: new (...words: never[]) => E, work: Promise<unknown>): Promise<E> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof kind, `${error} is not a ${kind.name}`);
    return error;
  }
  throw new Error(`no ${kind.name} was thrown`);
}

test("outputs are typed", async () => {
  const written = await s.call("write_file", { path: "a.txt", content: "hello\n" });
  const created: boolean = written.created;
  assert.equal(created, true);
  const size: number = (await s.call("read_file", { path: "a.txt" })).size;
  assert.equal(size, 6);
  // @ts-expect-error a misspelt argument of a built-in tool does not compile
  await caught(Refused, s.call("read_file", { paht: "/nowhere/else" }));
});

test("refusal has code, rule and repair", async () => {
  const forbidden = await caught(Refused, s.call("read_file", { path: "/etc/shadow" }));
  assert.equal(forbidden.code, "path_forbidden");
  assert.match(forbidden.rule?.file ?? "", /tools\.yaml$/);
  daemon.file("repair.txt", "hello");
  const misspelt = await caught(Refused, s.call("read_file" as string, { pth: "repair.txt" }));
  assert.equal(misspelt.code, "invalid_arguments");
  assert.deepEqual(misspelt.repair?.arguments, { path: "repair.txt" });
  const repaired = (await s.call("read_file" as string, { pth: "repair.txt" }, { autoRepair: true })) as { content: string };
  assert.equal(repaired.content, "hello");
});

test("result has the text for a model on request", async () => {
  daemon.file("model.txt", "hello");
  const read = (path: string) => s.execute("read_file", { path }, { modelContent: true });
  assert.deepEqual((await read("model.txt")).model_content, [{ type: "text", text: "hello" }]);
  const [refusal] = (await read("/etc/hostname")).model_content ?? [];
  assert.match(String(refusal?.["text"]), /use a path inside/);
  assert.ok(!String(refusal?.["text"]).includes("`sinew "));
  assert.equal((await s.execute("read_file", { path: "model.txt" })).model_content, undefined);
});

test("failure is not a refusal", async () => {
  const failed = await caught(Failed, s.call("read_file", { path: "missing.txt" }));
  assert.match(failed.message, /missing\.txt/);
});

test("request errors are thrown with their data", async () => {
  const wrong = await caught(ProtocolError, s.request("sinew/execute", { tool_name: 1 as never, arguments: {} }));
  assert.equal(wrong.code, -32602);
  assert.equal(wrong.data["field"], "tool_name");
});

test("progress arrives before the result", async () => {
  daemon.file("lines.txt", "one\ntwo\n");
  const notes: Progress[] = [];
  const onProgress = (progress: Progress) => notes.push(progress);
  const output = await s.call("run_command", { command: ["cat", "lines.txt"] }, { onProgress });
  assert.equal(output.stdout, "one\ntwo\n");
  assert.ok(notes.length > 0);
});

test("callback that throws or rejects ends its own call only", async () => {
  const failing = {
    throws: () => {
      throw new RangeError("from the callback");
    },
    rejects: async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      throw new RangeError("from the callback");
    },
  };
  for (const onProgress of Object.values(failing)) {
    const name = `followed-${process.hrtime.bigint()}.txt`;
    daemon.file(name, "one\n");
    const other = s.call("run_command", { command: ["tail", "-n", "1", name] });
    const thrown = await caught(RangeError, s.call("run_command", { command: ["tail", "-f", name] }, { onProgress }));
    assert.equal(thrown.message, "from the callback");
    assert.equal((await other).stdout, "one\n");
    await waitFor("the end of tail", () => !isRunning(name), 5000);
    assert.equal((await s.call("run_command", { command: ["true"] })).exit_code, 0, "the connection still works");
  }
});

test("asynchronous callback sees every notification before the call returns", async () => {
  const [begun, ended]: [number[], number[]] = [[], []];
  const onProgress = async ({ step }: Progress) => {
    begun.push(step);
    await new Promise((resolve) => setTimeout(resolve, 20));
    ended.push(step);
    assert.deepEqual(begun, ended, "one at a time");
  };
  daemon.file("lines.txt", "one\ntwo\n");
  await s.call("run_command", { command: ["cat", "lines.txt"] }, { onProgress });
  assert.ok(ended.length > 0);
  assert.deepEqual(ended, begun);
});

test("callback may fail after the last notification", async () => {
  daemon.file("lines.txt", "one\n");
  const onProgress = async () => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    throw new RangeError("late");
  };
  const thrown = await caught(RangeError, s.call("run_command", { command: ["cat", "lines.txt"] }, { onProgress }));
  assert.equal(thrown.message, "late");
});

test("abort ends the process", async () => {
  const name = `followed-${process.hrtime.bigint()}.txt`;
  daemon.file(name, "one\n");
  const abort = new AbortController();
  const pending = caught(CallCancelled, s.call("run_command", { command: ["tail", "-f", name] }, { signal: abort.signal }));
  await waitFor("the start of tail", () => isRunning(name));
  abort.abort();
  await pending;
  await waitFor("the end of tail", () => !isRunning(name), 5000);
});

test("idempotency key runs once", async () => {
  const append = { path: "log.txt", content: "x\n", mode: "append" } as const;
  await s.call("write_file", append, { idempotencyKey: "append-1" });
  const repeated = await caught(AlreadyRan, s.call("write_file", append, { idempotencyKey: "append-1" }));
  assert.ok(repeated.succeeded);
  assert.equal(readFileSync(join(daemon.workspace, "log.txt"), "utf8"), "x\n");
});

test("session enforces allowlist and budget", async () => {
  daemon.file("b.txt", "x");
  const worker = await s.session(["read_file"], { hop_budget: 2 });
  assert.deepEqual(worker.opened.accepted, ["read_file"]);
  assert.equal((await caught(Refused, worker.call("run_command", { command: ["ls"] }))).code, "not_in_allowlist");
  await worker.turn();
  await worker.call("read_file", { path: "b.txt" });
  await worker.call("read_file", { path: "b.txt" });
  assert.equal((await caught(Refused, worker.call("read_file", { path: "b.txt" }))).code, "hop_budget_exhausted");
  assert.equal((await worker.turn()).remaining["hops"], 2);
  await worker.close();
  await caught(DaemonUnavailable, Sinew.connect({ socket: worker.socket, connectTimeoutMs: 100 }));
});

test("approval is requested and awaited", async () => {
  await control.request("control/mode.set", { mode: "ALERT", reason: "test" });
  const write = (path: string) => ({ path, content: "hello" });
  const pending = await caught(ApprovalPending, s.call("write_file", write("d.txt"), { approval: "async" }));
  await control.deny(pending.approvalId);
  const approval = await s.requestApproval("write_file", write("e.txt"));
  setTimeout(() => void control.approve(approval.id ?? ""), 300);
  assert.equal((await approval.result()).created, true);
  const denied = await s.requestApproval("write_file", write("f.txt"));
  await control.deny(denied.id ?? "", "not today");
  const refused = await caught(Refused, denied.result());
  assert.equal(refused.code, "approval_denied");
  assert.match(refused.message, /not today/);
  assert.ok(!existsSync(join(daemon.workspace, "f.txt")));
});

test("approvals are followed", async () => {
  await control.request("control/mode.set", { mode: "ALERT", reason: "test" });
  const deciding = (async () => {
    for await (const [name] of control.follow("control/approvals.watch")) {
      assert.equal(name, "control/approvals.changed");
      for (const waiting of await control.approvals()) {
        await control.approve(waiting.id);
        return;
      }
    }
  })();
  // The notification for a request that precedes the subscription would be missed.
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal((await s.call("write_file", { path: "g.txt", content: "hello" })).created, true);
  await deciding;
});

test("200 calls run on one connection", async () => {
  const path = daemon.file("large.txt", "é".repeat(50_000));
  const results = await Promise.all(Array.from({ length: 200 }, () => s.call("read_file", { path })));
  assert.ok(results.every((result) => result.content.length === 50_000));
});

test("detached call without a key gets one", async () => {
  assert.equal((await s.call("write_file", { path: "detached.txt", content: "x" }, { detached: true })).size, 1);
});

test("name is shown to the operator and has its own keys", async () => {
  const clients = await Promise.all(
    ["nightly", "weekly"].map((name) => Sinew.connect({ home: daemon.home, cwd: daemon.workspace, name, idempotencyKey: "job-1" })),
  );
  const append = { path: "names.txt", content: "x", mode: "append" } as const;
  for (const client of clients) await client.call("write_file", append);
  await caught(AlreadyRan, clients[0]!.call("write_file", append));
  assert.equal(readFileSync(join(daemon.workspace, "names.txt"), "utf8"), "xx");
  const abort = new AbortController();
  const command = ["tail", "-f", "names.txt"];
  const pending = caught(CallCancelled, clients[1]!.call("run_command", { command }, { idempotencyKey: "job-2", signal: abort.signal }));
  await waitFor("the start of tail", () => isRunning("names.txt"));
  assert.equal((await control.calls()).find(({ tool }) => tool === "run_command")?.caller["client"], "weekly");
  abort.abort();
  await pending;
  for (const client of clients) await client.close();
});

test("explain runs nothing", async () => {
  assert.equal((await s.explain("write_file", { path: "never.txt", content: "hello" })).verdict, "permit");
  assert.ok(!existsSync(join(daemon.workspace, "never.txt")));
});

test("a call with a key survives a killed daemon, one without does not", async () => {
  const name = `followed-${process.hrtime.bigint()}.txt`;
  daemon.file(name, "one\n");
  const lost = caught(ConnectionLost, s.call("run_command", { command: ["tail", "-f", name] }));
  await waitFor("the start of tail", () => isRunning(name));
  await daemon.kill();
  await lost;
  const write = s.call("write_file", { path: "h.txt", content: "hello" }, { idempotencyKey: "after-restart" });
  await daemon.start();
  assert.equal((await write).size, 5);
});

test("orchestrator of the README runs", () => {
  const readme = readFileSync(process.env["SINEW_CLIENT_README"] ?? "README.md", "utf8");
  const source = /```js\n(import [^]*?)```/.exec(readme)?.[1];
  assert.ok(source, "the README has an orchestrator");
  const path = daemon.file("plan.md", "step one\n");
  const program = join(daemon.folder, "orchestrator.mjs");
  const library = new URL("../src/index.js", import.meta.url).href;
  writeFileSync(program, source.replace('"sinew-client"', JSON.stringify(library)).replaceAll('"plan.md"', JSON.stringify(path)));
  const output = execFileSync(process.execPath, [program], { env: daemon.environment, encoding: "utf8" });
  const lines = output.trim().split("\n");
  assert.deepEqual(lines.slice(0, 2), ["step one 9", "step one 9"]);
  assert.match(lines[2] ?? "", /^path_forbidden /);
  assert.equal(lines[3], '{"hops":5}');
});
