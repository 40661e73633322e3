"""A cron expression in plain English."""

from __future__ import annotations

from collections.abc import Sequence

from .cron import ALL_DOMS, ALL_DOWS, ALL_HOURS, ALL_MINUTES, ALL_MONTHS, CronExpr

_MONTHS = ("", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MOST_TIMES = 4


def describe_cron(cron: CronExpr, zone_name: str) -> str:
    """The expression in words, with its zone: "every day at 02:00 Europe/Berlin"."""
    minutes, hours = sorted(cron.minute), sorted(cron.hour)
    days = _days(cron)
    if len(minutes) * len(hours) <= _MOST_TIMES:
        times = _listed([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])
        return f"{days or 'every day'} at {times} {zone_name}"
    often = _minutes(cron.minutes, minutes)
    if cron.hours == ALL_HOURS:
        if len(minutes) == 1:
            often = "every hour" if minutes == [0] else f"every hour at minute {minutes[0]}"
    else:
        word = "hour" if len(hours) == 1 else "hours"
        often = f"{often} of {word} {_numbers(hours)}"
    return ", ".join(part for part in (often, days, zone_name) if part)


def _minutes(mask: int, minutes: Sequence[int]) -> str:
    if mask == ALL_MINUTES:
        return "every minute"
    if len(minutes) == 1:
        return f"at minute {minutes[0]}"
    step = minutes[1]
    if 60 % step == 0 and list(minutes) == list(range(0, 60, step)):
        return f"every {step} minutes"
    return f"at minutes {_numbers(minutes)}"


def _days(cron: CronExpr) -> str:
    """Which days, in words; empty for every day of the year."""
    months = "" if cron.months == ALL_MONTHS else f" in {_listed([_MONTHS[month] for month in sorted(cron.month)])}"
    if cron.every_day:
        return f"every day{months}" if months else ""
    if len(cron.month) == 1 and len(cron.dom) <= _MOST_TIMES and cron.dows == ALL_DOWS and not cron.either_day:
        return f"on {_listed([str(day) for day in sorted(cron.dom)])}{months.removeprefix(' in')}"
    dates = _numbers(sorted(cron.dom))
    dates = f"day {dates}" if len(cron.dom) == 1 else f"days {dates}"
    weekdays = _weekdays(cron.dow)
    if cron.either_day:
        return f"on {dates} of the month and every {weekdays}{months}"
    if cron.doms == ALL_DOMS:
        return f"every {weekdays}{months}"
    if cron.dows == ALL_DOWS:
        return f"on {dates} of {'the month' if months else 'every month'}{months}"
    return f"every {weekdays} that falls on {dates} of the month{months}"


def _weekdays(allowed: frozenset[int]) -> str:
    if allowed == frozenset((1, 2, 3, 4, 5)):
        return "Monday to Friday"
    # A week begins on Monday here, as lists of weekdays are read.
    return _listed([WEEKDAYS[day] for day in sorted(allowed, key=lambda day: (day - 1) % 7)])


def _numbers(values: Sequence[int]) -> str:
    if len(values) > 2 and list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return _listed([str(value) for value in values])


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
