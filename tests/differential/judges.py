"""Who says when alarms fire: the engine, our reference, and `icalendar` with `recurring-ical-events`."""

import json
import subprocess
from dataclasses import replace
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import reference
from reference import Firing, written

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


def own(text, owner, at, until, lead):
    return reference.firings(text, owner, at, until, lead)


def pypi(text, owner, at, until, lead):
    """What the packages make of one event. The owner's zone and ACKNOWLEDGED are not theirs to know; that is done here."""
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
    query = recurring_ical_events.of(icalendar.Calendar.from_ical(text), skip_bad_series=False)
    for event in query.between(at - lead, until + lead):
        if event.get("STATUS") == "CANCELLED":
            continue
        recurrence_id = event.get("RECURRENCE-ID")
        occurrence = instant(recurrence_id.dt if recurrence_id else event.start)
        for time in Alarms(event).times:
            trigger = instant(time.trigger)
            acknowledged = time.alarm.ACKNOWLEDGED
            if at <= trigger <= until and not (acknowledged and trigger <= instant(acknowledged)):
                found.add(Firing(written(trigger), written(occurrence), str(event["UID"]), str(time.alarm["UID"])))
    return sorted(found)


def comparable(firings, event):
    """What `pypi` can be compared by. It has an absolute trigger fire for each instance that it is asked for, and gives all
    instances from a THISANDFUTURE override on the RECURRENCE-ID of that override."""
    alarms = [alarm for component in event for alarm in component.children]
    absolute = {alarm.first("UID").value for alarm in alarms if reference.is_absolute(alarm.first("TRIGGER"))}
    has_range = any(c.first("RECURRENCE-ID") and c.first("RECURRENCE-ID").parameters.get("RANGE") for c in event)
    return sorted(
        {replace(f, occurrence="") if has_range else f for f in firings if f.alarm not in absolute}
    )
