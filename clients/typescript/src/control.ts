/** Client of the control socket, for the operator's own programs. Never give it to an agent. */

import { join } from "node:path";

import { ConnectionLost } from "./errors.js";
import { runDirectory } from "./home.js";
import { Link } from "./link.js";
import type { ApprovalSummary, Methods, RunningCall } from "./types.js";

export class Control {
  readonly #link: Link;

  constructor(options: { socket?: string; home?: string; connectTimeoutMs?: number } = {}) {
    const timeout = options.connectTimeoutMs ?? 5000;
    this.#link = new Link(options.socket ?? join(runDirectory(options.home), "control.sock"), timeout, timeout);
  }

  /** Creates a client and connects it. */
  static async connect(options: { socket?: string; home?: string; connectTimeoutMs?: number } = {}): Promise<Control> {
    const control = new Control(options);
    await control.#link.connect();
    return control;
  }

  async close(): Promise<void> {
    await this.#link.close();
  }

  /** Sends a request of any method and returns its result. */
  async request<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    return (await this.#link.request(method, params)) as Methods[M]["result"];
  }

  /** Lists the pending approval requests. */
  async approvals(): Promise<ApprovalSummary[]> {
    return (await this.request("control/approvals.list", {})).approvals;
  }

  /** Permits exactly this call, once. */
  async approve(id: string, pin?: string): Promise<Methods["control/approvals.decide"]["result"]> {
    return this.request("control/approvals.decide", { id, answer: "approve", ...(pin ? { pin } : {}) });
  }

  /** Refuses the call, with a reason for the model. */
  async deny(id: string, message?: string): Promise<Methods["control/approvals.decide"]["result"]> {
    return this.request("control/approvals.decide", { id, answer: "deny", ...(message ? { message } : {}) });
  }

  /** Lists the calls that have not ended. */
  async calls(): Promise<RunningCall[]> {
    return (await this.request("control/calls.list", {})).calls;
  }

  /** Yields the notifications of `control/events` or `control/approvals.watch`, on a connection of their own. */
  async *follow(method: "control/events" | "control/approvals.watch"): AsyncGenerator<[string, Record<string, unknown>]> {
    const link = new Link(this.#link.path, this.#link.connectTimeoutMs, this.#link.reconnectTimeoutMs);
    const received: [string, Record<string, unknown>][] = [];
    let lost = false;
    let wake = () => {};
    link.onNotification = (name, params) => {
      received.push([name, params]);
      wake();
    };
    link.onLost = () => {
      lost = true;
      wake();
    };
    try {
      await link.request(method, {});
      for (;;) {
        const next = received.shift();
        if (next) yield next;
        else if (lost) throw new ConnectionLost("the daemon closed the connection");
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      await link.close();
    }
  }
}
