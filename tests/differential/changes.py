"""Writes `tests/it/cases/clock_changes.txt`: all changes of all clocks from 2010 to 2030, found by looking at them."""

from datetime import datetime, timedelta
from importlib.metadata import version
from zoneinfo import available_timezones

from zones import MINUTE, wall

FIRST, LAST = datetime(2010, 1, 1), datetime(2031, 1, 1)
STEP = timedelta(hours=12)


def offset(zone, instant):
    return wall(zone, instant) - instant


def changes(zone):
    """The offset in 2010, and each change with the offset after it."""
    found = [written(offset(zone, FIRST))]
    instant = FIRST
    while instant < LAST:
        following = instant + STEP
        if offset(zone, instant) != offset(zone, following):
            while offset(zone, instant + MINUTE) != offset(zone, following):
                instant += MINUTE
            found.append(f"{instant + MINUTE:%Y-%m-%dT%H:%MZ}{written(offset(zone, following))}")
        instant = following
    return " ".join(found)


def written(offset):
    minutes = offset // MINUTE
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def table():
    zones = {}
    for zone in sorted(available_timezones() - {"Factory", "localtime"}):
        zones.setdefault(changes(zone), []).append(zone)
    lines = [f"# Written by tests/differential.sh from tzdata {version('tzdata')}: zones, and below them their offset and its changes."]
    for history, names in zones.items():
        lines += [" ".join(names), f"  {history}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
