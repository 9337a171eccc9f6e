"""Instants as text: ISO 8601 in UTC with milliseconds, as every document and answer has them."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: float | None) -> str | None:
    """An instant (seconds since the epoch) as text; None stays None, and so does one beyond the calendar."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def seconds(at: object) -> float | None:
    """The instant that a text such as `iso` writes names; None for anything else."""
    try:
        return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else None
    except (ValueError, OverflowError):
        return None
