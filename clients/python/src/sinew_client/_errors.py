"""Exceptions of the client."""

from __future__ import annotations

from typing import Any

from . import _types


class SinewError(Exception):
    """Base class of all errors of the client."""


class DaemonUnavailable(SinewError):
    """No daemon of this user answers on the socket."""


class ConnectionLost(SinewError):
    """The connection ended before the reply.

    The call may have run. A call with an idempotency key is sent again instead of raising this.
    """


class CallCancelled(SinewError):
    """The call was cancelled by this client."""


class ProtocolError(SinewError):
    """The daemon answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}

    @property
    def word(self) -> str | None:
        """Error code for programs, such as `not_found`."""
        word = self.data.get("code")
        return word if isinstance(word, str) else None


class CallError(SinewError):
    """A call that did not succeed."""

    def __init__(self, result: _types.ExecuteResult) -> None:
        super().__init__(result["error"] or "the call did not succeed")
        self.result = result

    @property
    def tool(self) -> str:
        """Name of the tool."""
        return self.result["tool_name"]

    @property
    def call_id(self) -> str:
        """Id of the call in the ledger."""
        return self.result["metadata"]["call_id"]

    @property
    def retryable(self) -> bool:
        """True if the same call can succeed later."""
        return False


class Failed(CallError):
    """The call was permitted and failed while it ran."""

    @property
    def output(self) -> Any:
        """Partial output, or an empty object."""
        return self.result["output"]

    @property
    def failure(self) -> dict[str, Any]:
        """Kind of the failure and what it means, from the metadata of the result."""
        found: Any = self.result["metadata"].get("failure")
        return found if isinstance(found, dict) else {}

    @property
    def retryable(self) -> bool:
        return bool(self.failure.get("retryable", False))


class AlreadyRan(CallError):
    """The call with this idempotency key ran before. The daemon does not store outputs, so there is none.

    `execute` returns the result instead of raising this.
    """

    def __init__(self, result: _types.ExecuteResult, repeat: _types.RepeatedCall) -> None:
        super().__init__(result)
        self.args = (f"the call ran before as {repeat['of']} and ended as `{repeat['outcome']}`",)
        self.repeat = repeat

    @property
    def succeeded(self) -> bool:
        """True if the first call succeeded."""
        return self.repeat["outcome"] == "done"


class Refused(CallError):
    """The call was refused and did not run."""

    def __init__(self, result: _types.ExecuteResult, refusal: _types.Refusal) -> None:
        super().__init__(result)
        self.refusal = refusal

    @property
    def code(self) -> str:
        """Stable reason word, such as `path_not_allowed`."""
        return self.refusal["code"]

    @property
    def reason(self) -> str:
        return self.refusal["reason"]

    @property
    def hint(self) -> str | None:
        """Advice on what to do."""
        return self.refusal.get("hint")

    @property
    def problems(self) -> list[_types.ArgumentProblem]:
        """Problems of the arguments."""
        return self.refusal.get("problems") or []

    @property
    def repair(self) -> _types.Repair | None:
        """Replacement arguments that have passed every check, if there are any."""
        return self.refusal.get("repair")

    @property
    def rule(self) -> _types.RuleRef | None:
        """Policy rule that decided, with file and line."""
        return self.refusal.get("rule")

    @property
    def retryable(self) -> bool:
        return self.refusal["retryable"]

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before a retry."""
        delay = self.refusal.get("retry_after_ms")
        return None if delay is None else delay / 1000


class RateLimited(Refused):
    """The call exceeds a rate or capacity limit; `retry_after` says when to try again."""


class ApprovalPending(Refused):
    """The call waits for the operator."""

    @property
    def approval_id(self) -> str:
        return self.refusal.get("approval_id") or ""


def check_result(result: _types.ExecuteResult) -> Any:
    """Returns the output of a successful call and raises for any other."""
    repeat = result["metadata"].get("repeat")
    if repeat is not None:
        raise AlreadyRan(result, repeat)
    if result["success"]:
        return result["output"]
    refusal = result["metadata"].get("refusal")
    if not refusal:
        raise Failed(result)
    if refusal["code"] == "approval_pending":
        raise ApprovalPending(result, refusal)
    if refusal["code"] in ("rate_limited", "busy"):
        raise RateLimited(result, refusal)
    raise Refused(result, refusal)
