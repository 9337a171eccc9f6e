"""When to consolidate, as cron writes it (apscheduler, which is imported at the first use)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bridge.core.errors import Unusable

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class Schedule:
    """Calls `due` in a thread of its own at the times of five cron fields, local time, each up to `jitter` s later.

    A time missed (asleep, busy) is made up for once. Raises Unusable(kind="config") for fields that mean nothing.
    """

    def __init__(self, cron: str, due: Callable[[], None], jitter: float = 60.0) -> None:
        self._trigger = _trigger(cron, int(jitter))
        self._due = due
        self._scheduler: Any = None

    def start(self) -> None:
        """Begin; once is enough."""
        if self._scheduler is not None:
            return
        from apscheduler.schedulers.background import BackgroundScheduler

        self._scheduler = BackgroundScheduler(daemon=True)
        self._scheduler.add_job(
            self._due, self._trigger, id="consolidation", misfire_grace_time=None, coalesce=True, max_instances=1
        )
        self._scheduler.start()

    def stop(self) -> None:
        """End without waiting for `due`; it can be started again."""
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None

    def next_after(self, now: float) -> float | None:
        """The next time after `now`, jitter included, in seconds since the epoch; None when there is none."""
        found = self._trigger.get_next_fire_time(None, datetime.fromtimestamp(now, UTC).astimezone())
        return found.timestamp() if found else None


def _trigger(cron: str, jitter: int) -> Any:
    from apscheduler.triggers.combining import OrTrigger
    from apscheduler.triggers.cron import CronTrigger

    fields = cron.lower().split()
    if len(fields) != 5:
        raise _unusable(cron, "five fields are needed: minute hour day month weekday")
    minute, hour, day, month, weekday = fields
    try:
        times = {"minute": minute, "hour": hour, "month": month}
        if day.startswith("*") or weekday.startswith("*"):
            return CronTrigger(**times, day=day, day_of_week=_weekdays(weekday), jitter=jitter or None)
        # Where both are limited, cron means either, apscheduler both.
        either = [CronTrigger(**times, day=day), CronTrigger(**times, day_of_week=_weekdays(weekday))]
        return OrTrigger(either, jitter=jitter or None)
    except (ValueError, KeyError, IndexError) as error:
        raise _unusable(cron, str(error)) from error


def _weekdays(field: str) -> str:
    """Days by name, each written out: apscheduler counts from Monday, cron from Sunday, and its weeks end on Sunday."""
    if field == "*":
        return field
    days: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low = 0 if first == "*" else _day(first)
        high = 6 if first == "*" else _day(last) if last else 6 if step else low
        if high < low:
            high += 7
        days |= {day % 7 for day in range(low, high + 1, int(step or 1))}
    return ",".join(_DAYS[day] for day in sorted(days))


def _day(text: str) -> int:
    with contextlib.suppress(ValueError):
        return _DAYS.index(text)
    day = int(text)
    if not 0 <= day <= 7:
        raise ValueError(f"there is no weekday {day}")
    return day


def _unusable(cron: str, reason: str) -> Unusable:
    return Unusable(
        f"consolidation.schedule is {cron!r}: {reason}", advice='write it as cron does, such as "0 4 * * *"'
    )
