"""pytest fixtures: a real daemon in a temporary home.

The program is `sinew` from the PATH, or the one that the variable `SINEW_BIN` names.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Iterator

import pytest

from ._errors import DaemonUnavailable
from ._sync import Control, Sinew

START_TIMEOUT_SECONDS = 30.0


@dataclasses.dataclass
class SinewDaemon:
    """Daemon of a test, with a home and a workspace of its own."""

    binary: str
    folder: Path
    arguments: list[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        """Folder that `SINEW_HOME` names."""
        return self.folder / "home"

    @property
    def workspace(self) -> Path:
        """Folder that callers may work in."""
        return self.folder / "work"

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which other programs find this daemon."""
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return {"SINEW_HOME": str(self.home), "HOME": str(self.folder), "PATH": path, "NO_COLOR": "1"}

    def command(self, *words: str) -> str:
        """Runs a command of `sinew` in this home and returns its output."""
        done = subprocess.run(
            [self.binary, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=60
        )
        if done.returncode != 0:
            raise RuntimeError(f"`sinew {' '.join(words)}` ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def start(self) -> None:
        """Starts the daemon and waits until it answers."""
        log = open(self.folder / "serve.log", "ab")
        with log:
            self.process = subprocess.Popen(
                [self.binary, "serve", *self.arguments],
                env=self.environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            try:
                with Control(home=self.home, connect_timeout=0.2) as control:
                    control.status()
                return
            except DaemonUnavailable:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the daemon does not answer: {self.log()}") from None

    def kill(self) -> None:
        """Kills the daemon without an orderly stop."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Stops the daemon in order."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def log(self) -> str:
        """Output of the daemon."""
        return (self.folder / "serve.log").read_text(errors="replace")


@pytest.fixture
def sinew_arguments() -> list[str]:
    """Arguments of `sinew serve`. Override it, for example to add `--allow-root` in a container."""
    return []


@pytest.fixture
def sinew_daemon(sinew_arguments: list[str]) -> Iterator[SinewDaemon]:
    """Running daemon in a temporary home with an empty workspace."""
    binary = os.environ.get("SINEW_BIN") or shutil.which("sinew")
    if binary is None:
        pytest.fail("`sinew` is not in the PATH; install it, or name it in SINEW_BIN")
    # Not pytest's tmp_path: the path of a socket may have about a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="sinew-") as folder:
        daemon = SinewDaemon(binary, Path(folder).resolve(), sinew_arguments)
        daemon.workspace.mkdir()
        daemon.command("init")
        daemon.command("workspace", "add", str(daemon.workspace))
        daemon.start()
        try:
            yield daemon
        finally:
            daemon.stop()


@pytest.fixture
def sinew(sinew_daemon: SinewDaemon) -> Iterator[Sinew]:
    """Client of the daemon, with relative paths in its workspace."""
    with Sinew(home=sinew_daemon.home, cwd=str(sinew_daemon.workspace)) as client:
        yield client
