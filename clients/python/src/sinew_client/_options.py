"""Options of a call, and its progress."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any, Awaitable, Callable, Literal, Mapping, Union

from ._trace import current_trace_context


@dataclasses.dataclass(frozen=True)
class Progress:
    """One progress notification of a running call."""

    step: int
    message: str | None
    done: float | None
    total: float | None
    data: Any

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Progress:
        meta = params.get("_meta") or {}
        share = meta.get("sinew/share") or {}
        return cls(
            step=params.get("progress", 0),
            message=params.get("message"),
            done=share.get("done"),
            total=share.get("total"),
            data=meta.get("sinew/data"),
        )


ProgressCallback = Callable[[Progress], Union[None, Awaitable[None]]]


@dataclasses.dataclass(frozen=True)
class CallOptions:
    """Options that apply to every call of a client."""

    cwd: str | None = None
    """Folder that relative paths start at."""
    deadline_ms: int | None = None
    """Time limit of the call, including the wait for approval."""
    idempotency_key: str | None = None
    """The call with this key runs once in 24 hours; a repeat gets the recorded outcome."""
    detached: bool = False
    """The call outlives its connection. Without a key it gets one of its own, as with `resumable`."""
    resumable: bool = False
    """Gives each call its own key and detaches it, so that a lost connection does not lose the outcome."""
    approval: Literal["wait", "async"] | None = None
    """`async`: a call that needs approval raises `ApprovalPending` at once."""
    approval_id: str | None = None
    """Decided approval that an earlier attempt of the same call requested."""
    auto_repair: bool = False
    """Repeats a refused call once with the repair that the daemon has checked."""
    on_progress: ProgressCallback | None = None
    """Called for each progress notification. The asyncio client awaits a coroutine."""
    model_content: bool = False
    """The result of `execute` also has `model_content`: the texts that a language model should get."""
    trace_ctx: str | Mapping[str, str] | None = None
    """W3C trace context; the default is the current span of OpenTelemetry, if that is installed."""

    def replace(self, changes: Mapping[str, Any]) -> CallOptions:
        """Returns a copy with these fields changed."""
        return dataclasses.replace(self, **changes)

    def with_key(self) -> CallOptions:
        """Returns a copy with a key, if the call must be found again and has none."""
        needs_key = (self.detached or self.resumable) and self.idempotency_key is None
        return self.replace({"idempotency_key": uuid.uuid4().hex}) if needs_key else self

    def params(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Builds the parameters of `sinew/execute`."""
        params: dict[str, Any] = {"tool_name": tool, "arguments": dict(arguments)}
        keyed = self.with_key()
        for name in ("cwd", "deadline_ms", "idempotency_key", "approval", "approval_id"):
            value = getattr(keyed, name)
            if value is not None:
                params[name] = value
        if self.detached or self.resumable:
            params["detached"] = True
        if self.model_content:
            params["model_content"] = True
        trace = self.trace_ctx if self.trace_ctx is not None else current_trace_context()
        if trace is not None:
            params["trace_ctx"] = trace if isinstance(trace, str) else dict(trace)
        return params
