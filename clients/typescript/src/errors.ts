/** Errors of the client. */

import type { ArgumentProblem, ExecuteResult, Refusal, Repair, RepeatedCall, RuleRef } from "./types.js";

/** Base class of all errors of the client. */
export class SinewError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No daemon of this user answers on the socket. */
export class DaemonUnavailable extends SinewError {}

/** The connection ended before the reply. The call may have run; one with an idempotency key is sent again instead. */
export class ConnectionLost extends SinewError {}

/** The call was cancelled by this client. */
export class CallCancelled extends SinewError {}

/** The daemon answered with a JSON-RPC error. */
export class ProtocolError extends SinewError {
  constructor(
    readonly code: number,
    message: string,
    readonly data: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

/** A call that did not succeed. */
export class CallError extends SinewError {
  constructor(
    readonly result: ExecuteResult,
    message = result.error ?? "the call did not succeed",
  ) {
    super(message);
  }

  /** Id of the call in the ledger. */
  get callId(): string {
    return this.result.metadata.call_id;
  }
}

/** The call was permitted and failed while it ran. */
export class Failed extends CallError {}

/** The call with this idempotency key ran before. The daemon does not store outputs, so there is none. */
export class AlreadyRan extends CallError {
  constructor(
    result: ExecuteResult,
    readonly repeat: RepeatedCall,
  ) {
    super(result, `the call ran before as ${repeat.of} and ended as \`${repeat.outcome}\``);
  }

  /** True if the first call succeeded. */
  get succeeded(): boolean {
    return this.repeat.outcome === "done";
  }
}

/** The call was refused and did not run. */
export class Refused extends CallError {
  constructor(
    result: ExecuteResult,
    readonly refusal: Refusal,
  ) {
    super(result);
  }

  /** Stable reason word, such as `path_not_allowed`. */
  get code(): string {
    return this.refusal.code;
  }

  /** Advice on what to do. */
  get hint(): string | undefined {
    return this.refusal.hint ?? undefined;
  }

  /** Problems of the arguments. */
  get problems(): ArgumentProblem[] {
    return this.refusal.problems ?? [];
  }

  /** Replacement arguments that have passed every check, if there are any. */
  get repair(): Repair | undefined {
    return this.refusal.repair ?? undefined;
  }

  /** Policy rule that decided, with file and line. */
  get rule(): RuleRef | undefined {
    return this.refusal.rule ?? undefined;
  }

  get retryable(): boolean {
    return this.refusal.retryable;
  }

  /** Milliseconds to wait before a retry. */
  get retryAfterMs(): number | undefined {
    return this.refusal.retry_after_ms ?? undefined;
  }
}

/** The call exceeds a rate or capacity limit. */
export class RateLimited extends Refused {}

/** The call waits for the operator. */
export class ApprovalPending extends Refused {
  get approvalId(): string {
    return this.refusal.approval_id ?? "";
  }
}

/** Returns the output of a successful call and throws for any other. */
export function checkResult(result: ExecuteResult): unknown {
  const { repeat, refusal } = result.metadata;
  if (repeat) throw new AlreadyRan(result, repeat);
  if (result.success) return result.output;
  if (!refusal) throw new Failed(result);
  if (refusal.code === "approval_pending") throw new ApprovalPending(result, refusal);
  if (refusal.code === "rate_limited" || refusal.code === "busy") throw new RateLimited(result, refusal);
  throw new Refused(result, refusal);
}
