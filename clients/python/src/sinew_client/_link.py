"""One connection to a socket of the daemon: requests, notifications, cancellation and reconnection."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import os
from typing import Any, Callable, Mapping

from ._errors import ConnectionLost, DaemonUnavailable, ProtocolError
from ._home import check_peer
from ._options import Progress, ProgressCallback

# A reply may be longer than the 64 KiB that asyncio reads by default.
MAX_LINE_BYTES = 64 * 1024 * 1024
# The daemon refuses more open requests on one connection.
MAX_OPEN_REQUESTS = 64
RETRY_SECONDS = 0.05
# Revision of the MCP handshake by which a client states its name.
REVISION = "2025-11-25"

NotificationCallback = Callable[[str, Any], None]


class Link:
    """Connection that is opened on the first request, and again after it was lost."""

    def __init__(self, path: str, connect_timeout: float, reconnect_timeout: float, name: str | None = None) -> None:
        self.path = path
        self.name = name
        self._connect_timeout = connect_timeout
        self._reconnect_timeout = reconnect_timeout
        self._ids = itertools.count(1)
        self._open = asyncio.Semaphore(MAX_OPEN_REQUESTS)
        self._connecting = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._progress: dict[int, asyncio.Queue[Progress | None]] = {}
        self._closed = False
        self.on_notification: NotificationCallback | None = None
        self.on_lost: Callable[[], None] | None = None

    async def connect(self, timeout: float | None = None) -> None:
        """Connects unless connected. Waits for a daemon that is starting."""
        async with self._connecting:
            if self._closed:
                raise ConnectionLost("the client is closed")
            if self._writer is not None:
                return
            limit = self._connect_timeout if timeout is None else timeout
            deadline = asyncio.get_running_loop().time() + limit
            while True:
                try:
                    return await self._dial()
                except (OSError, ConnectionLost) as error:
                    if asyncio.get_running_loop().time() >= deadline:
                        reason = (error.strerror if isinstance(error, OSError) else None) or error
                        raise DaemonUnavailable(
                            f"no daemon answers on `{self.path}`: {reason}; start one with `sinew serve`"
                        ) from error
                    await asyncio.sleep(RETRY_SECONDS)

    async def _dial(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self.path, limit=MAX_LINE_BYTES)
        try:
            check_peer(writer.get_extra_info("socket"), self.path)
        except BaseException:
            writer.close()
            raise
        self._writer = writer
        self._reader_task = asyncio.get_running_loop().create_task(self._read(reader, writer))
        if self.name is None:
            return
        client = {"name": self.name, "version": REVISION}
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        try:
            await self._request_once("initialize", params, None)
        except BaseException:
            # A connection without the name must not be used.
            self._writer = None
            writer.close()
            raise
        self._send_soon("notifications/initialized", {})

    async def close(self) -> None:
        """Closes the connection. Calls that are not detached end."""
        self._closed = True
        task, writer = self._reader_task, self._writer
        self._drop(ConnectionLost("the client was closed"))
        if writer is not None:
            writer.close()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        on_progress: ProgressCallback | None = None,
        resend: bool = False,
    ) -> Any:
        """Sends a request and returns its result. With `resend`, a lost connection repeats it."""
        async with self._open:
            timeout: float | None = None
            while True:
                await self.connect(timeout)
                try:
                    return await self._request_once(method, dict(params), on_progress)
                except ConnectionLost:
                    if not resend or self._closed:
                        raise
                    timeout = self._reconnect_timeout

    async def _request_once(self, method: str, params: dict[str, Any], on_progress: ProgressCallback | None) -> Any:
        number = next(self._ids)
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        listener = self._listen(number, on_progress) if on_progress is not None else None
        if listener is not None:
            params["progress_token"] = number
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            result = await reply
        except asyncio.CancelledError:
            self._send_soon("notifications/cancelled", {"requestId": number})
            if listener is not None:
                listener.cancel()
            raise
        finally:
            self._replies.pop(number, None)
            queue = self._progress.pop(number, None)
            if queue is not None:
                queue.put_nowait(None)
        if listener is not None:
            # Every notification precedes the result, so the callback has seen all of them when the call returns.
            await listener
        return result

    def _listen(self, number: int, callback: ProgressCallback) -> asyncio.Task[None]:
        queue: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._progress[number] = queue

        async def deliver() -> None:
            while (progress := await queue.get()) is not None:
                try:
                    outcome = callback(progress)
                    if inspect.isawaitable(outcome):
                        await outcome
                except Exception as error:
                    # A callback that raises ends its own call with that error, also one that would run on.
                    reply = self._replies.get(number)
                    if reply is None or reply.done():
                        raise
                    self._send_soon("notifications/cancelled", {"requestId": number})
                    reply.set_exception(error)
                    return

        return asyncio.get_running_loop().create_task(deliver())

    async def _send(self, message: Mapping[str, Any]) -> None:
        writer = self._writer
        if writer is None:
            raise ConnectionLost("the connection was lost before the request was sent")
        writer.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        try:
            await writer.drain()
        except OSError as error:
            self._drop(ConnectionLost(f"the connection was lost: {error}"))
            raise ConnectionLost(f"the connection was lost: {error}") from error

    def _send_soon(self, method: str, params: Mapping[str, Any]) -> None:
        if self._writer is not None:
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lost: Exception = ConnectionLost("the daemon closed the connection before it replied")
        try:
            while line := await reader.readline():
                if not line.endswith(b"\n"):
                    break
                self._dispatch(json.loads(line))
        except (OSError, ValueError) as error:
            lost = ConnectionLost(f"the connection was lost: {error}")
        finally:
            writer.close()
            if self._writer is writer:
                self._drop(lost)

    def _dispatch(self, message: dict[str, Any]) -> None:
        if "method" in message:
            params = message.get("params") or {}
            queue = self._progress.get(params.get("progressToken", 0))
            if message["method"] == "notifications/progress" and queue is not None:
                queue.put_nowait(Progress.from_params(params))
            elif self.on_notification is not None:
                self.on_notification(message["method"], params)
            return
        number, error = message.get("id"), message.get("error")
        if error is not None:
            failure = ProtocolError(error.get("code", 0), error.get("message", ""), error.get("data"))
            # An error without an id concerns the whole connection.
            waiting = self._replies.values() if number is None else [self._replies.get(number)]
            for reply in list(waiting):
                if reply is not None and not reply.done():
                    reply.set_exception(failure)
            return
        reply = self._replies.get(number) if isinstance(number, int) else None
        if reply is not None and not reply.done():
            reply.set_result(message.get("result"))

    def _drop(self, reason: Exception) -> None:
        self._writer = None
        for reply in list(self._replies.values()):
            if not reply.done():
                reply.set_exception(reason)
        if self.on_lost is not None:
            self.on_lost()


def socket_path(given: str | os.PathLike[str] | None, default: os.PathLike[str]) -> str:
    """Path of a socket, as text."""
    return os.fspath(default if given is None else given)
