"""Random calendars: rules, and events with all that moves, adds or removes an alarm.

A batch is one calendar of several events that one owner sees from one instant on. Everything is drawn from a seed and
the number of the batch, so that any one can be made again. The points where good implementations differ, which
README.md lists, are not drawn.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

import recurrence
import text
from zones import to_utc, wall

ZONES = """Africa/Cairo Africa/Casablanca America/Asuncion America/Caracas America/Havana America/New_York
America/Santiago America/Sao_Paulo America/St_Johns America/Vancouver Asia/Beirut Asia/Gaza Asia/Kathmandu Asia/Kolkata
Asia/Pyongyang Asia/Tehran Asia/Tokyo Australia/Lord_Howe Australia/Sydney Europe/Berlin Europe/Dublin Europe/Istanbul
Europe/London Europe/Moscow Pacific/Apia Pacific/Auckland Pacific/Chatham Pacific/Kiritimati UTC""".split()

BATCH = 25
WEEKDAYS = recurrence.WEEKDAYS
FORMAT = "%Y%m%dT%H%M%S"


@dataclass
class Batch:
    name: str
    owner: str
    at: datetime
    until: datetime
    lead: timedelta  # No alarm is farther from its slot than this.
    events: list  # The text of each: its VEVENTs.

    @property
    def text(self):
        return calendar("".join(self.events))


def calendar(events):
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Carillon//Differential//EN\r\n{events}END:VCALENDAR\r\n"


def batch(kind, seed, number, size=BATCH):
    rng = random.Random(f"{seed}/{kind}/{number}")
    draw = {"rules": Rules, "events": Events}[kind](rng)
    events = [draw.event(f"{kind[0]}{number}-{index}") for index in range(size)]
    return Batch(f"{kind}/{seed}/{number}", draw.owner, draw.at, draw.until, draw.LEAD, events)


class Draw:
    """What the events of a batch share."""

    def __init__(self, rng, days):
        self.rng = rng
        self.owner = rng.choice(ZONES)
        self.at = datetime(rng.choice([2012, 2019, *range(2022, 2030)]), 1, 1) + timedelta(minutes=rng.randrange(365 * 1440))
        if rng.random() < 0.1:
            self.at = datetime(2011, 12, rng.randrange(15, 31))  # Samoa skips 30 December.
        self.until = self.at + timedelta(days=days)

    def chance(self, probability):
        return self.rng.random() < probability

    def start(self, days_before, days_after):
        """A DTSTART near `at`, often in the hours in which clocks are changed."""
        rng = self.rng
        day = self.at + timedelta(days=rng.randint(-days_before, days_after))
        hour = rng.choice([0, 1, 2, 3, 23]) if self.chance(0.5) else rng.randrange(24)
        local = datetime(day.year, day.month, day.day, hour, rng.randrange(0, 60, 5))
        kind = rng.choices(["zone", "utc", "floating", "date"], [60, 12, 14, 14])[0]
        if kind == "date":
            return text.Time(datetime(day.year, day.month, day.day), None, True)
        return text.Time(local, {"zone": rng.choice(ZONES[:-1]), "utc": "UTC", "floating": None}[kind], False)

    def synchronised(self, rule, start):
        """The first time that the rule produces soon, for it to be DTSTART; none if there is none that stays the first."""
        reach = {"YEARLY": 1500, "MONTHLY": 400, "WEEKLY": 120, "DAILY": 60}.get(rule["FREQ"], 2)
        found = recurrence.produced(rule, start, start.local + timedelta(days=reach))
        if not found:
            return None
        moved = text.Time(found[0], start.zone, start.is_date)
        return moved if recurrence.produced(rule, moved, moved.local) else None

    def until_part(self, rule, start, days):
        """UNTIL in the form that fits DTSTART (RFC 5545 section 3.3.10), now and then in one that producers use instead."""
        end = start.local + timedelta(days=self.rng.randint(0, days), minutes=self.rng.choice([0, 0, -5, 5, 720]))
        if start.is_date or self.chance(0.1):
            return end.strftime("%Y%m%d")
        if start.zone is None or self.chance(0.1):
            return end.strftime(FORMAT)
        return to_utc(start.zone, end).strftime(FORMAT) + "Z"


class Rules(Draw):
    """Rules of every kind, each with one alarm at the start."""

    # In days: how long a window is, and how far back a DTSTART may be.
    WINDOW = {"YEARLY": 2500, "MONTHLY": 700, "WEEKLY": 150, "DAILY": 60, "HOURLY": 5, "MINUTELY": 1}
    PAST = {"YEARLY": 3000, "MONTHLY": 1200, "WEEKLY": 500, "DAILY": 400, "HOURLY": 30, "MINUTELY": 2}
    LEAD = timedelta(days=1)

    def __init__(self, rng):
        self.freq = rng.choices(list(self.WINDOW), [28, 28, 20, 12, 9, 3])[0]
        super().__init__(rng, self.WINDOW[self.freq])

    def event(self, uid):
        while True:
            start = self.start(self.PAST[self.freq], self.WINDOW[self.freq] // 10)
            if start.is_date and self.freq in recurrence.SHORT:
                continue
            rule = self.rule(start)
            start = self.synchronised(rule, start)
            if start:
                return vevent(uid, start, [f"RRULE:{self.finished(rule, start)}"], alarm("a", "TRIGGER:PT0S"))

    def rule(self, start):
        freq, rng = self.freq, self.rng
        rule = {"FREQ": freq}
        if self.chance(0.4):
            rule["INTERVAL"] = rng.randint(2, 5) if freq not in recurrence.SHORT else rng.randint(2, 50)
        sometimes = lambda probability, name, most, signed, low=1: (
            rule.__setitem__(name, numbers(rng, low, most, signed)) if self.chance(probability) else None
        )
        sometimes(0.25, "BYMONTH", 12, False)
        if freq == "YEARLY":
            # BYWEEKNO with INTERVAL or BYSETPOS is read in several ways.
            sometimes(0.2 if "INTERVAL" not in rule else 0, "BYWEEKNO", 53, True)
            sometimes(0.2, "BYYEARDAY", 366, True)
            sometimes(0.3 if "BYMONTH" in rule else 0, "BYMONTHDAY", 31, True)
        if freq == "MONTHLY" or freq in recurrence.SHORT or freq == "DAILY":
            sometimes(0.25, "BYMONTHDAY", 31, True)
        if freq in recurrence.SHORT:
            sometimes(0.1, "BYYEARDAY", 366, True)
        if self.chance(0.4):
            rule["BYDAY"] = self.weekdays(rule)
        if not start.is_date:
            sometimes(0.2 if freq != "MINUTELY" else 0.4, "BYHOUR", 23, False, 0)
            sometimes(0.2, "BYMINUTE", 59, False, 0)
            # Several seconds would be closer than a minute, which nobody gets.
        if len(rule) > 1 + ("INTERVAL" in rule) and "BYWEEKNO" not in rule and self.chance(0.25):
            rule["BYSETPOS"] = numbers(rng, 1, 6, True)
        if self.chance(0.3):
            rule["WKST"] = rng.choice(WEEKDAYS)
        return rule

    def weekdays(self, rule):
        most = {"MONTHLY": 5, "YEARLY": 5 if "BYMONTH" in rule else 53}.get(rule["FREQ"], 0)
        numbered = most and "BYWEEKNO" not in rule and self.chance(0.6)
        days = {}
        for day in self.rng.sample(WEEKDAYS, self.rng.randint(1, 4)):
            number = self.rng.choice([1, -1]) * self.rng.randint(1, most) if numbered and self.chance(0.7) else 0
            days[(number, day)] = None
        return list(days)

    def finished(self, rule, start):
        end = self.rng.choices(["", "COUNT", "UNTIL"], [50, 25, 25])[0]
        if end == "COUNT":
            rule["COUNT"] = self.rng.randint(1, 60)
        if end == "UNTIL":
            rule["UNTIL"] = self.until_part(rule, start, 2 * self.PAST[self.freq])
        return written_rule(rule)


def numbers(rng, low, most, signed):
    size = rng.choice([1, 1, 1, 2, 3, 5])
    return sorted({rng.randint(low, most) * (rng.choice([1, -1]) if signed else 1) for _ in range(size)})


def written_rule(rule):
    def value(name, part):
        if name == "BYDAY":
            return ",".join(f"{number or ''}{day}" for number, day in part)
        return ",".join(map(str, part)) if isinstance(part, list) else str(part)

    return ";".join(f"{name}={value(name, part)}" for name, part in rule.items())


class Events(Draw):
    """Events of a few weeks, with exceptions, additions, overrides and several alarms."""

    LEAD = timedelta(days=40)

    def __init__(self, rng):
        super().__init__(rng, rng.choice([7, 30, 60]))

    def event(self, uid):
        start = self.start(60, 40)
        rules = []
        slots = [start.local]
        if self.chance(0.85):
            rule, start = self.rule(start)
            rules = [f"RRULE:{written_rule(rule)}"]
            last = wall(start.zone or self.owner, self.until) + timedelta(days=40)
            slots = recurrence.instances(rule, start, start.zone or self.owner, last)
        slots = self.rng.sample(slots[-60:], min(len(slots), 8)) or [start.local]
        base = Base(self, start, slots)
        lines = rules + [base.length(start)] + base.dates()
        alarms = [self.alarm(start, name) for name in "abcd"[: self.rng.choice([1, 1, 2, 3, 4])]]
        cancelled = ["STATUS:CANCELLED"] if self.chance(0.04) else []
        master = vevent(uid, start, lines + cancelled, "".join(alarms))
        overrides = [base.override(uid, alarms) for _ in range(self.rng.choice([0, 0, 1, 2, 4]))]
        overrides += [base.future(uid, alarms) for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2]))]
        components = [master, *filter(None, overrides)]
        self.rng.shuffle(components)
        return "".join(components)

    def rule(self, start):
        rng = self.rng
        while True:
            freqs = ["DAILY", "WEEKLY", "MONTHLY"] + ([] if start.is_date else ["HOURLY"])
            rule = {"FREQ": rng.choices(freqs, [40, 35, 15, 10][: len(freqs)])[0]}
            if rule["FREQ"] == "HOURLY":
                rule["INTERVAL"] = rng.randint(5, 40)
            elif self.chance(0.3):
                rule["INTERVAL"] = rng.randint(2, 4)
            if rule["FREQ"] == "WEEKLY" and self.chance(0.6):
                rule["BYDAY"] = [(0, day) for day in rng.sample(WEEKDAYS, rng.randint(1, 4))]
            if rule["FREQ"] == "MONTHLY":
                rule["BYDAY"] = [(rng.choice([1, 2, 3, 4, -1, -2]), rng.choice(WEEKDAYS))]
            synchronised = self.synchronised(rule, start)
            if synchronised:
                break
        end = rng.choices(["", "COUNT", "UNTIL"], [40, 30, 30])[0]
        if end == "COUNT":
            rule["COUNT"] = rng.randint(1, 60)
        if end == "UNTIL":
            rule["UNTIL"] = self.until_part(rule, synchronised, 100)
        return rule, synchronised

    def alarm(self, start, name):
        rng = self.rng
        lines = []
        if self.chance(0.1):
            absolute = self.at + timedelta(minutes=5 * rng.randint(-500, 3000))
            lines.append(f"TRIGGER;VALUE=DATE-TIME:{absolute.strftime(FORMAT)}Z")
        else:
            value = rng.choice(
                "PT0S -PT5M -PT15M PT10M -PT1H -PT12H -PT24H -PT36H -P1D -P1DT2H -P2D -P1W P1D PT24H P1DT1H -P30D P0D".split()
            )
            related = rng.choice(["", "", ";RELATED=START", ";RELATED=END", ";RELATED=END"])
            lines.append(f"TRIGGER{related}:{value}")
        if self.chance(0.25):
            lines += [f"REPEAT:{rng.randint(1, 4)}", f"DURATION:{rng.choice('PT5M PT1H PT24H P1D P1DT1H'.split())}"]
        if self.chance(0.07):
            until = self.at + timedelta(hours=rng.randint(-24, 240))
            lines.append(f"ACKNOWLEDGED:{until.strftime(FORMAT)}Z")
        return alarm(name, *lines)


class Base:
    """What is written about the instances of one event: times of its set, and what is said of them."""

    def __init__(self, draw, start, slots):
        self.draw, self.rng, self.start, self.slots = draw, draw.rng, start, slots
        self.zone = start.zone or draw.owner
        self.named = set()

    def property(self, name, local, foreign=0.3, parameters=""):
        """The time of DTSTART's clock; if that has a zone, now and then written in another."""
        start = self.start
        if start.is_date:
            return f"{name};VALUE=DATE{parameters}:{local.strftime('%Y%m%d')}"
        if start.zone is None:
            return f"{name}{parameters}:{local.strftime(FORMAT)}"
        zone = start.zone
        if self.draw.chance(foreign):
            zone = self.rng.choice(["UTC", self.rng.choice(ZONES)])
            instant = to_utc(start.zone, local)
            local = wall(zone, instant)
            if to_utc(zone, local) != instant:
                zone, local = "UTC", instant  # The second of a repeated hour has a name in UTC alone.
        return written_time(name, text.Time(local, zone, False), parameters)

    def length(self, start):
        rng = self.rng
        if start.is_date:
            days = rng.randint(1, 3)
            end = (start.local + timedelta(days=days)).strftime("%Y%m%d")
            return rng.choice([f"DTEND;VALUE=DATE:{end}", f"DURATION:P{days}D", "X-LENGTH:none"])
        kind = rng.choice(["end", "end", "duration", "duration", "none"])
        if kind == "none":
            return "X-LENGTH:none"
        if kind == "duration":
            return f"DURATION:{rng.choice('PT30M PT1H PT3H PT24H P1D P1DT2H P2D'.split())}"
        end = start.local + timedelta(minutes=rng.choice([30, 60, 90, 180, 1440, 1500]))
        zone = start.zone
        if zone and self.draw.chance(0.2):
            zone = rng.choice(ZONES)
            end = wall(zone, to_utc(start.zone, end) + timedelta(hours=2))
        return written_time("DTEND", text.Time(end, zone, False))

    def dates(self):
        """EXDATE and RDATE."""
        lines = []
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            lines.append(self.property("EXDATE", self.rng.choice(self.slots)))
        additions = self.rng.choice([0, 0, 0, 1, 2])
        for _ in range(additions):
            lines.append(self.addition())
        if not additions and not self.start.is_date and self.draw.chance(0.08):
            lines.append(f"EXDATE;VALUE=DATE:{self.rng.choice(self.slots).strftime('%Y%m%d')}")
        return lines

    def addition(self):
        """An RDATE at a time of its own: a minute that no rule has."""
        local = self.rng.choice(self.slots) + timedelta(days=self.rng.randint(-3, 20))
        if self.start.is_date:
            return self.property("RDATE", local)
        local += timedelta(minutes=self.rng.choice([7, 67, 133]))
        if self.draw.chance(0.4):
            line = self.property("RDATE", local, parameters=";VALUE=PERIOD")
            head, value = line.split(":")
            end = (datetime.strptime(value.rstrip("Z"), FORMAT) + timedelta(hours=self.rng.choice([1, 30]))).strftime(FORMAT)
            ends = ["PT45M", "PT24H", "P1D", end + ("Z" if value.endswith("Z") else "")]
            return f"{head}:{value}/{self.rng.choice(ends)}"
        return self.property("RDATE", local)

    def slot(self):
        """An instance that no override names yet, now and then one that is not in the set."""
        slot = self.rng.choice(self.slots)
        if self.draw.chance(0.06):
            slot += timedelta(days=self.rng.randint(1, 9))
        if to_utc(self.zone, slot) in self.named:
            return None
        self.named.add(to_utc(self.zone, slot))
        return slot

    def moved(self, slot, most_days):
        rng = self.rng
        days = rng.choice([0, 0, 1, -1, rng.randint(-most_days, most_days)])
        if self.start.is_date:
            return text.Time(slot + timedelta(days=days), None, True)
        local = slot + timedelta(days=days, minutes=rng.choice([0, 0, 5, -30, 60, 600]))
        return text.Time(local, self.start.zone, False)

    def alarms(self, of_master):
        """Those of the master, some others, or none: an override has its own alone."""
        kind = self.rng.choice(["same", "same", "own", "none"])
        if kind == "same":
            return "".join(of_master)
        if kind == "own":
            return "".join(self.draw.alarm(self.start, name) for name in self.rng.choice(["a", "x", "ax"]))
        return ""

    def override(self, uid, of_master):
        slot = self.slot()
        if slot is None:
            return None
        recurrence_id = self.property("RECURRENCE-ID", slot)
        versions = []
        for sequence in range(1, self.rng.choice([2, 2, 2, 2, 2, 2, 3])):
            start = self.moved(slot, 40)
            if start.zone and self.draw.chance(0.15):
                start = text.Time(start.local, self.rng.choice(ZONES), False)
            lines = [recurrence_id, f"SEQUENCE:{sequence}", self.length(start)]
            if self.draw.chance(0.15):
                lines.append("STATUS:CANCELLED")
            versions.append(vevent(uid, start, lines, self.alarms(of_master)))
        self.rng.shuffle(versions)
        return "".join(versions)

    def future(self, uid, of_master):
        slot = self.slot()
        if slot is None:
            return None
        start = self.moved(slot, 2)
        if start.zone and self.draw.chance(0.25):
            start = text.Time(start.local, self.rng.choice(ZONES), False)
        recurrence_id = self.property("RECURRENCE-ID", slot, parameters=";RANGE=THISANDFUTURE")
        lines = [recurrence_id, "SEQUENCE:1", self.length(start)]
        if self.draw.chance(0.1):
            lines.append("STATUS:CANCELLED")
        return vevent(uid, start, lines, self.alarms(of_master))


def written_time(name, time, parameters=""):
    if time.is_date:
        return f"{name};VALUE=DATE{parameters}:{time.local.strftime('%Y%m%d')}"
    local = time.local.strftime(FORMAT)
    if time.zone is None:
        return f"{name}{parameters}:{local}"
    return f"{name}{parameters}:{local}Z" if time.zone == "UTC" else f"{name}{parameters};TZID={time.zone}:{local}"


def vevent(uid, start, lines, alarms):
    lines = [f"UID:{uid}", "DTSTAMP:20100101T000000Z", written_time("DTSTART", start), *lines]
    return "BEGIN:VEVENT\r\n" + "".join(f"{line}\r\n" for line in lines) + alarms + "END:VEVENT\r\n"


def alarm(uid, *lines):
    lines = [f"UID:{uid}", "ACTION:EMAIL", *lines]
    return "BEGIN:VALARM\r\n" + "".join(f"{line}\r\n" for line in lines) + "END:VALARM\r\n"
