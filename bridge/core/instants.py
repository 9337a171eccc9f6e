"""Instants as text: ISO 8601 in UTC with milliseconds, as every document and answer has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(seconds: float | None) -> str | None:
    """An instant (seconds since the epoch) as text; None stays None, and so does one beyond the calendar."""
    if seconds is None:
        return None
    try:
        return _text(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def exact(milliseconds: int) -> str:
    """An instant (whole milliseconds since the epoch) as text. Raises OverflowError beyond the calendar."""
    return _text(_EPOCH + timedelta(milliseconds=milliseconds))


def seconds(at: object) -> float | None:
    """Seconds since the epoch of an instant in text, in UTC where no zone is told; None for anything else."""
    if not isinstance(at, str):
        return None
    try:
        moment = datetime.fromisoformat(at)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
