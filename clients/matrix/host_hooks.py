"""Hooks in real hosts: `sinew hook install` in each, with a scripted model on the loopback interface.

The model calls tools of the host. A call that Sinew denies must not run, and neither must one whose hook cannot be
started.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import agents

WAIT_SECONDS = 90.0
PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini-cli": "gemini"}
# Names programs that an agent starts: no policy lets a tool write it.
PROTECTED_FILE = ".mcp.json"


class ClaudeShell(agents.Anthropic):
    """Messages API whose calls use the tools of Claude Code."""

    @staticmethod
    def is_conversation(body: dict[str, Any]) -> bool:
        return any(tool.get("name") == "Bash" for tool in body.get("tools", []))

    @staticmethod
    def render(body: dict[str, Any], calls: list[dict[str, Any]] | None) -> str:
        return agents.Anthropic.render(body, calls).replace(agents.PREFIX, "")

    @staticmethod
    def reading_call(identifier: str) -> dict[str, Any]:
        return {"id": identifier, "name": "Bash", "arguments": {"command": "cat notes.txt", "description": "check"}}

    @staticmethod
    def writing_call(identifier: str) -> dict[str, Any]:
        return {"id": identifier, "name": "Bash", "arguments": {"command": "touch made.txt", "description": "check"}}


class CodexShell(agents.OpenAi):
    """Responses API whose calls use the tools of Codex."""

    @classmethod
    def is_conversation(cls, body: dict[str, Any]) -> bool:
        return any(tool.get("name") == "exec_command" for tool in body.get("tools", []))

    @staticmethod
    def reading_call(identifier: str) -> dict[str, Any]:
        return {"id": identifier, "name": "exec_command", "arguments": {"cmd": "cat notes.txt"}}

    @staticmethod
    def writing_call(identifier: str) -> dict[str, Any]:
        return {"id": identifier, "name": "exec_command", "arguments": {"cmd": "touch made.txt"}}


class GeminiTools:
    """API of Gemini, as Gemini CLI uses it. Its calls have no ids of ours, so the last response counts."""

    last = ""

    @staticmethod
    def is_conversation(body: dict[str, Any]) -> bool:
        return bool(body.get("tools"))

    @staticmethod
    def content_type(body: dict[str, Any]) -> str:
        return "text/event-stream" if body.get("tools") else "application/json"

    @classmethod
    def results(cls, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
        parts = [part for part in body["contents"][-1]["parts"] if "functionResponse" in part]
        text = "\n".join(json.dumps(part["functionResponse"]["response"]) for part in parts)
        return {cls.last: {"is_error": None, "text": text}} if parts else {}

    @classmethod
    def render(cls, body: dict[str, Any], calls: list[dict[str, Any]] | None) -> str:
        named = [{"functionCall": {"name": call["name"], "args": call["arguments"]}} for call in calls or []]
        cls.last = calls[-1]["id"] if calls else ""
        content = {"role": "model", "parts": named or [{"text": "done"}]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        reply = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}
        return f"data: {json.dumps(reply)}\n\n" if body.get("tools") else json.dumps(reply)

    @staticmethod
    def reading_call(identifier: str) -> dict[str, Any]:
        return {"id": identifier, "name": "read_file", "arguments": {"file_path": "notes.txt"}}

    @staticmethod
    def writing_call(identifier: str) -> dict[str, Any]:
        arguments = {"file_path": PROTECTED_FILE, "content": "echo from a model"}
        return {"id": identifier, "name": "write_file", "arguments": arguments}


APIS: dict[str, Any] = {"claude-code": ClaudeShell, "codex": CodexShell, "gemini-cli": GeminiTools}


class Host:
    """Host with the hook in its settings, in a home of its own."""

    def __init__(self, name: str, sinew: Path, packages: Path) -> None:
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="sinew-hooks-"))
        self.workspace = self.folder / "work"
        self.workspace.mkdir()
        (self.workspace / "notes.txt").write_text("hello from notes\n")
        # The hook of a later check is taken away, so it is a copy.
        self.binary = self.folder / "sinew"
        shutil.copy2(sinew, self.binary)
        self.program = packages / name / "node_modules/.bin" / PROGRAMS[name]
        self.api = APIS[name]
        self.model = agents.ScriptedModel(self.api)
        self.environment = {
            **{key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "TMPDIR")},
            "HOME": str(self.folder),
            "SINEW_HOME": str(self.folder / "sinew-home"),
            "CODEX_HOME": str(self.folder / "codex"),
            "CLAUDE_CONFIG_DIR": str(self.folder / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "scripted",
            "SCRIPTED_KEY": "scripted",
            "GOOGLE_GEMINI_BASE_URL": self.model.url,
            "GEMINI_API_KEY": "scripted",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
        self.sinew("init")
        self.sinew("workspace", "add", ".")
        self.sinew("hook", "install", name)
        self.write_settings()

    def sinew(self, *words: str) -> str:
        command = [str(self.binary), *words]
        run = subprocess.run(command, env=self.environment, cwd=self.workspace, capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {run.stderr}")
        return run.stdout

    def write_settings(self) -> None:
        if self.name == "codex":
            lines = ['model = "scripted"', 'model_provider = "scripted"', 'approval_policy = "never"']
            lines += ["[model_providers.scripted]", 'name = "scripted"', f'base_url = "{self.model.url}/v1"']
            lines += ['wire_api = "responses"', 'env_key = "SCRIPTED_KEY"']
            (self.folder / "codex/config.toml").write_text("\n".join(lines) + "\n")
        if self.name == "gemini-cli":
            file = self.folder / ".gemini/settings.json"
            settings = json.loads(file.read_text())
            file.write_text(json.dumps({**settings, "security": {"auth": {"selectedType": "gemini-api-key"}}}))

    def words(self) -> list[str]:
        if self.name == "codex":
            flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
            # A user trusts the hook once; this run has no user.
            return [str(self.program), "exec", *flags, "--dangerously-bypass-hook-trust", "Make the checks."]
        if self.name == "gemini-cli":
            return [str(self.program), "-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", "Make the checks."]
        return [str(self.program), "-p", "Make the checks.", "--tools", "Bash"]

    def run_calls(self, calls: list[Any]) -> list[str]:
        """Returns what the model is told about each call."""
        with open(self.folder / "host.log", "w+") as log:
            process = subprocess.Popen(
                self.words(),
                env=self.environment,
                cwd=self.workspace,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return [self.run_call(number, call) for number, call in enumerate(calls)]
            except queue.Empty:
                log.seek(0)
                raise RuntimeError(f"{self.name} does not ask its model: {log.read()[-800:]}") from None
            finally:
                # The last request of the host waits for a reply.
                self.model.replies.put(None)
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()

    def run_call(self, number: int, call: Any) -> str:
        if number == 0:
            self.model.requests.get(timeout=WAIT_SECONDS)
        identifier = f"toolu_{threading.get_ident()}_{number}"
        self.model.replies.put([call(identifier)])
        body = self.model.requests.get(timeout=WAIT_SECONDS)
        reply = self.api.results(body).get(identifier)
        if reply is None:
            raise RuntimeError(f"{self.name} has no result of call {number}")
        return str(reply["text"])


def check(name: str, sinew: Path, packages: Path) -> None:
    """Raises `AssertionError` if a check fails."""
    host = Host(name, sinew, packages)
    made = host.workspace / (PROTECTED_FILE if name == "gemini-cli" else "made.txt")
    read, wrote = host.run_calls([host.api.reading_call, host.api.writing_call])
    if name == "codex":
        # It cannot ask its user for a hook, so every shell command is denied.
        assert "hosts/codex.yaml:" in read, f"the reason does not reach the model: {read}"
    else:
        assert "hello from notes" in read, f"the reading call was not permitted: {read}"
    assert not made.exists(), f"the writing call was run: {wrote}"
    assert "Sinew" in wrote, f"the reason does not reach the model: {wrote}"
    host.binary.rename(host.folder / "sinew-gone")
    (told,) = host.run_calls([host.api.writing_call])
    assert not made.exists(), f"the writing call was run without the hook: {told}"
    shutil.rmtree(host.folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sinew", type=Path, required=True)
    parser.add_argument("--clients", type=Path, required=True)
    parser.add_argument("--only", help="check only hosts whose name contains this text")
    options = parser.parse_args()
    failed = 0
    for name in (name for name in PROGRAMS if (options.only or "").lower().replace(" ", "-") in name):
        if not (options.clients / name / "node_modules/.bin" / PROGRAMS[name]).exists():
            print(f"hook of {name}: LEFT OUT, because the host is not installed")
            continue
        try:
            check(name, options.sinew.resolve(), options.clients.resolve())
            print(f"hook of {name}: ok")
        except (AssertionError, RuntimeError) as error:
            failed += 1
            print(f"hook of {name}: FAILED: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
