"""Fixtures of this suite."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def sinew_arguments() -> list[str]:
    return ["--allow-root"] if os.geteuid() == 0 else []
