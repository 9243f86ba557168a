"""Which alarms of an event fire when: RFC 5545 and RFC 9074, read plainly.

Nothing here knows the engine, and nothing looks for the next firing: all instances of the event are written down, each
alarm of each of them is worked out, and what lies in the window is kept.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import recurrence
import text
from zones import to_utc, wall

@dataclass(frozen=True)
class Moment:
    """A local time in a zone. `local` is what was written, which a gap may move: its instant is then shown differently."""

    local: datetime
    zone: str

    @property
    def instant(self):
        return to_utc(self.zone, self.local)

    def plus(self, span):
        """Days by the calendar first, then exact time (RFC 5545 section 3.3.6)."""
        day = replace(self, local=self.local + timedelta(days=span.days))
        return Exact(day.instant + span.exact, self.zone) if span.exact else day


@dataclass(frozen=True)
class Exact:
    """An instant together with the zone in whose days one counts from it. In a repeated hour it may be the second."""

    instant: datetime
    zone: str

    def plus(self, span):
        if not span.days:
            return replace(self, instant=self.instant + span.exact)
        return Moment(wall(self.zone, self.instant), self.zone).plus(span)


@dataclass
class Slot:
    """An instance of the recurrence set, as the master has it."""

    start: Moment
    end: Moment | Exact | None = None  # The end that a PERIOD brings along.


@dataclass(frozen=True, order=True)
class Firing:
    trigger: str
    occurrence: str
    uid: str
    alarm: str


def firings(calendar_text, owner, at, until, lead):
    """All firings from `at` to `until`, both included, of all events of a calendar. None of them leads its slot by more
    than `lead`."""
    by_uid = {}
    for component in text.parse(calendar_text).children:
        by_uid.setdefault(component.first("UID").value, []).append(component)
    found = []
    for uid, components in by_uid.items():
        fired = Event(components, owner, until + lead).fired()
        found += [
            Firing(written(trigger), written(occurrence), uid, alarm)
            for trigger, occurrence, alarm, _ in fired
            if at <= trigger <= until
        ]
    return sorted(found)


def written(instant):
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


class Event:
    def __init__(self, components, owner, last):
        self.owner = owner
        self.last = last
        self.master = next(c for c in components if not c.first("RECURRENCE-ID"))
        self.base = text.time_of(self.master.first("DTSTART"))
        self.zone = self.base.zone or owner
        self.singles, self.futures = self.overrides(c for c in components if c.first("RECURRENCE-ID"))

    def moment(self, time):
        return Moment(time.local, time.zone or self.owner)

    # Who speaks for which instance.

    def overrides(self, components):
        """Single and THISANDFUTURE overrides by the instant of their RECURRENCE-ID; of two for one the higher SEQUENCE."""
        singles, futures = {}, {}
        sequence = lambda component: int(component.first("SEQUENCE").value)
        for component in sorted(components, key=sequence):
            recurrence_id = component.first("RECURRENCE-ID")
            slot = self.moment(text.time_of(recurrence_id))
            kind = futures if recurrence_id.parameters.get("RANGE") == "THISANDFUTURE" else singles
            kind[slot.instant] = (component, slot)
        return singles, futures

    def speaker(self, instant):
        """The last THISANDFUTURE override at or before a slot, with the slot that it names; else the master."""
        points = [point for point in self.futures if point <= instant]
        return self.futures[max(points)] if points else (self.master, None)

    def slots(self):
        """The recurrence set (RFC 5545 section 3.8.5): DTSTART, RRULE and RDATE without EXDATE; equal instants are one."""
        slots = {}

        def add(slot):
            slots.setdefault(slot.start.instant, slot)

        for rdate in self.master.all("RDATE"):
            for value in rdate.value.split(","):
                add(self.addition(value, rdate.parameters.get("TZID")))
        for rrule in self.master.all("RRULE"):
            last = wall(self.zone, self.last)
            for local in recurrence.instances(text.rule(rrule.value), self.base, self.zone, last):
                # DTSTART is the first instance of the rule, even where a gap moves it past later local times.
                if to_utc(self.zone, local) >= self.moment(self.base).instant:
                    add(Slot(Moment(local, self.zone)))
        add(Slot(self.moment(self.base)))
        for exdate in self.master.all("EXDATE"):
            for value in exdate.value.split(","):
                excluded = text.time(value, exdate.parameters.get("TZID"))
                slots = {i: slot for i, slot in slots.items() if not self.is_excluded(slot, excluded)}
        # An instance that a THISANDFUTURE override names exists, whether or not the set has it.
        for instant, (_, slot) in self.futures.items():
            slots.setdefault(instant, Slot(self.on_own_clock(slot)))
        return slots

    def addition(self, value, zone):
        start, _, end = value.partition("/")
        start = self.moment(text.time(start, zone))
        if not end:
            return Slot(start)
        is_span = "P" in end
        return Slot(start, start.plus(text.span(end)) if is_span else self.moment(text.time(end, zone)))

    def is_excluded(self, slot, excluded):
        """By instant, in whatever zone it is written; a DATE means the whole day of a timed event."""
        if excluded.is_date and not self.base.is_date:
            return slot.start.local.date() == excluded.local.date()
        return slot.start.instant == self.moment(excluded).instant

    # What fires.

    def fired(self):
        found = set(self.absolute())
        for instant, slot in self.slots().items():
            if instant not in self.singles:
                component, named = self.speaker(instant)
                end = None if named else slot.end
                found |= self.relative(component, self.moved(component, named, slot), end, instant)
        for instant, (component, _) in self.singles.items():
            start = self.moment(text.time_of(component.first("DTSTART")))
            found |= self.relative(component, start, None, instant)
        return found

    def moved(self, component, named, slot):
        """The start of an instance: as far from its slot as the THISANDFUTURE override is from the slot that it names, in
        wall time. An override in UTC names no wall clock: the series keeps its own."""
        if named is None:
            return slot.start
        own = self.moment(text.time_of(component.first("DTSTART")))
        if own.zone == "UTC":
            own = Moment(wall(self.zone, own.instant), self.zone)
        return Moment(self.on_own_clock(slot.start).local + (own.local - self.on_own_clock(named).local), own.zone)

    def on_own_clock(self, moment):
        """A slot as the clock of the series shows it, in whatever zone it is written."""
        return moment if moment.zone == self.zone else Moment(wall(self.zone, moment.instant), self.zone)

    def absolute(self):
        """An absolute trigger fires once, whatever the recurrence; a copy of it in an override is the same one."""
        owners = [(self.moment(self.base).instant, self.master)]
        owners += [(instant, component) for instant, (component, _) in sorted(self.futures.items())]
        owners += [(instant, component) for instant, (component, _) in sorted(self.singles.items())]
        known = set()
        for occurrence, component in owners:
            for alarm in alarms(component):
                trigger, uid = alarm.first("TRIGGER"), alarm.first("UID").value
                if not is_absolute(trigger):
                    continue
                first = self.moment(text.time_of(trigger))
                if (uid, first.instant) not in known:
                    known.add((uid, first.instant))
                    yield from ((instant, occurrence, uid, number) for number, instant in repeated(alarm, first))

    def relative(self, component, start, end, occurrence):
        found = set()
        for alarm in alarms(component):
            trigger = alarm.first("TRIGGER")
            if is_absolute(trigger):
                continue
            anchor = start
            if trigger.parameters.get("RELATED") == "END":
                anchor = end or self.end(component, start)
            first = anchor.plus(text.span(trigger.value))
            uid = alarm.first("UID").value
            found |= {(instant, occurrence, uid, number) for number, instant in repeated(alarm, first)}
        return found

    def end(self, component, start):
        """RFC 5545 section 3.6.1: DTEND, DURATION, or a day for a DATE and nothing for a time."""
        own_start = text.time_of(component.first("DTSTART"))
        if component.first("DURATION"):
            return start.plus(text.span(component.first("DURATION").value))
        if not component.first("DTEND"):
            return start.plus(text.Span(1 if own_start.is_date else 0, timedelta()))
        own_end = text.time_of(component.first("DTEND"))
        if own_start.is_date:
            return start.plus(text.Span((own_end.local - own_start.local).days, timedelta()))
        length = self.moment(own_end).instant - self.moment(own_start).instant
        return Exact(start.instant + length, own_end.zone or self.owner)


def alarms(component):
    status = component.first("STATUS")
    if status and status.value == "CANCELLED":
        return []
    return component.children


def is_absolute(trigger):
    return trigger.value[0].isdigit()


def repeated(alarm, first):
    """The instants of an alarm, numbered: the first and REPEAT more (RFC 5545 section 3.8.6.2), without what was
    acknowledged. Where a whole day is skipped two of them can be one instant, and are two firings all the same."""
    times = int(alarm.first("REPEAT").value) if alarm.first("REPEAT") else 0
    pause = text.span(alarm.first("DURATION").value) if times else text.Span(0, timedelta())
    instants = [first.plus(text.Span(pause.days * k, pause.exact * k)).instant for k in range(times + 1)]
    acknowledged = alarm.first("ACKNOWLEDGED")
    done = text.time_of(acknowledged).local if acknowledged else None
    return [(k, instant) for k, instant in enumerate(instants) if done is None or instant > done]
