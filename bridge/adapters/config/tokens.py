"""Tokens that a person laid into the environment for one call; they are read when they are needed, and never kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence


def token(names: Sequence[str], environ: Mapping[str, str] | None = None) -> tuple[str, str] | None:
    """The first of these variables that holds something, as name and text; None when none does."""
    environ = os.environ if environ is None else environ
    return next(((name, environ[name].strip()) for name in names if environ.get(name, "").strip()), None)
