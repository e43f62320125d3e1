"""Agents that are driven by a scripted model server."""

from __future__ import annotations

from typing import Any

LACKS: tuple[str, ...] = ()
DRIVERS: dict[str, Any] = {}
