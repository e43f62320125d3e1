/** Client of the agent socket. */

import { randomUUID } from "node:crypto";
import { join } from "node:path";

import { ApprovalPending, checkResult } from "./errors.js";
import { runDirectory } from "./home.js";
import { Link, type ProgressCallback } from "./link.js";
import { currentTraceContext } from "./trace.js";
import type { ExecuteResult, ExplainResult, Methods, SessionOpenParams, SessionOpenResult, Tools } from "./types.js";

/** Options of a call. */
export interface CallOptions {
  /** Folder that relative paths start at. */
  cwd?: string;
  /** Time limit of the call, including the wait for approval. */
  deadlineMs?: number;
  /** The call with this key runs once in 24 hours; a repeat gets the recorded outcome. */
  idempotencyKey?: string;
  /** The call outlives its connection. Without a key it gets one of its own, as with `resumable`. */
  detached?: boolean;
  /** Gives the call its own key and detaches it, so that a lost connection does not lose the outcome. */
  resumable?: boolean;
  /** `async`: a call that needs approval throws `ApprovalPending` at once. */
  approval?: "wait" | "async";
  /** Decided approval that an earlier attempt of the same call requested. */
  approvalId?: string;
  /** Repeats a refused call once with the repair that the daemon has checked. */
  autoRepair?: boolean;
  /** Called for each progress notification, one at a time. If it throws or rejects, the call is cancelled and rejects with that error. */
  onProgress?: ProgressCallback;
  /** Cancels the call: the daemon ends its processes. */
  signal?: AbortSignal;
  /** The result of `execute` also has `model_content`: the texts that a language model should get. */
  modelContent?: boolean;
  /** W3C trace context; the default is the active span of `@opentelemetry/api`, if that is installed. */
  traceContext?: string | { traceparent: string; tracestate?: string };
}

/** Options of a client; those of a call apply to all its calls. */
export interface ConnectOptions extends CallOptions {
  /** Path of the socket; the default is `agent.sock` of `home`. */
  socket?: string;
  /** Folder of the daemon; the default is `SINEW_HOME`, or the standard one of this user. */
  home?: string;
  /** Name of this program, which the operator and the ledger see. Programs with different names have idempotency keys of their own. */
  name?: string;
  connectTimeoutMs?: number;
  reconnectTimeoutMs?: number;
}

type Name<K> = K extends keyof Tools ? K : string;
type Arguments<K> = K extends keyof Tools ? Tools[K]["arguments"] : Record<string, unknown>;
type Output<K> = K extends keyof Tools ? Tools[K]["output"] : unknown;

/** Connection to the agent socket. It connects again after the daemon restarted. */
export class Sinew {
  protected readonly link: Link;
  protected readonly defaults: ConnectOptions;

  constructor(options: ConnectOptions = {}) {
    const path = options.socket ?? join(runDirectory(options.home), "agent.sock");
    this.link = new Link(path, options.connectTimeoutMs ?? 5000, options.reconnectTimeoutMs ?? 20_000, options.name);
    this.defaults = options;
  }

  /** Creates a client and connects it. */
  static async connect(options: ConnectOptions = {}): Promise<Sinew> {
    const client = new Sinew(options);
    await client.link.connect();
    return client;
  }

  /** Path of the socket. */
  get socket(): string {
    return this.link.path;
  }

  /** Closes the connection. Calls that are not detached end. */
  async close(): Promise<void> {
    await this.link.close();
  }

  /** Sends a request of any method and returns its result. */
  async request<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    return (await this.link.request(method, params)) as Methods[M]["result"];
  }

  /** Calls a tool and returns its output. Throws `Refused`, `Failed` or another `SinewError`. */
  async call<K extends keyof Tools | (string & {})>(
    tool: K & Name<K>,
    args: Arguments<K>,
    options: CallOptions = {},
  ): Promise<Output<K>> {
    return checkResult(await this.execute(tool, args, options)) as Output<K>;
  }

  /** Calls a tool and returns the whole result, also of a refused or failed call. */
  async execute(tool: string, args: object, options: CallOptions = {}): Promise<ExecuteResult> {
    const all = { ...this.defaults, ...options };
    const params = await executeParams(tool, args, all);
    const result = await this.#execute(params, all);
    const repair = result.metadata.refusal?.repair;
    return all.autoRepair && repair ? this.#execute({ ...params, arguments: repair.arguments }, all) : result;
  }

  async #execute(params: Record<string, unknown>, options: CallOptions): Promise<ExecuteResult> {
    const { onProgress, signal } = options;
    // Only a call with a key may be sent twice: without one it could run twice.
    const resend = "idempotency_key" in params;
    return (await this.link.request("sinew/execute", params, { onProgress, signal, resend })) as ExecuteResult;
  }

  /** Starts a call that may need approval and does not wait for it. */
  async requestApproval<K extends keyof Tools | (string & {})>(
    tool: K & Name<K>,
    args: Arguments<K>,
    options: CallOptions = {},
  ): Promise<Approval<Output<K>>> {
    try {
      const output = await this.call<K>(tool, args, { ...options, approval: "async" });
      return new Approval<Output<K>>(undefined, async () => output);
    } catch (error) {
      if (!(error instanceof ApprovalPending)) throw error;
      const approvalId = error.approvalId;
      return new Approval<Output<K>>(approvalId, () => this.call<K>(tool, args, { ...options, approval: "wait", approvalId }));
    }
  }

  /** Explains how a call would be decided. Nothing runs. */
  async explain(tool: string, args: object): Promise<ExplainResult> {
    const { cwd } = this.defaults;
    const params = { tool_name: tool, arguments: args as Record<string, unknown>, ...(cwd ? { cwd } : {}) };
    return this.request("sinew/explain", params);
  }

  /** Lists the definitions of the tools. */
  async tools(format: "native" | "mcp" | "openai" | "anthropic" = "native"): Promise<Record<string, unknown>[]> {
    return (await this.request("sinew/tools", { format })).tools as Record<string, unknown>[];
  }

  /** Returns the status of the daemon. */
  async status(): Promise<Methods["sinew/status"]["result"]> {
    return this.request("sinew/status", {});
  }

  /** Opens a worker session: a client that may only call these tools, within these budgets. */
  async session(allowlist: string[], budgets: Omit<SessionOpenParams, "allowlist"> = {}): Promise<Session> {
    const opened = await this.request("sinew/session.open", { allowlist, ...budgets });
    const session = new Session(this, { ...this.defaults, socket: opened.socket }, opened);
    await session.link.connect();
    return session;
  }
}

/** Client of a worker session. Give `socket` to a worker in another process. */
export class Session extends Sinew {
  constructor(
    private readonly opener: Sinew,
    options: ConnectOptions,
    readonly opened: SessionOpenResult,
  ) {
    super(options);
  }

  /** Starts the next turn and resets its budgets. */
  async turn(): Promise<Methods["sinew/session.turn"]["result"]> {
    return this.opener.request("sinew/session.turn", { session_id: this.opened.session_id });
  }

  /** Adds external cost, such as model usage, to the turn. */
  async spend(cost: number): Promise<Methods["sinew/session.spend"]["result"]> {
    return this.opener.request("sinew/session.spend", { session_id: this.opened.session_id, cost });
  }

  /** Closes the session with its socket and its running calls. */
  override async close(): Promise<void> {
    await super.close();
    await this.opener.request("sinew/session.close", { session_id: this.opened.session_id });
  }
}

/** Call that may wait for the operator. Not a thenable: awaiting the request for it must not wait for the operator. */
export class Approval<T> {
  #outcome: Promise<T> | undefined;

  constructor(
    /** Id for `sinew approve`, or nothing if the call needed no approval. */
    readonly id: string | undefined,
    private readonly run: () => Promise<T>,
  ) {}

  /** Waits for the decision and returns the output; throws `Refused` after a denial. */
  result(): Promise<T> {
    this.#outcome ??= this.run();
    return this.#outcome;
  }
}

async function executeParams(tool: string, args: object, options: CallOptions): Promise<Record<string, unknown>> {
  const detached = options.detached || options.resumable ? true : undefined;
  const key = options.idempotencyKey ?? (detached ? randomUUID() : undefined);
  const given = {
    cwd: options.cwd,
    deadline_ms: options.deadlineMs,
    idempotency_key: key,
    detached,
    approval: options.approval,
    approval_id: options.approvalId,
    model_content: options.modelContent || undefined,
    trace_ctx: options.traceContext ?? (await currentTraceContext()),
  };
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { tool_name: tool, arguments: args, ...Object.fromEntries(set) };
}
