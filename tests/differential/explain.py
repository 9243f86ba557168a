"""Why the packages from PyPI say otherwise: for each class of `explained.toml` the shape by which it is recognised."""

import tomllib
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

import text
from reference import Firing, written
from zones import DAY, to_utc, wall

TIMES = ("DTSTART", "DTEND", "RDATE")
FILE = Path(__file__).with_name("explained.toml")


@dataclass
class Case:
    """A disagreement about one event."""

    text: str
    owner: str
    missing: list  # Firings that are ours alone.
    extra: list  # Firings that are theirs alone.
    error: str | None  # What they said instead of an answer.

    def __post_init__(self):
        self.components = text.parse(self.text).children
        self.master = next(c for c in self.components if not c.first("RECURRENCE-ID"))
        rrule = self.master.first("RRULE")
        self.rule = text.rule(rrule.value) if rrule else {}
        self.base = text.time_of(self.master.first("DTSTART"))
        self.zone = self.base.zone or self.owner
        times = [prop for c in self.components for name in TIMES for prop in c.all(name)]
        self.zones = {self.owner, *(prop.parameters["TZID"] for prop in times if "TZID" in prop.parameters)}

    def alarms(self, uid):
        return [(c, alarm) for c in self.components for alarm in c.children if alarm.first("UID").value == uid]


@cache
def classes():
    return tomllib.loads(FILE.read_text())["class"]

    def alarms(self, uid):
        return [(c, alarm) for c in self.components for alarm in c.children if alarm.first("UID").value == uid]


@dataclass
class Example:
    """The smallest event of a class, and what the packages say otherwise about it."""

    name: str
    owner: str
    at: datetime
    until: datetime
    events: str
    ours: list  # Triggers that are ours alone.
    theirs: list  # Triggers that are theirs alone, or what they say instead.


def examples():
    for c in classes():
        events = "".join(f"{line}\r\n" for line in c["event"].split())
        yield Example(c["name"], c["owner"], c["at"], c["until"], events, c["ours"], c["theirs"])


def explained_by(case):
    """The classes that a disagreement belongs to, if they explain all of it; else none."""
    predicates = {c["name"]: globals()[c["name"].replace("-", "_")] for c in classes()}
    if case.error:
        return [name for name, matches in predicates.items() if matches(case, None)][:1]
    found = []
    for firing in case.missing + case.extra:
        name = next((name for name, matches in predicates.items() if matches(case, firing)), None)
        if name is None:
            return []
        found.append(name)
    return sorted(set(found))


# The shapes, in the order of the file. `firing` is one that only one side has.


def plain_and_numbered_weekdays(case, firing):
    numbers = [number for number, _ in case.rule.get("BYDAY", [])]
    return 0 in numbers and any(numbers)


def week_number_without_weekday(case, firing):
    return "BYWEEKNO" in case.rule and not {"BYDAY", "BYMONTHDAY", "BYYEARDAY"} & set(case.rule)


def until_in_another_form(case, firing):
    """UNTIL is not in UTC though DTSTART has a zone, or a DATE though DTSTART has a time: what lies near that day."""
    until = case.rule.get("UNTIL", "Z")
    fits = until.endswith("Z") or case.base.is_date or (case.base.zone is None and "T" in until)
    if fits or firing is None:
        return False
    days = 2 if firing.occurrence else 40
    at = moment(firing.occurrence or firing.trigger)
    return abs(at - text.time(until).local) <= DAY * days


def until_before_the_start(case, firing):
    """The one instance of such a rule."""
    until = case.rule.get("UNTIL")
    start = instant(case, case.base)
    has_ended = until is not None and instant(case, text.time(until, case.base.zone)) < start
    return has_ended and firing in case.missing and firing.occurrence in ("", written(start))


def first_week_by_a_negative_number(case, firing):
    """Its days that lie in December."""
    if firing is None or min(case.rule.get("BYWEEKNO", [0])) > -52:
        return False
    local = wall(case.zone, moment(firing.occurrence or firing.trigger))
    return (local.month, local.day) >= (12, 29)


def override_of_an_excluded_instance(case, firing):
    """What an override says of an instance that an EXDATE names."""
    if firing not in case.missing:
        return False
    excluded = {
        instant(case, text.time(value, exdate.parameters.get("TZID")))
        for exdate in case.master.all("EXDATE")
        for value in exdate.value.split(",")
    }
    overridden = {
        instant(case, text.time_of(c.first("RECURRENCE-ID"))) for c in case.components if c.first("RECURRENCE-ID")
    }
    both = {written(at) for at in excluded & overridden}
    return firing.occurrence in both or (not firing.occurrence and bool(both))


def this_and_future_in_another_zone(case, firing):
    """What follows a THISANDFUTURE override whose DTSTART is not in the zone of the series."""
    for component in case.components:
        recurrence_id = component.first("RECURRENCE-ID")
        if firing is None or not recurrence_id or "RANGE" not in recurrence_id.parameters:
            continue
        elsewhere = (text.time_of(component.first("DTSTART")).zone or case.owner) != case.zone
        if elsewhere and moment(firing.trigger) >= instant(case, text.time_of(recurrence_id)) - 40 * DAY:
            return True
    return False


def set_position_in_the_first_week(case, firing):
    """What BYSETPOS of a weekly rule finds within a week of DTSTART; all of it where COUNT counts that."""
    if firing is None or case.rule.get("FREQ") != "WEEKLY" or "BYSETPOS" not in case.rule:
        return False
    days = 8 if firing.occurrence else 48
    since = moment(firing.occurrence or firing.trigger) - instant(case, case.base)
    return "COUNT" in case.rule or since <= DAY * days


def exact_time_across_a_clock_change(case, firing):
    """An alarm with hours, minutes or seconds in what it is counted by, within days of a change of a clock of the event;
    one that is counted from the end also where the event itself, whose length that is, is within days of a change."""
    if firing is None:
        return False
    counted = [alarm for component, alarm in case.alarms(firing.alarm) if counts_exactly(case, component, alarm)]
    measured = [instant(case, case.base)] if any(is_related_to_end(alarm) for alarm in counted) else []
    return bool(counted) and any(is_near_a_change(case, at) for at in [moment(firing.trigger), *measured])


def is_near_a_change(case, at):
    days = [at + DAY * number for number in range(-5, 6)]
    return any(len({wall(zone, day) - day for day in days}) > 1 for zone in case.zones)


def counts_exactly(case, component, alarm):
    spans = [alarm.first("TRIGGER").value] + [prop.value for prop in alarm.all("DURATION")]
    if is_related_to_end(alarm):
        spans += [prop.value for prop in component.all("DURATION")]
        spans += ["PT1S"] if component.first("DTEND") and not case.base.is_date else []
    return any(text.span(value).exact for value in spans if value[-1] != "Z")


def is_related_to_end(alarm):
    return alarm.first("TRIGGER").parameters.get("RELATED") == "END"


def end_of_a_period_after_this_and_future(case, firing):
    """Counted from the end, where an RDATE has an end of its own and a THISANDFUTURE override is there."""
    has_period = any(rdate.parameters.get("VALUE") == "PERIOD" for rdate in case.master.all("RDATE"))
    ids = [c.first("RECURRENCE-ID") for c in case.components if c.first("RECURRENCE-ID")]
    has_range = any("RANGE" in recurrence_id.parameters for recurrence_id in ids)
    of_end = firing and any(is_related_to_end(alarm) for _, alarm in case.alarms(firing.alarm))
    return has_period and has_range and bool(of_end)


def days_from_an_end_in_another_zone(case, firing):
    """Counted in days from a DTEND whose zone is not that of DTSTART, or of an RDATE."""
    if firing is None:
        return False
    added = {rdate.parameters.get("TZID", case.zone) for rdate in case.master.all("RDATE")}
    for component, alarm in case.alarms(firing.alarm):
        start, end = component.first("DTSTART"), component.first("DTEND")
        elsewhere = end and {text.time_of(start).zone, *added} != {text.time_of(end).zone}
        days = [prop for name in ("TRIGGER", "DURATION") for prop in alarm.all(name) if prop.value[-1] != "Z"]
        if elsewhere and is_related_to_end(alarm) and any(text.span(prop.value).days for prop in days):
            return True
    return False


def moment(written):
    return datetime.strptime(written, "%Y-%m-%dT%H:%M:%SZ")


def instant(case, time):
    return to_utc(time.zone or case.owner, time.local)
