"""Commands of a driver, one JSON object per line on standard input, one reply per line on standard output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any, Awaitable, Callable, Protocol


class Client(Protocol):
    async def list(self) -> list[str]: ...

    async def call(self, name: str, arguments: dict[str, Any], on_progress: Callable[[], None] | None) -> dict[str, Any]: ...


def bridge() -> dict[str, Any]:
    """Command, arguments and environment of the bridge."""
    environment = {name: os.environ[name] for name in ("HOME", "PATH", "SINEW_HOME") if name in os.environ}
    return {"command": os.environ["SINEW"], "args": ["mcp"], "env": environment}


def result(is_error: bool, content: Any, structured: Any) -> dict[str, Any]:
    texts = [getattr(block, "text", "") for block in content or []]
    return {"is_error": bool(is_error), "text": "\n".join(texts), "structured": structured}


async def answer(client: Client, request: dict[str, Any]) -> dict[str, Any]:
    match request["command"]:
        case "list":
            return {"tools": await client.list()}
        case "call":
            steps: list[int] = []
            on_progress = (lambda: steps.append(1)) if request.get("progress") else None
            reply = await client.call(request["name"], request["arguments"], on_progress)
            return {**reply, "progress": len(steps)}
        case "cancel":
            task = asyncio.ensure_future(client.call(request["name"], request["arguments"], None))
            while not os.path.exists(request["when"]):
                await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return {"cancelled": True}
        case "many":
            started = time.monotonic()
            calls = [client.call(request["name"], request["arguments"], None) for _ in range(request["count"])]
            replies = await asyncio.gather(*calls, return_exceptions=True)
            good = [reply for reply in replies if isinstance(reply, dict) and not reply["is_error"]]
            bad = [reply for reply in replies if reply not in good]
            return {"good": len(good), "first_bad": repr(bad[0])[:300] if bad else None, "seconds": time.monotonic() - started}
    raise ValueError(request["command"])


async def serve(client: Client) -> None:
    """Answers commands until standard input ends."""
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        request = json.loads(line)
        try:
            reply = await asyncio.wait_for(answer(client, request), timeout=request.get("seconds", 60))
        except Exception as error:  # noqa: BLE001 - every error is a reply
            reply = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(reply), flush=True)


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(main())  # type: ignore[arg-type]
