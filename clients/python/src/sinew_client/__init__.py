"""Client of Sinew, the tool runtime of a local AI agent.

`Sinew` is the blocking client, `AsyncSinew` the one for asyncio. `Control` and `AsyncControl` use the control
socket of the operator. The types of parameters, results and built-in tools are in `sinew_client.types`.
"""

from . import _types as types
from ._async import AsyncApproval, AsyncControl, AsyncSession, AsyncSinew
from ._errors import (
    AlreadyRan,
    ApprovalPending,
    CallCancelled,
    CallError,
    ConnectionLost,
    DaemonUnavailable,
    Failed,
    ProtocolError,
    RateLimited,
    Refused,
    SinewError,
)
from ._options import CallOptions, Progress
from ._sync import Approval, Control, PendingCall, Session, Sinew

__all__ = [
    "AlreadyRan",
    "Approval",
    "ApprovalPending",
    "AsyncApproval",
    "AsyncControl",
    "AsyncSession",
    "AsyncSinew",
    "CallCancelled",
    "CallError",
    "CallOptions",
    "ConnectionLost",
    "Control",
    "DaemonUnavailable",
    "Failed",
    "PendingCall",
    "Progress",
    "ProtocolError",
    "RateLimited",
    "Refused",
    "Session",
    "Sinew",
    "SinewError",
    "types",
]
