"""Runs real MCP clients against a daemon of their own and prints a table of client and check.

    python3 matrix.py --sinew PATH --clients FOLDER [--only NAME] [--table FILE]

FOLDER has one folder with the packages of each client. One that is missing is left out, loudly.
"""

from __future__ import annotations

import argparse
import dataclasses
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "python/src"))

from sinew_client import Control  # noqa: E402

import agents  # noqa: E402

START_SECONDS = 60.0
CALL_SECONDS = 60.0
MANY = 200
# Folder of the linter that `run_linter` starts.
LINTER = "ruff"


class CheckFailed(Exception):
    """A check did not hold."""


class NotApplicable(Exception):
    """The client has no such feature."""


def expect(condition: Any, why: Any) -> None:
    if not condition:
        raise CheckFailed(str(why)[:600])


@dataclasses.dataclass(frozen=True)
class Entry:
    """Client of the matrix."""

    name: str
    version: str
    folder: str
    driver: str
    lacks: tuple[str, ...] = ()
    # Calls that are open at the same time.
    at_once: int = MANY


CLIENTS = [
    Entry("Python SDK", "mcp 1.30.0", "python-sdk-1", "python_sdk_1.py"),
    Entry("Python SDK", "mcp 2.3.0", "python-sdk-2", "python_sdk_2.py"),
    Entry("TypeScript SDK", "@modelcontextprotocol/sdk 1.32.2", "typescript-sdk-1", "typescript_sdk_1.mjs"),
    Entry("TypeScript SDK", "@modelcontextprotocol/client 2.4.0", "typescript-sdk-2", "typescript_sdk_2.mjs"),
    Entry("FastMCP client", "fastmcp 4.1.0", "fastmcp", "fastmcp_client.py"),
    Entry("langchain-mcp-adapters", "0.3.2", "langchain", "langchain_tools.py"),
    Entry("openai-agents", "0.24.0", "openai-agents", "openai_agents_server.py", ("progress",)),
    Entry("pydantic-ai", "2.66.0", "pydantic-ai", "pydantic_ai_toolset.py", ("progress",)),
    Entry("mcp-use", "1.7.1", "mcp-use", "mcp_use_client.py", ("progress",)),
    # Each call is a process of its own that needs 100 MB, so fewer at a time.
    Entry("Inspector CLI", "2.12.0", "inspector", "inspector_cli.mjs", ("progress",), at_once=8),
    Entry("Claude Code", "2.1.326", "claude-code", "claude_code", agents.LACKS),
    Entry("Codex", "0.169.0", "codex", "codex", agents.LACKS),
]

CHECKS = ["list", "tools", "refusal and repair", "approval", "progress", "cancel", "concurrent"]


class WebServer:
    """Page and search results on the loopback interface."""

    def __init__(self) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802 - a name of the base class
                found = {"query": "q", "results": [{"title": "Sinew", "url": "https://example.org/", "content": "about"}]}
                is_search = self.path.startswith("/search")
                body = json.dumps(found) if is_search else "<html><title>A page</title><p>Hello from the page.</p></html>"
                self.send_response(200)
                self.send_header("Content-Type", "application/json" if is_search else "text/html")
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *words: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Daemon:
    """Daemon in a temporary home, with a workspace that every built-in tool can work on."""

    def __init__(self, binary: str, web: WebServer, linter: Path) -> None:
        self.binary, self.web = binary, web
        self.folder = Path(tempfile.mkdtemp(prefix="sinew-")).resolve()
        self.home, self.workspace = self.folder / "home", self.folder / "work"
        self.environment = {
            "SINEW_HOME": str(self.home),
            "HOME": str(self.folder),
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "NO_COLOR": "1",
        }
        self.workspace.mkdir()
        self.command("init")
        self.command("workspace", "add", str(self.workspace))
        self.configure(linter)
        self.fill()
        log = open(self.folder / "serve.log", "wb")
        root = ["--allow-root"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen([binary, "serve", *root], env=self.environment, cwd="/", stdout=log, stderr=log)
        self.control = Control(home=self.home, connect_timeout=30)
        self.control.status()

    def command(self, *words: str) -> None:
        subprocess.run([self.binary, *words], env=self.environment, check=True, capture_output=True)

    def configure(self, linter: Path) -> None:
        """Lets the tools reach the web server, the linter and the log of this program."""
        governance = self.home / "config/governance"
        (governance / "tools.yaml").write_text(
            "tools:\n"
            f"  read_system_logs: {{allowed_paths: {{add: [{self.workspace}/**]}}}}\n"
            f"  run_linter: {{program_folders: [{linter}]}}\n"
        )
        (governance / "safety.yaml").write_text(
            'outbound_gateway: {allowed_domains: ["*"], allow_private_addresses: true, max_response_kb: 1024}\n'
        )
        settings = self.home / "config/sinew.yaml"
        others = re.sub(r"^web:.*?(?=^\S|\Z)", "", settings.read_text(), flags=re.DOTALL | re.MULTILINE)
        search = f'web: {{search: {{providers: [{{name: searxng, url: "{self.web.url}"}}]}}}}\n'
        settings.write_text(f"{others.rstrip()}\n{search}")

    def fill(self) -> None:
        (self.workspace / "note.txt").write_text("hello\nworld\n")
        (self.workspace / "long.txt").write_text("0123456789abcdef\n" * 40_000)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        (self.workspace / "app.log").write_text(f"{now} ERROR out of cheese\n")
        (self.workspace / "app.py").write_text("import os\n")
        package = {"name": "p", "version": "1.0.0", "scripts": {"test": "echo 1 passing"}}
        (self.workspace / "package.json").write_text(json.dumps(package))
        git = ["git", "-C", str(self.workspace), "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "note.txt"], ["commit", "-q", "-m", "first commit"]):
            subprocess.run([*git, *words], check=True, capture_output=True, env=self.environment)
        (self.workspace / "note.txt").write_text("hello\nthere\n")

    def stop(self) -> None:
        self.control.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Driver:
    """Client in a process of its own."""

    def __init__(self, entry: Entry, packages: Path, daemon: Daemon) -> None:
        self.entry = entry
        environment = {**daemon.environment, "SINEW": daemon.binary, "PYTHONDONTWRITEBYTECODE": "1"}
        if entry.driver.endswith(".py"):
            words = [str(packages / "bin/python"), str(HERE / "drivers" / entry.driver)]
        else:
            # Node looks for packages beside the script.
            beside = daemon.folder / "driver"
            beside.mkdir()
            for name in (entry.driver, "node_driver.mjs"):
                shutil.copy(HERE / "drivers" / name, beside / name)
            (beside / "node_modules").symlink_to(packages / "node_modules")
            words = ["node", str(beside / entry.driver)]
        self.errors = open(daemon.folder / "driver.log", "w+")
        self.process = subprocess.Popen(
            words, env=environment, cwd=daemon.workspace, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        seconds = fields.pop("seconds", CALL_SECONDS)
        self.process.stdin.write(json.dumps({"command": command, "seconds": seconds, **fields}) + "\n")
        self.process.stdin.flush()
        overdue = threading.Timer(seconds + START_SECONDS, self.process.kill)
        overdue.start()
        try:
            line = self.process.stdout.readline()
        finally:
            overdue.cancel()
        expect(line, self.log())
        reply: dict[str, Any] = json.loads(line)
        return reply

    def call(self, name: str, arguments: dict[str, Any], **fields: Any) -> dict[str, Any]:
        reply = self.ask("call", name=name, arguments=arguments, **fields)
        expect("error" not in reply, f"{name}: {reply.get('error')}")
        return reply

    def log(self) -> str:
        self.errors.seek(0)
        return f"the driver ended: {self.errors.read()[-500:]}"

    def stop(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def built_in_calls(daemon: Daemon) -> list[tuple[str, dict[str, Any], str]]:
    """Every built-in tool once: arguments, and a part of its real output."""
    work = str(daemon.workspace)
    return [
        ("read_file", {"path": f"{work}/note.txt"}, "hello"),
        ("list_directory", {"path": work}, "note.txt"),
        ("search_files", {"path": work, "query": "hello", "glob": "*.txt"}, "note.txt"),
        ("write_file", {"path": f"{work}/new.txt", "content": "one\n"}, "new.txt"),
        ("edit_file", {"path": f"{work}/new.txt", "edits": [{"old_text": "one", "new_text": "two"}]}, "new.txt"),
        ("create_directory", {"path": f"{work}/folder"}, "folder"),
        ("delete_file", {"path": f"{work}/new.txt"}, "new.txt"),
        ("run_command", {"command": ["cat", "note.txt"], "cwd": work}, "hello"),
        ("git_status", {"path": work}, "note.txt"),
        ("git_diff", {"path": work}, "+there"),
        ("git_log", {"path": work}, "first commit"),
        ("run_tests", {"path": work, "runner": "npm"}, "passed"),
        ("run_linter", {"path": work, "linter": "ruff"}, "F401"),
        ("fetch_url", {"url": f"{daemon.web.url}/page"}, "Hello from the page"),
        ("web_search", {"query": "sinew"}, "https://example.org/"),
        ("system_metrics_snapshot", {}, "cores"),
        ("check_process_health", {"pid": daemon.process.pid}, str(daemon.process.pid)),
        ("read_system_logs", {"file": f"{work}/app.log", "minutes": 1440}, "out of cheese"),
        ("runtime_status", {}, "NORMAL"),
        ("self_check", {}, "ok"),
    ]


def shown(reply: dict[str, Any]) -> str:
    return reply["text"] + json.dumps(reply.get("structured"))


def check_list(driver: Driver, daemon: Daemon) -> str:
    reply = driver.ask("list")
    expect("tools" in reply, reply)
    wanted = {name for name, _, _ in built_in_calls(daemon)} | {"read_output"}
    expect(wanted <= set(reply["tools"]), f"missing: {wanted - set(reply['tools'])}")
    return str(len(reply["tools"]))


def check_tools(driver: Driver, daemon: Daemon) -> str:
    wrong = []
    calls = built_in_calls(daemon)
    for name, arguments, part in calls:
        reply = driver.ask("call", name=name, arguments=arguments)
        if reply.get("is_error", True) or part not in shown(reply):
            wrong.append(f"{name}: {json.dumps(reply)[:300]}")
    wrong += check_read_output(driver, daemon)
    if driver.entry.driver in agents.DRIVERS:
        wrong += check_model_text(driver, daemon)
    expect(not wrong, "; ".join(wrong))
    return f"{len(calls) + 1} of {len(calls) + 1}"


def check_model_text(driver: Driver, daemon: Daemon) -> list[str]:
    """The model of an agent gets the text of a result and not its JSON."""
    replies = [
        (driver.call("read_file", {"path": str(daemon.workspace / "note.txt")}), "hello\nthere\n"),
        (driver.call("run_command", {"command": ["true"], "cwd": str(daemon.workspace)}), "exit code 0, no output"),
    ]
    return [f"not the text: {reply['text']}" for reply, text in replies if text not in reply["text"] or "{" in reply["text"]]


def check_read_output(driver: Driver, daemon: Daemon) -> list[str]:
    """Reads the rest of a long output by the id in its result."""
    long = driver.call("run_command", {"command": ["cat", "long.txt"], "cwd": str(daemon.workspace)})
    found = re.search(r'"id\\*": ?\\*"([0-9a-zA-Z-]+)', shown(long)) or re.search(r"read_output\W+id\W+([0-9a-zA-Z-]+)", shown(long))
    if found is None:
        return [f"run_command: no id of the whole output in {shown(long)[-300:]}"]
    rest = driver.ask("call", name="read_output", arguments={"id": found.group(1), "offset": 1000})
    good = not rest.get("is_error", True) and "0123456789abcdef" in shown(rest)
    return [] if good else [f"read_output: {json.dumps(rest)[:300]}"]


def check_repair(driver: Driver, daemon: Daemon) -> str:
    refused = driver.ask("call", name="read_file", arguments={"pth": str(daemon.workspace / "note.txt")})
    by_client = "error" in refused
    text = refused["error"] if by_client else refused["text"]
    # An agent may pass the error to its model as text only.
    expect(by_client or refused["is_error"] is not False, refused)
    expect("path" in text and "hello" not in text, text)
    forbidden = driver.call("read_file", {"path": "/etc/shadow"})
    expect(forbidden["is_error"] is not False and "forbidden" in forbidden["text"], forbidden)
    repaired = driver.call("read_file", {"path": str(daemon.workspace / "note.txt")})
    expect(not repaired["is_error"] and "hello" in shown(repaired), repaired)
    return "client validates" if by_client else "ok"


def check_approval(driver: Driver, daemon: Daemon) -> str:
    daemon.control.request("control/mode.set", {"mode": "ALERT", "reason": "matrix"})
    stopped = threading.Event()

    def decide() -> None:
        with Control(home=daemon.home) as control:
            while not stopped.wait(0.1):
                waiting = control.approvals()
                # A person needs a moment. A client that does not wait has its answer by then.
                if waiting and not stopped.wait(1):
                    for request in waiting:
                        control.approve(request["id"])

    deciding = threading.Thread(target=decide)
    deciding.start()
    try:
        arguments = {"path": str(daemon.workspace / "approved.txt"), "content": "one\n"}
        reply, outcome = driver.call("write_file", arguments), "ok"
        deadline = time.monotonic() + 20
        while "call again with the same arguments" in reply["text"] and time.monotonic() < deadline:
            outcome = "when repeated"
            time.sleep(0.5)
            reply = driver.call("write_file", arguments)
        expect(not reply["is_error"], reply)
        expect((daemon.workspace / "approved.txt").exists(), "the file was not written")
    finally:
        stopped.set()
        deciding.join()
        daemon.control.request("control/mode.set", {"mode": "NORMAL", "reason": "matrix"})
    return outcome


def check_progress(driver: Driver, daemon: Daemon) -> str:
    if "progress" in driver.entry.lacks:
        raise NotApplicable
    # The command goes on after its output: version 1 of the TypeScript SDK drops progress that comes together with the result.
    arguments = {"command": ["tail", "-f", "note.txt"], "cwd": str(daemon.workspace), "timeout_seconds": 1}
    reply = driver.call("run_command", arguments, progress=True)
    expect(reply["progress"] > 0, "no progress notification arrived")
    return "ok"


def is_running(word: str) -> bool:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:1] == [b"tail"] and word.encode() in words:
            return True
    return False


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def check_cancel(driver: Driver, daemon: Daemon) -> str:
    name = f"followed-{time.monotonic_ns()}.txt"
    (daemon.workspace / name).write_text("one\n")
    started = daemon.folder / "started"

    def watch() -> None:
        wait_until(lambda: is_running(name), CALL_SECONDS)
        started.touch()

    threading.Thread(target=watch, daemon=True).start()
    arguments = {"command": ["tail", "-f", name], "cwd": str(daemon.workspace)}
    reply = driver.ask("cancel", name="run_command", arguments=arguments, when=str(started))
    expect(reply.get("cancelled"), reply)
    if wait_until(lambda: not is_running(name), 5):
        return "when the client ends" if reply.get("ended") else "ok"
    # A client that sends no cancellation still ends its calls when it ends.
    driver.stop()
    expect(wait_until(lambda: not is_running(name), 5), "the process outlives its client")
    return "when the client ends"


def check_many(driver: Driver, daemon: Daemon) -> str:
    at_once = driver.entry.at_once
    arguments = {"path": str(daemon.workspace / "note.txt")}
    seconds = 120.0 if at_once == MANY else 600.0
    reply = driver.ask("many", name="read_file", arguments=arguments, part="hello", count=MANY, at_once=at_once, seconds=seconds)
    expect(reply.get("good") == MANY, reply)
    batches = "" if at_once == MANY else f", {at_once} at a time"
    return f"{MANY} in {reply['seconds']:.1f} s{batches}"


STEPS: dict[str, Callable[[Driver, Daemon], str]] = {
    "list": check_list,
    "tools": check_tools,
    "refusal and repair": check_repair,
    "approval": check_approval,
    "progress": check_progress,
    "concurrent": check_many,
    # Last, because it may end the client.
    "cancel": check_cancel,
}


def check_client(entry: Entry, packages: Path, binary: str, web: WebServer) -> dict[str, str]:
    daemon = Daemon(binary, web, packages.parent / LINTER)
    make = agents.DRIVERS.get(entry.driver, Driver)
    try:
        driver = make(entry, packages, daemon)
    except Exception:  # noqa: BLE001 - the other clients still run
        daemon.stop()
        print(f"  {entry.name} {entry.version} does not start: {traceback.format_exc()}", flush=True)
        return dict.fromkeys(STEPS, "FAILED")
    cells: dict[str, str] = {}
    try:
        for name, check in STEPS.items():
            try:
                if name in entry.lacks:
                    raise NotApplicable
                cells[name] = check(driver, daemon)
            except NotApplicable:
                cells[name] = "–"
            except Exception as error:  # noqa: BLE001 - the other checks still run
                cells[name] = "FAILED"
                text = str(error) if isinstance(error, CheckFailed) else traceback.format_exc()
                print(f"  {entry.name} {entry.version}: {name}: {text}", flush=True)
    finally:
        driver.stop()
        daemon.stop()
    return cells


def table(rows: dict[Entry, dict[str, str]]) -> str:
    lines = ["| client | version | " + " | ".join(CHECKS) + " |", "|---|---|" + "---|" * len(CHECKS)]
    for entry, cells in rows.items():
        values = " | ".join(cells.get(check, "left out") for check in CHECKS)
        lines.append(f"| {entry.name} | {entry.version} | {values} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sinew", required=True)
    parser.add_argument("--clients", required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--only")
    parser.add_argument("--table", type=Path, help="file to write the table to")
    given = parser.parse_args()
    web = WebServer()
    rows: dict[Entry, dict[str, str]] = {}
    for entry in CLIENTS:
        if given.only and given.only not in f"{entry.folder} {entry.name}":
            continue
        packages = given.clients / entry.folder
        if not (packages / ".installed").exists():
            print(f"LEFT OUT: {entry.name} {entry.version} is not installed", flush=True)
            rows[entry] = {}
            continue
        print(f"{entry.name} {entry.version}", flush=True)
        started = time.monotonic()
        rows[entry] = check_client(entry, packages, given.sinew, web)
        print(f"  {rows[entry]} in {time.monotonic() - started:.1f} s", flush=True)
    text = table(rows)
    print(text)
    if given.table:
        given.table.write_text(text)
    return 1 if any("FAILED" in cells.values() for cells in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
