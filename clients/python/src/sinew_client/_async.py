"""Client for asyncio."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Any, AsyncIterator, Generator, Mapping, Sequence, cast

from . import _adapters, _types
from ._calls import AsyncCalls
from ._errors import ApprovalPending, ConnectionLost, check_result
from ._home import run_directory
from ._link import Link, socket_path
from ._options import CallOptions


class AsyncSinew(AsyncCalls):
    """Connection to the agent socket.

    It connects on the first request, and again after the daemon restarted. Options of a single call are set
    with `with_options`, which returns a client that shares the connection. The operator and the ledger see
    `name`; programs with different names have idempotency keys of their own.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        home: str | os.PathLike[str] | None = None,
        connect_timeout: float = 5.0,
        reconnect_timeout: float = 20.0,
        name: str | None = None,
        options: CallOptions | None = None,
        **changes: Any,
    ) -> None:
        path = socket_path(socket, run_directory(home) / "agent.sock")
        self._link = Link(path, connect_timeout, reconnect_timeout, name)
        self._timeouts = (connect_timeout, reconnect_timeout)
        self.options = (options or CallOptions()).replace(changes)

    @property
    def socket(self) -> str:
        """Path of the socket."""
        return self._link.path

    async def __aenter__(self) -> AsyncSinew:
        await self._link.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Calls that are not detached end."""
        await self._link.close()

    def with_options(self, **changes: Any) -> AsyncSinew:
        """Returns a client with changed options (fields of `CallOptions`) on the same connection."""
        copy = object.__new__(AsyncSinew)
        copy._link, copy._timeouts = self._link, self._timeouts
        copy.options = self.options.replace(changes)
        return copy

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Sends a request of any method and returns its result."""
        return await self._link.request(method, params or {})

    async def execute(self, tool: str, arguments: Mapping[str, Any] | None = None) -> _types.ExecuteResult:
        """Calls a tool and returns the whole result, also of a refused or failed call."""
        options = self.options
        params = options.params(tool, arguments or {})
        result = await self._execute(params)
        refusal = result["metadata"].get("refusal")
        repair = refusal.get("repair") if refusal is not None else None
        if options.auto_repair and repair is not None:
            params["arguments"] = repair["arguments"]
            result = await self._execute(params)
        return result

    async def _execute(self, params: Mapping[str, Any]) -> _types.ExecuteResult:
        # Only a call with a key may be sent twice: without one it could run twice.
        resend = "idempotency_key" in params
        result = await self._link.request("sinew/execute", params, self.options.on_progress, resend)
        return cast(_types.ExecuteResult, result)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return check_result(await self.execute(tool, arguments))

    async def request_approval(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **fields: Any) -> AsyncApproval:
        """Starts a call that may need approval and does not wait for it. Await the result to get the output."""
        given = {**(arguments or {}), **fields}
        try:
            output = await self.with_options(approval="async")._call(tool, given)
        except ApprovalPending as pending:
            return AsyncApproval(self, tool, given, pending, None)
        return AsyncApproval(self, tool, given, None, output)

    async def explain(self, tool: str, arguments: Mapping[str, Any] | None = None, *, mode: str | None = None) -> _types.ExplainResult:
        """Explains how a call would be decided. Nothing runs."""
        params: dict[str, Any] = {"tool_name": tool, "arguments": dict(arguments or {})}
        if mode is not None:
            params["mode"] = mode
        if self.options.cwd is not None:
            params["cwd"] = self.options.cwd
        return cast(_types.ExplainResult, await self.request("sinew/explain", params))

    async def tools(self, format: str = "native", *, category: str | None = None, mode: str | None = None) -> list[dict[str, Any]]:
        """Lists the definitions of the tools as `native`, `mcp`, `openai` or `anthropic`."""
        params: dict[str, Any] = {"format": format}
        params.update({key: value for key, value in (("category", category), ("mode", mode)) if value is not None})
        listed: list[dict[str, Any]] = (await self.request("sinew/tools", params))["tools"]
        return listed

    async def status(self) -> _types.StatusResult:
        """Returns the status of the daemon."""
        return cast(_types.StatusResult, await self.request("sinew/status"))

    async def session(
        self,
        allowlist: Sequence[str],
        *,
        name: str | None = None,
        hop_budget: int | None = None,
        cost_cap: Mapping[str, Any] | None = None,
    ) -> AsyncSession:
        """Opens a worker session: a client that may only call these tools, within these budgets."""
        params: dict[str, Any] = {"allowlist": list(allowlist)}
        given = {"name": name, "hop_budget": hop_budget, "cost_cap": cost_cap}
        params.update({key: value for key, value in given.items() if value is not None})
        opened = cast(_types.SessionOpenResult, await self.request("sinew/session.open", params))
        return AsyncSession(self, opened)

    async def as_pydantic_ai_toolset(self, *, category: str | None = None) -> Any:
        """Returns a toolset for `Agent(toolsets=[…])` of pydantic-ai."""
        return _adapters.pydantic_ai_toolset(await self._definitions(category), self._for_models().execute)

    async def as_langchain_tools(self, *, category: str | None = None) -> list[Any]:
        """Returns tools for LangChain and LangGraph."""
        return _adapters.langchain_tools(await self._definitions(category), self._for_models().execute, None)

    async def as_openai_agents_tools(self, *, category: str | None = None) -> list[Any]:
        """Returns tools for `Agent(tools=[…])` of openai-agents."""
        return _adapters.openai_agents_tools(await self._definitions(category), self._for_models().execute)

    def _for_models(self) -> AsyncSinew:
        return self.with_options(model_content=True)

    async def _definitions(self, category: str | None) -> list[_adapters.Definition]:
        listed = await self.tools("openai", category=category)
        return [_adapters.Definition.from_openai(tool) for tool in listed]


class AsyncSession(AsyncSinew):
    """Client of a worker session. Give `socket` to a worker in another process."""

    def __init__(self, opener: AsyncSinew, opened: _types.SessionOpenResult) -> None:
        connect, reconnect = opener._timeouts
        super().__init__(
            opened["socket"],
            connect_timeout=connect,
            reconnect_timeout=reconnect,
            name=opener._link.name,
            options=opener.options,
        )
        self._opener = opener
        self.opened = opened
        self.session_id = opened["session_id"]

    async def __aenter__(self) -> AsyncSession:
        await self._link.connect()
        return self

    async def turn(self) -> _types.SessionTurnResult:
        """Starts the next turn and resets its budgets."""
        result = await self._opener.request("sinew/session.turn", {"session_id": self.session_id})
        return cast(_types.SessionTurnResult, result)

    async def spend(self, cost: float) -> _types.SessionSpendResult:
        """Adds external cost, such as model usage, to the turn."""
        params = {"session_id": self.session_id, "cost": cost}
        return cast(_types.SessionSpendResult, await self._opener.request("sinew/session.spend", params))

    async def close(self) -> None:
        """Closes the session with its socket and its running calls."""
        await super().close()
        await self._opener.request("sinew/session.close", {"session_id": self.session_id})


class AsyncApproval:
    """Call that may wait for the operator. Await it for the output; it raises `Refused` after a denial."""

    def __init__(
        self, client: AsyncSinew, tool: str, arguments: dict[str, Any], pending: ApprovalPending | None, output: Any
    ) -> None:
        self._client, self._tool, self._arguments = client, tool, arguments
        self._pending, self._output = pending, output

    @property
    def id(self) -> str | None:
        """Id for `sinew approve`, or nothing if the call needed no approval."""
        return self._pending.approval_id if self._pending else None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        if self._pending is None:
            return self._output
        waiting = self._client.with_options(approval="wait", approval_id=self._pending.approval_id)
        return await waiting._call(self._tool, self._arguments)


class AsyncControl:
    """Connection to the control socket, for the operator's own programs. Never give it to an agent."""

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        home: str | os.PathLike[str] | None = None,
        connect_timeout: float = 5.0,
    ) -> None:
        self._path = socket_path(socket, run_directory(home) / "control.sock")
        self._connect_timeout = connect_timeout
        self._link = Link(self._path, connect_timeout, connect_timeout)

    async def __aenter__(self) -> AsyncControl:
        await self._link.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._link.close()

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Sends a request of any method and returns its result."""
        return await self._link.request(method, params or {})

    async def status(self) -> _types.ControlStatusResult:
        """Returns the status of the daemon."""
        return cast(_types.ControlStatusResult, await self.request("control/status"))

    async def approvals(self) -> list[_types.ApprovalSummary]:
        """Lists the pending approval requests."""
        return cast(_types.ControlApprovalsListResult, await self.request("control/approvals.list"))["approvals"]

    async def approve(self, id: str, *, pin: str | None = None) -> _types.ControlApprovalsDecideResult:
        """Permits exactly this call, once."""
        return await self._decide({"id": id, "answer": "approve"}, pin)

    async def deny(self, id: str, *, message: str | None = None) -> _types.ControlApprovalsDecideResult:
        """Refuses the call, with a reason for the model."""
        params = {"id": id, "answer": "deny"}
        return await self._decide(params if message is None else {**params, "message": message}, None)

    async def _decide(self, params: dict[str, str], pin: str | None) -> _types.ControlApprovalsDecideResult:
        given = params if pin is None else {**params, "pin": pin}
        return cast(_types.ControlApprovalsDecideResult, await self.request("control/approvals.decide", given))

    async def calls(self) -> list[_types.RunningCall]:
        """Lists the calls that have not ended."""
        return cast(_types.ControlCallsListResult, await self.request("control/calls.list"))["calls"]

    async def follow(self, method: str, params: Mapping[str, Any] | None = None) -> AsyncIterator[tuple[str, Any]]:
        """Yields the notifications of `control/events` or `control/approvals.watch`, on a connection of their own."""
        link = Link(self._path, self._connect_timeout, self._connect_timeout)
        received: asyncio.Queue[tuple[str, Any] | None] = asyncio.Queue()
        link.on_notification = lambda name, params: received.put_nowait((name, params))
        link.on_lost = lambda: received.put_nowait(None)
        try:
            await link.request(method, params or {})
            while (notification := await received.get()) is not None:
                yield notification
            raise ConnectionLost("the daemon closed the connection")
        finally:
            await link.close()



