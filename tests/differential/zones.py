"""Local time and instants, found by looking at the clock.

All that is asked of the zone data is which time the clock of a zone shows at an instant. Instants are naive datetimes in
UTC, local times naive datetimes of some zone.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, reset_tzpath

reset_tzpath(())  # The data of the package `tzdata`, whose version is known, and not those of the machine.

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def wall(zone, instant):
    """The time that the clock of `zone` shows at an instant."""
    return ZoneInfo(zone).fromutc(instant.replace(tzinfo=ZoneInfo(zone))).replace(tzinfo=None, fold=0)


@lru_cache(maxsize=None)
def offsets_on(zone, day):
    """The offsets from UTC that the clock has on a day of UTC, hour by hour; none lasts less than an hour."""
    midnight = datetime(day.year, day.month, day.day)
    instants = [midnight + HOUR * hour for hour in range(24)]
    return {wall(zone, instant) - instant for instant in instants}


@lru_cache(maxsize=500_000)
def to_utc(zone, local):
    """The instant of a local time (RFC 5545 section 3.3.5): of two the first; in a gap, by the offset before the gap."""
    days = [local.date() + DAY * number for number in (-2, -1, 0, 1, 2)]
    candidates = [local - offset for offset in set().union(*(offsets_on(zone, day) for day in days))]
    shown = [instant for instant in candidates if wall(zone, instant) == local]
    return min(shown) if shown else local - offset_before_gap(zone, local)


def offset_before_gap(zone, local):
    """Minute by minute up to the last one before the clock jumps over `local`."""
    instant = local.replace(second=0) - 2 * DAY
    while wall(zone, instant + MINUTE) < local:
        instant += MINUTE
    return wall(zone, instant) - instant
