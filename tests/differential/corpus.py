"""Writes `tests/it/cases/differential.jsonl`: what CI replays, with the answers of our reference.

A few batches of the random events, and the example of every class in `explained.toml`.
"""

import json
from datetime import timedelta

import explain
import generate
import reference
from reference import written

SEED = "ci"
BATCHES = {"rules": 8, "events": 8}
# Days: shorter than the windows of the long form, for the size of the file.
LONGEST = {"rules": 250, "events": 12}


def case(name, owner, at, until, events, lead):
    firings = reference.firings(generate.calendar(events), owner, at, until, lead)
    return json.dumps(
        {
            "name": name,
            "owner": owner,
            "at": written(at),
            "until": written(until),
            "ics": events.replace("\r", ""),
            "firings": [[f.uid, f.alarm, f.trigger, f.occurrence] for f in firings],
        },
        separators=(",", ":"),
    )


def lines():
    for kind, count in BATCHES.items():
        for number in range(count):
            batch = generate.batch(kind, SEED, number)
            until = min(batch.until, batch.at + timedelta(days=LONGEST[kind]))
            yield case(batch.name, batch.owner, batch.at, until, "".join(batch.events), batch.lead)
    for example in explain.examples():
        yield case(example.name, example.owner, example.at, example.until, example.events, generate.Events.LEAD)


if __name__ == "__main__":
    for line in lines():
        print(line)
