"""The Python reference of the bench: what icalendar and recurring-ical-events make of the same texts.

Reads a line of JSON for each measurement, `{"text": …, "after": …, "seconds": …}`, and answers with one: how often it read
the text and found the next alarm in that much CPU time of its own, and when that alarm is.
"""

import datetime
import json
import sys
import time

import icalendar
import recurring_ical_events


def next_alarm(text, after):
    calendar = icalendar.Calendar.from_ical(text)
    alarms = recurring_ical_events.of(calendar, components=["VALARM"])
    event = next(alarms.after(after))
    return min(time for time in event.alarms.times if time.trigger >= after)


for line in sys.stdin:
    asked = json.loads(line)
    after = datetime.datetime.fromisoformat(asked["after"])
    count, found = 0, None
    begun = time.process_time()
    while time.process_time() - begun < asked["seconds"]:
        found = next_alarm(asked["text"], after).trigger
        count += 1
    took = time.process_time() - begun
    found = found.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    print(json.dumps({"count": count, "seconds": took, "found": found}), flush=True)
