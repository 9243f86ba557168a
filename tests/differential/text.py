"""As much of iCalendar as the generator writes: one property a line, nothing folded, nothing escaped."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass
class Property:
    parameters: dict
    value: str


@dataclass
class Component:
    kind: str
    properties: dict = field(default_factory=dict)
    children: list = field(default_factory=list)

    def all(self, name):
        return self.properties.get(name, [])

    def first(self, name):
        return self.all(name)[0] if self.all(name) else None


def parse(text):
    """The VCALENDAR."""
    open_components = [Component("")]
    for line in text.split():
        name, *parameters = line.split(":", 1)[0].split(";")
        value = line.split(":", 1)[1]
        if name == "BEGIN":
            open_components.append(Component(value))
        elif name == "END":
            component = open_components.pop()
            open_components[-1].children.append(component)
        else:
            found = Property(dict(parameter.split("=", 1) for parameter in parameters), value)
            open_components[-1].properties.setdefault(name, []).append(found)
    return open_components[0].children[0]


@dataclass(frozen=True)
class Time:
    """A DATE or DATE-TIME as it is written; without a zone it is the owner's."""

    local: datetime
    zone: str | None
    is_date: bool


def time(value, zone=None):
    if "T" not in value:
        return Time(datetime.strptime(value, "%Y%m%d"), None, True)
    local = datetime.strptime(value.rstrip("Z"), "%Y%m%dT%H%M%S")
    return Time(local, "UTC" if value.endswith("Z") else zone, False)


def time_of(prop):
    return time(prop.value, prop.parameters.get("TZID"))


@dataclass(frozen=True)
class Span:
    """A DURATION: days by the calendar, and exact time."""

    days: int
    exact: timedelta


def span(value):
    sign, weeks, days, hours, minutes, seconds = re.fullmatch(
        r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", value
    ).groups(default="")
    sign = -1 if sign == "-" else 1
    number = lambda digits: int(digits or 0)
    exact = timedelta(hours=number(hours), minutes=number(minutes), seconds=number(seconds))
    return Span(sign * (7 * number(weeks) + number(days)), sign * exact)


def rule(value):
    """The parts of an RRULE; lists of numbers where RFC 5545 section 3.3.10 has lists."""
    parts = dict(part.split("=", 1) for part in value.split(";"))
    for name in parts:
        if name == "BYDAY":
            days = [re.fullmatch(r"([+-]?\d*)([A-Z]{2})", day).groups() for day in parts[name].split(",")]
            parts[name] = [(int(number or 0), day) for number, day in days]
        elif name.startswith("BY"):
            parts[name] = [int(number) for number in parts[name].split(",")]
        elif name in ("INTERVAL", "COUNT"):
            parts[name] = int(parts[name])
    return parts
