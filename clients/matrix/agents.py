"""Agents that are driven by a scripted model on the loopback interface.

The agent runs once, unmodified. Its model answers each request with the tool calls of the next check and waits in
between, so that one run makes all checks.
"""

from __future__ import annotations

import http.server
import json
import os
import queue
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

# Hosts that answer a call with the next request to the model have no place to show progress.
LACKS = ("progress",)
PREFIX = "mcp__sinew__"
WAIT_SECONDS = 90.0


class ScriptedModel:
    """Model server. Each request of the conversation waits for the next tool calls."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self.replies: queue.Queue[list[dict[str, Any]] | None] = queue.Queue()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # noqa: N802 - a name of the base class
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
                calls = None
                if api.is_conversation(body):
                    model.requests.put(body)
                    calls = model.replies.get()
                self.reply(api.render(body, calls), api.content_type(body))

            def do_GET(self) -> None:  # noqa: N802 - a name of the base class
                self.reply('{"data": [], "models": []}', "application/json")

            def do_HEAD(self) -> None:  # noqa: N802 - a name of the base class
                self.reply("", "text/plain")

            def reply(self, text: str, kind: str) -> None:
                data = text.encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass

            def log_message(self, *words: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.replies.put(None)
        self.server.shutdown()


class Anthropic:
    """Messages API, as Claude Code uses it."""

    @staticmethod
    def is_conversation(body: dict[str, Any]) -> bool:
        return any(tool.get("name", "").startswith(PREFIX) for tool in body.get("tools", []))

    @staticmethod
    def tools(body: dict[str, Any]) -> list[str]:
        names = [tool.get("name", "") for tool in body.get("tools", [])]
        return [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]

    @staticmethod
    def results(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
        found = {}
        contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
        for block in (block for content in contents for block in content):
            if block.get("type") == "tool_result":
                content = block.get("content", "")
                texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
                found[block["tool_use_id"]] = {"is_error": bool(block.get("is_error")), "text": "\n".join(texts)}
        return found

    @staticmethod
    def content_type(body: dict[str, Any]) -> str:
        return "text/event-stream" if body.get("stream") else "application/json"

    @staticmethod
    def render(body: dict[str, Any], calls: list[dict[str, Any]] | None) -> str:
        message = {
            "id": f"msg_{time.monotonic_ns()}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "scripted"),
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        blocks: list[dict[str, Any]] = [
            {"type": "tool_use", "id": call["id"], "name": PREFIX + call["name"], "input": call["arguments"]}
            for call in calls or []
        ] or [{"type": "text", "text": "done"}]
        reason = "tool_use" if calls else "end_turn"
        if not body.get("stream"):
            return json.dumps({**message, "content": blocks, "stop_reason": reason})
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
        ]
        for index, block in enumerate(blocks):
            is_call = block["type"] == "tool_use"
            empty = {**block, "input": {}} if is_call else {**block, "text": ""}
            delta = (
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                if is_call
                else {"type": "text_delta", "text": block["text"]}
            )
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
        end = {"stop_reason": reason, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}})
        events.append({"type": "message_stop"})
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


class OpenAi:
    """Responses API, as Codex uses it."""

    @staticmethod
    def _named(body: dict[str, Any]) -> dict[str, dict[str, str]]:
        """Functions of the bridge by their plain name, each as a call must name it."""
        found: dict[str, dict[str, str]] = {}
        for tool in body.get("tools", []):
            name = tool.get("name", "")
            if tool.get("type") == "namespace" and name.startswith("mcp__sinew"):
                for inner in tool.get("tools", []):
                    found[inner["name"].removeprefix(PREFIX)] = {"name": inner["name"], "namespace": name}
            elif name.startswith(PREFIX):
                found[name.removeprefix(PREFIX)] = {"name": name}
        return found

    @classmethod
    def is_conversation(cls, body: dict[str, Any]) -> bool:
        return bool(cls._named(body))

    @classmethod
    def tools(cls, body: dict[str, Any]) -> list[str]:
        return list(cls._named(body))

    @staticmethod
    def results(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
        found = {}
        for item in body.get("input", []):
            if item.get("type") == "function_call_output":
                output = item.get("output", "")
                if isinstance(output, list):
                    output = "\n".join(part.get("text", "") for part in output)
                # Codex tells the model of an error in the text only.
                found[item["call_id"]] = {"is_error": None, "text": output}
        return found

    @staticmethod
    def content_type(body: dict[str, Any]) -> str:
        return "text/event-stream"

    @classmethod
    def render(cls, body: dict[str, Any], calls: list[dict[str, Any]] | None) -> str:
        named = cls._named(body)
        items: list[dict[str, Any]] = [
            {
                "type": "function_call",
                "id": f"fc_{call['id']}",
                "call_id": call["id"],
                **named.get(call["name"], {"name": call["name"]}),
                "arguments": json.dumps(call["arguments"]),
            }
            for call in calls or []
        ] or [
            {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "done"}]}
        ]
        identifier = f"resp_{time.monotonic_ns()}"
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        usage.update(input_tokens_details={"cached_tokens": 0}, output_tokens_details={"reasoning_tokens": 0})  # type: ignore[call-overload]
        events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": identifier}}]
        events += [{"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)]
        events.append({"type": "response.completed", "response": {"id": identifier, "usage": usage, "output": items}})
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


class AgentDriver:
    """Agent with a scripted model, with the commands of a driver."""

    def __init__(self, entry: Any, packages: Path, daemon: Any, api: Any) -> None:
        self.entry, self.api = entry, api
        self.model = ScriptedModel(api)
        self.count = 0
        self.log_file = open(daemon.folder / "agent.log", "w+")
        words, variables = self.start_command(packages, daemon)
        environment = {**daemon.environment, **variables}
        self.process = subprocess.Popen(
            words,
            env=environment,
            cwd=daemon.workspace,
            stdin=subprocess.DEVNULL,
            stdout=self.log_file,
            stderr=self.log_file,
            start_new_session=True,
        )
        self.request: dict[str, Any] | None = None

    def start_command(self, packages: Path, daemon: Any) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    def _next_request(self) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                return self.model.requests.get(timeout=0.2)
            except queue.Empty:
                if self.process.poll() is not None:
                    break
        raise RuntimeError(f"the agent does not ask its model: {self.log()}")

    def _conversation(self) -> dict[str, Any]:
        if self.request is None:
            self.request = self._next_request()
        return self.request

    def _exchange(self, calls: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        self._conversation()
        self.model.replies.put(calls)
        self.request = None
        results = self.api.results(self._conversation())
        return {call["id"]: results.get(call["id"], {"is_error": True, "text": "no result"}) for call in calls}

    def _calls(self, name: str, arguments: dict[str, Any], count: int) -> list[dict[str, Any]]:
        self.count += count
        numbers = range(self.count - count, self.count)
        return [{"id": f"toolu_{number:06}", "name": name, "arguments": arguments} for number in numbers]

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        if command == "list":
            return {"tools": self.api.tools(self._conversation())}
        if command == "call":
            (reply,) = self._exchange(self._calls(fields["name"], fields["arguments"], 1)).values()
            return {**reply, "structured": None, "progress": 0}
        if command == "many":
            started = time.monotonic()
            replies = self._exchange(self._calls(fields["name"], fields["arguments"], fields["count"])).values()
            bad = [reply for reply in replies if reply["is_error"] or fields["part"] not in reply["text"]]
            first = bad[0]["text"][:300] if bad else None
            return {"good": len(replies) - len(bad), "first_bad": first, "seconds": time.monotonic() - started}
        if command == "cancel":
            self._conversation()
            self.model.replies.put(self._calls(fields["name"], fields["arguments"], 1))
            while not os.path.exists(fields["when"]):
                time.sleep(0.02)
            self.process.terminate()
            self.process.wait(timeout=20)
            return {"cancelled": True, "ended": True}
        raise ValueError(command)

    def call(self, name: str, arguments: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return self.ask("call", name=name, arguments=arguments, **fields)

    def log(self) -> str:
        self.log_file.seek(0)
        return self.log_file.read()[-800:]

    def stop(self) -> None:
        self.model.stop()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()


class ClaudeCode(AgentDriver):
    def __init__(self, entry: Any, packages: Path, daemon: Any) -> None:
        super().__init__(entry, packages, daemon, Anthropic)

    def start_command(self, packages: Path, daemon: Any) -> tuple[list[str], dict[str, str]]:
        servers = {"sinew": {"command": daemon.binary, "args": ["mcp"], "env": daemon.environment}}
        config = daemon.folder / "mcp.json"
        config.write_text(json.dumps({"mcpServers": servers}))
        words = [str(packages / "node_modules/.bin/claude"), "-p", "Make the checks."]
        words += ["--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", "mcp__sinew", "--tools", ""]
        variables = {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CONFIG_DIR": str(daemon.folder / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
        }
        return words, variables


class Codex(AgentDriver):
    def __init__(self, entry: Any, packages: Path, daemon: Any) -> None:
        super().__init__(entry, packages, daemon, OpenAi)

    def start_command(self, packages: Path, daemon: Any) -> tuple[list[str], dict[str, str]]:
        home = daemon.folder / "codex"
        home.mkdir()
        lines = [
            'model = "scripted"',
            'model_provider = "scripted"',
            'approval_policy = "never"',
            "[model_providers.scripted]",
            'name = "scripted"',
            f'base_url = "{self.model.url}/v1"',
            'wire_api = "responses"',
            'env_key = "SCRIPTED_KEY"',
            "[mcp_servers.sinew]",
            f'command = "{daemon.binary}"',
            'args = ["mcp"]',
            "startup_timeout_sec = 60",
            "tool_timeout_sec = 60",
            "[mcp_servers.sinew.env]",
            *(f"{name} = {json.dumps(value)}" for name, value in daemon.environment.items()),
        ]
        (home / "config.toml").write_text("\n".join(lines) + "\n")
        words = [str(packages / "node_modules/.bin/codex"), "exec", "--skip-git-repo-check"]
        words += ["--dangerously-bypass-approvals-and-sandbox", "Make the checks."]
        return words, {"CODEX_HOME": str(home), "SCRIPTED_KEY": "scripted"}


DRIVERS = {"claude_code": ClaudeCode, "codex": Codex}
