/** One connection to a socket of the daemon: requests, notifications, cancellation and reconnection. */

import { createConnection, type Socket } from "node:net";

import { CallCancelled, ConnectionLost, DaemonUnavailable, ProtocolError, SinewError } from "./errors.js";
import { checkOwner } from "./home.js";

/** One progress notification of a running call. */
export interface Progress {
  step: number;
  message?: string;
  done?: number;
  total?: number;
  data?: unknown;
}

/** Callback for progress. A promise that it returns is awaited before the next notification. */
export type ProgressCallback = (progress: Progress) => unknown;

export interface RequestOptions {
  onProgress?: ProgressCallback | undefined;
  signal?: AbortSignal | undefined;
  /** Sends the request again after a lost connection. */
  resend?: boolean;
}

interface OpenRequest {
  resolve(result: unknown): void;
  reject(error: unknown): void;
  /** Cancels the call in the daemon and rejects its promise. */
  cancel(reason: unknown): void;
  onProgress?: ProgressCallback | undefined;
  /** Ends when the callback has seen every notification so far; rejects if it failed. */
  reported: Promise<void>;
}

interface Message {
  id?: number | null;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
  error?: { code: number; message: string; data?: Record<string, unknown> };
}

/** The daemon refuses more open requests on one connection. */
const MAX_OPEN_REQUESTS = 64;
const RETRY_MS = 50;
const NEWLINE = 10;
/** Revision of the MCP handshake by which a client states its name. */
const REVISION = "2025-11-25";

/** Connection that is opened on the first request, and again after it was lost. */
export class Link {
  onNotification?: (method: string, params: Record<string, unknown>) => void;
  onLost?: () => void;
  #socket: Socket | undefined;
  #connecting: Promise<Socket> | undefined;
  #open = new Map<number, OpenRequest>();
  #waiting: (() => void)[] = [];
  #running = 0;
  #lastId = 0;
  #closed = false;

  constructor(
    readonly path: string,
    readonly connectTimeoutMs: number,
    readonly reconnectTimeoutMs: number,
    readonly name?: string,
  ) {}

  /** Connects unless connected. Waits for a daemon that is starting. */
  async connect(timeoutMs = this.connectTimeoutMs): Promise<Socket> {
    if (this.#closed) throw new ConnectionLost("the client is closed");
    // A connection is not used before its handshake.
    if (this.#socket && !this.#connecting) return this.#socket;
    this.#connecting ??= this.#dial(timeoutMs).finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }

  async #dial(timeoutMs: number): Promise<Socket> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      try {
        await checkOwner(this.path);
        const socket = await dialOnce(this.path);
        if (this.#closed) {
          socket.destroy();
          throw new ConnectionLost("the client is closed");
        }
        this.#socket = socket;
        this.#read(socket);
        await this.#stateName(socket);
        return socket;
      } catch (error) {
        const mayRetry = error instanceof ConnectionLost && !this.#closed;
        if (error instanceof SinewError && !mayRetry) throw error;
        if (Date.now() >= deadline) {
          const text = error instanceof Error ? error.message : String(error);
          const message = `no daemon answers on \`${this.path}\`: ${text}; start one with \`sinew serve\``;
          throw new DaemonUnavailable(message, { cause: error });
        }
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  async #stateName(socket: Socket): Promise<void> {
    if (this.name === undefined) return;
    const clientInfo = { name: this.name, version: REVISION };
    try {
      await this.#requestOnce(socket, "initialize", { protocolVersion: REVISION, capabilities: {}, clientInfo }, {});
    } catch (error) {
      // A connection without the name must not be used.
      this.#socket = undefined;
      socket.destroy();
      throw error;
    }
    this.#send(socket, { jsonrpc: "2.0", method: "notifications/initialized" });
  }

  /** Closes the connection. Calls that are not detached end. */
  async close(): Promise<void> {
    this.#closed = true;
    const socket = this.#socket;
    this.#drop(new ConnectionLost("the client was closed"));
    if (!socket || socket.destroyed) return;
    await new Promise<void>((resolve) => {
      socket.once("close", () => resolve());
      socket.destroy();
    });
  }

  /** Sends a request and returns its result. */
  async request(method: string, params: object, options: RequestOptions = {}): Promise<unknown> {
    await this.#enter();
    try {
      let timeoutMs = this.connectTimeoutMs;
      for (;;) {
        const socket = await this.connect(timeoutMs);
        try {
          return await this.#requestOnce(socket, method, params, options);
        } catch (error) {
          if (!(error instanceof ConnectionLost) || !options.resend || this.#closed) throw error;
          timeoutMs = this.reconnectTimeoutMs;
        }
      }
    } finally {
      this.#leave();
    }
  }

  async #enter(): Promise<void> {
    while (this.#running >= MAX_OPEN_REQUESTS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#running += 1;
  }

  #leave(): void {
    this.#running -= 1;
    this.#waiting.shift()?.();
  }

  async #requestOnce(socket: Socket, method: string, params: object, options: RequestOptions): Promise<unknown> {
    const { onProgress, signal } = options;
    if (signal?.aborted) throw new CallCancelled("the call was cancelled");
    const id = ++this.#lastId;
    const sent = onProgress ? { ...params, progress_token: id } : params;
    let abort: (() => void) | undefined;
    let request: OpenRequest | undefined;
    try {
      const result = await new Promise<unknown>((resolve, reject) => {
        const cancel = (reason: unknown) => {
          this.#send(socket, { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
          reject(reason);
        };
        request = { resolve, reject, cancel, onProgress, reported: Promise.resolve() };
        this.#open.set(id, request);
        abort = () => cancel(new CallCancelled("the call was cancelled"));
        signal?.addEventListener("abort", abort, { once: true });
        this.#send(socket, { jsonrpc: "2.0", id, method, params: sent });
      });
      // Every notification precedes the result, so the callback has seen all of them when the call returns.
      await request?.reported;
      return result;
    } finally {
      this.#open.delete(id);
      if (abort) signal?.removeEventListener("abort", abort);
    }
  }

  #send(socket: Socket, message: object): void {
    // A failed write closes the socket, which rejects the open requests.
    socket.write(`${JSON.stringify(message)}\n`);
  }

  #read(socket: Socket): void {
    // Decoded by the line: a character may be split between chunks.
    let parts: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => {
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
        parts.push(chunk.subarray(start, end));
        this.#dispatch(Buffer.concat(parts).toString());
        parts = [];
        start = end + 1;
      }
      if (start < chunk.length) parts.push(chunk.subarray(start));
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      if (this.#socket === socket) this.#drop(new ConnectionLost("the daemon closed the connection before it replied"));
    });
  }

  #dispatch(line: string): void {
    const message = parseMessage(line);
    if (!message) {
      // The replies that follow cannot be trusted either.
      this.#socket?.destroy();
      return;
    }
    if (message.method !== undefined) {
      const params = message.params ?? {};
      const request = this.#open.get(params["progressToken"] as number);
      if (message.method === "notifications/progress" && request) reportProgress(request, params);
      else this.onNotification?.(message.method, params);
      return;
    }
    if (message.error) {
      const error = new ProtocolError(message.error.code, message.error.message, message.error.data);
      // An error without an id concerns the whole connection.
      if (message.id == null) for (const request of this.#open.values()) request.reject(error);
      else this.#open.get(message.id)?.reject(error);
    } else if (message.id != null) {
      this.#open.get(message.id)?.resolve(message.result);
    }
  }

  #drop(reason: Error): void {
    this.#socket = undefined;
    for (const request of this.#open.values()) request.reject(reason);
    this.onLost?.();
  }
}

function parseMessage(line: string): Message | undefined {
  try {
    const message = JSON.parse(line) as unknown;
    return typeof message === "object" && message !== null ? (message as Message) : undefined;
  } catch {
    return undefined;
  }
}

/** Calls the callback of a request. One that throws or rejects ends its own call with that error, and nothing else. */
function reportProgress(request: OpenRequest, params: Record<string, unknown>): void {
  const earlier = request.reported;
  const report = async () => {
    // After a failure, this rejects and the callback is not called again.
    await earlier;
    try {
      await request.onProgress?.(progress(params));
    } catch (error) {
      request.cancel(error);
      throw error;
    }
  };
  request.reported = report();
  // The call may have been rejected before, so that nothing awaits this.
  request.reported.catch(() => undefined);
}

function progress(params: Record<string, unknown>): Progress {
  const meta = (params["_meta"] ?? {}) as Record<string, unknown>;
  const share = (meta["sinew/share"] ?? {}) as { done?: number; total?: number };
  return {
    step: params["progress"] as number,
    message: params["message"] as string,
    ...share,
    data: meta["sinew/data"],
  };
}

function dialOnce(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ path });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}
