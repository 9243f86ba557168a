"""RFC 5545 section 3.3.10, read plainly: each day is looked at, and each hour and minute in it, from DTSTART on.

A rule divides local time into periods of its FREQ. All times of a period that its BY parts let pass are the period's
set; BYSETPOS picks from the set; the picked times of every INTERVAL-th period from DTSTART on are the instances.
"""

import calendar
from datetime import date, datetime, timedelta
from itertools import groupby, product

from zones import to_utc

WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
DAY = timedelta(days=1)
SHORT = ("HOURLY", "MINUTELY", "SECONDLY")


def instances(rule, start, zone, last):
    """The local times of the rule for a DTSTART (a `Time`, understood in `zone`) up to `last`. DTSTART is the first of
    them and takes one of COUNT, whether its rule produces it or not."""
    found = [start.local] + [at for at in produced(rule, start, last) if at != start.local]
    found = found[: rule.get("COUNT")]
    return [at for at in found if at <= last and admits(rule.get("UNTIL"), at, start, zone)]


def produced(rule, start, last):
    """What the rule produces from DTSTART up to `last`, were it not for COUNT and UNTIL."""
    own = period(rule, start.local)
    first_day, last_day = start.local.date(), last.date()
    if rule["FREQ"] not in SHORT:
        while day_period(rule, first_day - DAY) == day_period(rule, first_day):
            first_day -= DAY
        while day_period(rule, last_day + DAY) == day_period(rule, last_day):
            last_day += DAY
    found = []
    for number, group in groupby(times(rule, start, first_day, last_day), lambda at: period(rule, at)):
        if number >= own and (number - own) % rule.get("INTERVAL", 1) == 0:
            found += [at for at in picked(rule, list(group)) if start.local <= at <= last]
    return found


def period(rule, at):
    """The number of the period of a time."""
    if rule["FREQ"] not in SHORT:
        return day_period(rule, at.date())
    hours = at.toordinal() * 24 + at.hour
    minutes = hours * 60 + at.minute
    return {"HOURLY": hours, "MINUTELY": minutes, "SECONDLY": minutes * 60 + at.second}[rule["FREQ"]]


def day_period(rule, day):
    match rule["FREQ"]:
        case "YEARLY":
            return day.year
        case "MONTHLY":
            return day.year * 12 + day.month
        case "WEEKLY":
            return week_start(rule, day).toordinal() // 7
        case "DAILY":
            return day.toordinal()


def week_start(rule, day):
    """The first day of the week of a day."""
    while WEEKDAYS[day.weekday()] != rule.get("WKST", "MO"):
        day -= DAY
    return day


def times(rule, start, first_day, last_day):
    """All times that the BY parts let pass, in order. A part that is not there is DTSTART's, unless the period is shorter."""
    clock = start.local
    freq = rule["FREQ"]
    hours = listed(rule, "BYHOUR", range(24) if freq in SHORT else [clock.hour], start)
    minutes = listed(rule, "BYMINUTE", range(60) if freq in SHORT[1:] else [clock.minute], start)
    seconds = listed(rule, "BYSECOND", range(60) if freq in SHORT[2:] else [clock.second], start)
    day = first_day
    while day <= last_day:
        if day_passes(rule, clock.date(), day):
            for hour, minute, second in product(hours, minutes, seconds):
                yield datetime(day.year, day.month, day.day, hour, minute, second)
        day += DAY


def listed(rule, name, otherwise, start):
    if start.is_date:
        return [0]
    return sorted(set(rule.get(name, otherwise)))


def picked(rule, of_period):
    """BYSETPOS."""
    positions = rule.get("BYSETPOS")
    if positions is None:
        return of_period
    size = len(of_period)
    return [at for index, at in enumerate(of_period) if index + 1 in positions or index - size in positions]


def day_passes(rule, start, day):
    """Whether the BY parts let a day pass, and where none of them names days, whether it is like DTSTART's."""
    year_length = 366 if calendar.isleap(day.year) else 365
    month_length = calendar.monthrange(day.year, day.month)[1]
    in_year = day.timetuple().tm_yday
    if "BYMONTH" in rule and day.month not in rule["BYMONTH"]:
        return False
    if "BYMONTHDAY" in rule and not counts(rule["BYMONTHDAY"], day.day, month_length):
        return False
    if "BYYEARDAY" in rule and not counts(rule["BYYEARDAY"], in_year, year_length):
        return False
    if "BYWEEKNO" in rule and not counts(rule["BYWEEKNO"], *week_number(rule, day)):
        return False
    if "BYDAY" in rule:
        return any(is_weekday(rule, day, number, name) for number, name in rule["BYDAY"])
    if "BYMONTHDAY" in rule or "BYYEARDAY" in rule:
        return True
    return like_start(rule, start, day)


def counts(wanted, number, length):
    """Whether a number is wanted, counted from the start (1, 2 ...) or from the end (-1, -2 ...) of a row."""
    return number in wanted or number - length - 1 in wanted


def like_start(rule, start, day):
    match rule["FREQ"]:
        case "YEARLY" if "BYWEEKNO" in rule:
            return day.weekday() == start.weekday()
        case "YEARLY":
            return day.day == start.day and ("BYMONTH" in rule or day.month == start.month)
        case "MONTHLY":
            return day.day == start.day
        case "WEEKLY":
            return day.weekday() == start.weekday()
    return True


def week_number(rule, day):
    """The number of the week, and how many its year has. Week 1 is the first with at least four days in its year."""
    first = lambda year: week_start(rule, date(year, 1, 4))
    year = max(year for year in (day.year - 1, day.year, day.year + 1) if first(year) <= day)
    return (day - first(year)).days // 7 + 1, (first(year + 1) - first(year)).days // 7


def is_weekday(rule, day, number, name):
    """BYDAY. A number counts within the month or the year of a MONTHLY or YEARLY rule."""
    if WEEKDAYS[day.weekday()] != name:
        return False
    if number == 0:
        return True
    in_month = rule["FREQ"] == "MONTHLY" or "BYMONTH" in rule
    row = lambda other: (other.year, other.month) if in_month else other.year
    step = timedelta(days=7 if number < 0 else -7)
    place, other = 1, day
    while row(other + step) == row(day):
        place, other = place + 1, other + step
    return place == abs(number)


def admits(until, at, start, zone):
    """UNTIL is inclusive. A DATE is a whole day, and for a DATE only the day counts; with Z it is compared in UTC."""
    if until is None:
        return True
    value = datetime.strptime(until.rstrip("Z").ljust(9, "T").ljust(15, "0"), "%Y%m%dT%H%M%S")
    if start.is_date or "T" not in until:
        return at.date() <= value.date()
    if until.endswith("Z"):
        return to_utc(zone, at) <= value
    return at <= value
