"""Trace context of the current span, if OpenTelemetry is installed."""

from __future__ import annotations

from typing import Callable


def _load() -> Callable[[dict[str, str]], None] | None:
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    propagator = TraceContextTextMapPropagator()
    return lambda carrier: propagator.inject(carrier)


_inject = _load()


def current_trace_context() -> dict[str, str] | None:
    """Returns `traceparent` and `tracestate` of the current span, or nothing outside of a span."""
    if _inject is None:
        return None
    carrier: dict[str, str] = {}
    _inject(carrier)
    return carrier if "traceparent" in carrier else None
