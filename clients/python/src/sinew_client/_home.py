"""Locations of the daemon's sockets."""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path
from typing import Mapping

from ._errors import DaemonUnavailable


def run_directory(home: str | os.PathLike[str] | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """Folder with the sockets: that of `home` or `SINEW_HOME`, else the standard one of the platform."""
    env = os.environ if environment is None else environment
    root = os.fspath(home) if home is not None else env.get("SINEW_HOME")
    if root:
        return Path(root) / "run"
    user = Path(env.get("HOME") or os.path.expanduser("~"))
    if sys.platform == "darwin":
        return user / "Library/Application Support/sinew/run"
    runtime, state = env.get("XDG_RUNTIME_DIR", ""), env.get("XDG_STATE_HOME", "")
    # The XDG specification requires relative paths to be ignored.
    if os.path.isabs(runtime):
        return Path(runtime) / "sinew"
    return (Path(state) if os.path.isabs(state) else user / ".local/state") / "sinew/run"


def check_peer(peer: socket.socket, path: str) -> None:
    """Raises if a process of another user serves the socket."""
    uid = os.stat(path).st_uid
    if sys.platform == "linux":
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = struct.unpack("3i", credentials)[1]
    if uid != os.geteuid():
        raise DaemonUnavailable(f"`{path}` is served by uid {uid}, not by this user; set SINEW_HOME to a folder of your own")
