/** Client of Sinew, the tool runtime of a local AI agent. */

export { Approval, Session, Sinew, type CallOptions, type ConnectOptions } from "./client.js";
export { Control } from "./control.js";
export {
  AlreadyRan,
  ApprovalPending,
  CallCancelled,
  CallError,
  ConnectionLost,
  DaemonUnavailable,
  Failed,
  ProtocolError,
  RateLimited,
  Refused,
  SinewError,
} from "./errors.js";
export type { Progress, ProgressCallback } from "./link.js";
export * as types from "./types.js";
