"""Who says when alarms fire: the engine, our reference, and `icalendar` with `recurring-ical-events`."""

import json
import subprocess
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import reference
from reference import Firing, written

# More than anything that a trigger counts from can be away from its firing.
MARGIN = timedelta(days=50)


class Gave(Exception):
    """A judge that gives no answer."""


def engine(program, text, owner, at, until):
    """`carillon preview`, as a user runs it."""
    limit = 100_000
    command = [program, "preview", "-", "--json", "--tz", owner, "--limit", str(limit)]
    command += ["--at", written(at), "--until", written(until)]
    run = subprocess.run(command, input=text.encode(), capture_output=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0 or len(lines) >= limit:
        raise Gave(f"exit code {run.returncode}, {len(lines)} lines: {run.stderr.decode()[:500]}")
    return sorted(
        Firing(line["trigger_at"], line["occurrence"], line["uid"], line["alarm"])
        for line in lines
        if "skipped" not in line
    )


def own(text, owner, at, until):
    return reference.firings(text, owner, at, until)


def pypi(text, owner, at, until):
    """What the packages make of it. How a person's zone, ACKNOWLEDGED and the one firing of an absolute trigger are meant
    is not theirs to say; that is done here."""
    import icalendar
    import recurring_ical_events
    from icalendar.alarms import Alarms

    zone = ZoneInfo(owner)

    def instant(value):
        if not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if value.tzinfo is None:
            value = value.replace(tzinfo=zone)
        return value.astimezone(timezone.utc).replace(tzinfo=None)

    found = set()
    calendar = icalendar.Calendar.from_ical(text)
    query = recurring_ical_events.of(calendar, skip_bad_series=False)
    for event in query.between(at - MARGIN, until + MARGIN):
        if event.get("STATUS") == "CANCELLED":
            continue
        recurrence_id = event.get("RECURRENCE-ID")
        occurrence = instant(recurrence_id.dt if recurrence_id else event.start)
        for time in Alarms(event).times:
            trigger = instant(time.trigger)
            acknowledged = time.alarm.ACKNOWLEDGED
            if acknowledged and trigger <= instant(acknowledged):
                continue
            absolute = isinstance(time.alarm.TRIGGER, date)
            if at <= trigger <= until:
                shown = "" if absolute else written(occurrence)
                found.add(Firing(written(trigger), shown, str(event["UID"]), str(time.alarm["UID"])))
    return sorted(found)


def without_occurrence_of_absolute(firings, text):
    """As `pypi` says it: an absolute trigger belongs to no instance."""
    absolute = set()
    for block in text.split("BEGIN:VALARM")[1:]:
        lines = block.split()
        trigger = next(line for line in lines if line.startswith("TRIGGER"))
        if trigger.split(":")[1][0].isdigit():
            uid = next(line for line in lines if line.startswith("UID:"))
            absolute.add(uid.removeprefix("UID:"))
    return absolute
