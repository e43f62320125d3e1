/** Locations of the daemon's sockets. */

import { stat } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

import { DaemonUnavailable } from "./errors.js";

/** Folder with the sockets: that of `home` or `SINEW_HOME`, else the standard one of the platform. */
export function runDirectory(home?: string, environment: NodeJS.ProcessEnv = process.env): string {
  const root = home ?? environment["SINEW_HOME"];
  if (root) return join(root, "run");
  const user = environment["HOME"] ?? homedir();
  if (process.platform === "darwin") return join(user, "Library/Application Support/sinew/run");
  const runtime = environment["XDG_RUNTIME_DIR"] ?? "";
  const state = environment["XDG_STATE_HOME"] ?? "";
  // The XDG specification requires relative paths to be ignored.
  if (isAbsolute(runtime)) return join(runtime, "sinew");
  return join(isAbsolute(state) ? state : join(user, ".local/state"), "sinew/run");
}

/** Throws if the socket belongs to another user. Node has no peer credentials. */
export async function checkOwner(path: string): Promise<void> {
  const { uid } = await stat(path);
  if (process.getuid && uid !== process.getuid()) {
    throw new DaemonUnavailable(`\`${path}\` belongs to uid ${uid}, not to this user; set SINEW_HOME to a folder of your own`);
  }
}
