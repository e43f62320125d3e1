"""Blocking client: the asyncio client, run by an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from types import TracebackType
from typing import Any, Callable, Coroutine, Iterator, Mapping, Sequence, TypeVar

from . import _adapters, _types
from ._async import AsyncApproval, AsyncControl, AsyncSession, AsyncSinew
from ._calls import SyncCalls
from ._errors import CallCancelled
from ._options import CallOptions

T = TypeVar("T")


class _LoopThread:
    """Event loop that runs until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sinew-client", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C in the calling thread must not leave the call running.
            future.cancel()
            raise

    def make(self, create: Callable[[], T]) -> T:
        """Creates an object in the loop, which the locks of Python 3.10 to 3.12 need."""

        async def work() -> T:
            return create()

        return self.run(work())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()


class PendingCall:
    """Call that runs in the background."""

    def __init__(self, future: concurrent.futures.Future[Any], idempotency_key: str | None) -> None:
        self._future = future
        self.idempotency_key = idempotency_key
        """Key by which another client gets the outcome, if the call has one."""

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the output. Raises like `call`, or `TimeoutError`."""
        try:
            return self._future.result(timeout)
        except concurrent.futures.CancelledError:
            raise CallCancelled("the call was cancelled") from None
        except concurrent.futures.TimeoutError:
            raise TimeoutError("the call has not ended") from None

    def done(self) -> bool:
        """Returns true if the call has ended."""
        return self._future.done()

    def cancel(self) -> None:
        """Cancels the call: the daemon ends its processes."""
        self._future.cancel()


class Sinew(SyncCalls):
    """Blocking connection to the agent socket, for use from any thread.

    Options of a single call are set with `with_options`, which returns a client that shares the connection. The
    operator and the ledger see `name`; programs with different names have idempotency keys of their own.
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
        self._loop = _LoopThread()
        self._owns_loop = True
        self._client: AsyncSinew = self._loop.make(
            lambda: AsyncSinew(
                socket,
                home=home,
                connect_timeout=connect_timeout,
                reconnect_timeout=reconnect_timeout,
                name=name,
                options=options,
                **changes,
            )
        )

    @property
    def socket(self) -> str:
        """Path of the socket."""
        return self._client.socket

    @property
    def options(self) -> CallOptions:
        """Options that apply to every call."""
        return self._client.options

    def __enter__(self) -> Sinew:
        try:
            self._loop.run(self._client.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Calls that are not detached end."""
        try:
            self._loop.run(self._client.close())
        finally:
            if self._owns_loop:
                self._loop.close()

    def with_options(self, **changes: Any) -> Sinew:
        """Returns a client with changed options (fields of `CallOptions`) on the same connection."""
        copy = object.__new__(Sinew)
        copy._loop, copy._owns_loop = self._loop, False
        copy._client = self._client.with_options(**changes)
        return copy

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Sends a request of any method and returns its result."""
        return self._loop.run(self._client.request(method, params))

    def execute(self, tool: str, arguments: Mapping[str, Any] | None = None) -> _types.ExecuteResult:
        """Calls a tool and returns the whole result, also of a refused or failed call."""
        return self._loop.run(self._client.execute(tool, arguments))

    def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return self._loop.run(self._client._call(tool, arguments))

    def start(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **fields: Any) -> PendingCall:
        """Starts a call in the background."""
        key = self.options.with_key().idempotency_key
        client = self._client.with_options(idempotency_key=key)
        return PendingCall(self._loop.start(client._call(tool, {**(arguments or {}), **fields})), key)

    def request_approval(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **fields: Any) -> Approval:
        """Starts a call that may need approval and does not wait for it."""
        return Approval(self._loop, self._loop.run(self._client.request_approval(tool, arguments, **fields)))

    def explain(self, tool: str, arguments: Mapping[str, Any] | None = None, *, mode: str | None = None) -> _types.ExplainResult:
        """Explains how a call would be decided. Nothing runs."""
        return self._loop.run(self._client.explain(tool, arguments, mode=mode))

    def tools(self, format: str = "native", *, category: str | None = None, mode: str | None = None) -> list[dict[str, Any]]:
        """Lists the definitions of the tools as `native`, `mcp`, `openai` or `anthropic`."""
        return self._loop.run(self._client.tools(format, category=category, mode=mode))

    def status(self) -> _types.StatusResult:
        """Returns the status of the daemon."""
        return self._loop.run(self._client.status())

    def session(
        self,
        allowlist: Sequence[str],
        *,
        name: str | None = None,
        hop_budget: int | None = None,
        cost_cap: Mapping[str, Any] | None = None,
    ) -> Session:
        """Opens a worker session: a client that may only call these tools, within these budgets."""
        opening = self._client.session(allowlist, name=name, hop_budget=hop_budget, cost_cap=cost_cap)
        return Session(self._loop, self._loop.run(opening))

    def as_pydantic_ai_toolset(self, *, category: str | None = None) -> Any:
        """Returns a toolset for `Agent(toolsets=[…])` of pydantic-ai."""
        return _adapters.pydantic_ai_toolset(self._definitions(category), self._for_models()._execute_elsewhere)

    def as_langchain_tools(self, *, category: str | None = None) -> list[Any]:
        """Returns tools for LangChain and LangGraph, for blocking and asyncio use."""
        client = self._for_models()
        return _adapters.langchain_tools(self._definitions(category), client._execute_elsewhere, client.execute)

    def as_openai_agents_tools(self, *, category: str | None = None) -> list[Any]:
        """Returns tools for `Agent(tools=[…])` of openai-agents."""
        return _adapters.openai_agents_tools(self._definitions(category), self._for_models()._execute_elsewhere)

    def _for_models(self) -> Sinew:
        return self.with_options(model_content=True)

    def _definitions(self, category: str | None) -> list[_adapters.Definition]:
        return self._loop.run(self._client._definitions(category))

    async def _execute_elsewhere(self, tool: str, arguments: dict[str, Any]) -> _types.ExecuteResult:
        """Like `execute`, awaited in the event loop of the caller."""
        return await asyncio.wrap_future(self._loop.start(self._client.execute(tool, arguments)))


class Session(Sinew):
    """Blocking client of a worker session. Give `socket` to a worker in another process."""

    def __init__(self, loop: _LoopThread, session: AsyncSession) -> None:
        self._loop, self._owns_loop = loop, False
        self._client = self._session = session

    def __enter__(self) -> Session:
        self._loop.run(self._session.__aenter__())
        return self

    @property
    def opened(self) -> _types.SessionOpenResult:
        """Reply to the request that opened the session."""
        return self._session.opened

    @property
    def session_id(self) -> str:
        return self._session.session_id

    def turn(self) -> _types.SessionTurnResult:
        """Starts the next turn and resets its budgets."""
        return self._loop.run(self._session.turn())

    def spend(self, cost: float) -> _types.SessionSpendResult:
        """Adds external cost, such as model usage, to the turn."""
        return self._loop.run(self._session.spend(cost))


class Approval:
    """Call that may wait for the operator."""

    def __init__(self, loop: _LoopThread, approval: AsyncApproval) -> None:
        self._loop, self._approval = loop, approval

    @property
    def id(self) -> str | None:
        """Id for `sinew approve`, or nothing if the call needed no approval."""
        return self._approval.id

    def result(self) -> Any:
        """Waits for the decision and returns the output; raises `Refused` after a denial."""
        return self._loop.run(self._approval._wait())


class Control:
    """Blocking connection to the control socket, for the operator's own programs. Never give it to an agent."""

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        home: str | os.PathLike[str] | None = None,
        connect_timeout: float = 5.0,
    ) -> None:
        self._loop = _LoopThread()
        self._control = self._loop.make(
            lambda: AsyncControl(socket, home=home, connect_timeout=connect_timeout)
        )

    def __enter__(self) -> Control:
        try:
            self._loop.run(self._control.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        try:
            self._loop.run(self._control.close())
        finally:
            self._loop.close()

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Sends a request of any method and returns its result."""
        return self._loop.run(self._control.request(method, params))

    def status(self) -> _types.ControlStatusResult:
        """Returns the status of the daemon."""
        return self._loop.run(self._control.status())

    def approvals(self) -> list[_types.ApprovalSummary]:
        """Lists the pending approval requests."""
        return self._loop.run(self._control.approvals())

    def approve(self, id: str, *, pin: str | None = None) -> _types.ControlApprovalsDecideResult:
        """Permits exactly this call, once."""
        return self._loop.run(self._control.approve(id, pin=pin))

    def deny(self, id: str, *, message: str | None = None) -> _types.ControlApprovalsDecideResult:
        """Refuses the call, with a reason for the model."""
        return self._loop.run(self._control.deny(id, message=message))

    def calls(self) -> list[_types.RunningCall]:
        """Lists the calls that have not ended."""
        return self._loop.run(self._control.calls())

    def follow(self, method: str, params: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Any]]:
        """Yields the notifications of `control/events` or `control/approvals.watch`."""
        notifications = self._control.follow(method, params)
        try:
            while True:
                try:
                    yield self._loop.run(notifications.__anext__())  # type: ignore[arg-type]
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run(notifications.aclose())  # type: ignore[attr-defined]
