/** Real daemon in a temporary home. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Control, DaemonUnavailable } from "../src/index.js";

export class Daemon {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), "sinew-")));
  readonly home = join(this.folder, "home");
  readonly workspace = join(this.folder, "work");
  readonly #binary = process.env["SINEW_BIN"] ?? "sinew";
  #process: ChildProcess | undefined;

  static async start(): Promise<Daemon> {
    const daemon = new Daemon();
    mkdirSync(daemon.workspace);
    daemon.command("init");
    daemon.command("workspace", "add", daemon.workspace);
    await daemon.start();
    return daemon;
  }

  get environment(): NodeJS.ProcessEnv {
    return { SINEW_HOME: this.home, HOME: this.folder, PATH: process.env["PATH"], NO_COLOR: "1" };
  }

  command(...words: string[]): string {
    return execFileSync(this.#binary, words, { env: this.environment, cwd: this.folder, encoding: "utf8" });
  }

  async start(): Promise<void> {
    const log = openSync(join(this.folder, "serve.log"), "a");
    const words = process.getuid?.() === 0 ? ["serve", "--allow-root"] : ["serve"];
    this.#process = spawn(this.#binary, words, { env: this.environment, cwd: "/", stdio: ["ignore", log, log] });
    closeSync(log);
    for (const deadline = Date.now() + 30_000; ; ) {
      try {
        const control = await Control.connect({ home: this.home, connectTimeoutMs: 200 });
        await control.request("control/status", {});
        return await control.close();
      } catch (error) {
        const ended = this.#process.exitCode !== null;
        if (!(error instanceof DaemonUnavailable) || ended || Date.now() > deadline) {
          throw new Error(`the daemon does not answer: ${readFileSync(join(this.folder, "serve.log"), "utf8")}`);
        }
      }
    }
  }

  /** Kills the daemon without an orderly stop. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null) return;
    await new Promise((resolve) => {
      child.once("exit", resolve);
      child.kill(signal);
    });
  }

  async stop(): Promise<void> {
    await this.kill("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }

  file(name: string, content: string): string {
    writeFileSync(join(this.workspace, name), content);
    return join(this.workspace, name);
  }
}

export async function waitFor<T>(what: string, condition: () => T | Promise<T>, ms = 20_000): Promise<NonNullable<T>> {
  for (const deadline = Date.now() + ms; Date.now() < deadline; ) {
    const found = await condition();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`${what} did not happen in ${ms} ms`);
}

/** Returns true if a process has this word in its command line. */
export function isRunning(word: string): boolean {
  return readdirSync("/proc").some((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "utf8").includes(word);
    } catch {
      return false;
    }
  });
}
