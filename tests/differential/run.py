"""Compares the engine with the reference and with the packages from PyPI: see README.md."""

import argparse
import json
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from datetime import datetime
from pathlib import Path

import explain
import generate
import judges
import text


def compared(task):
    """One batch: the disagreements with our reference, and those with the packages."""
    program, kind, seed, number, size, with_pypi = task
    warnings.simplefilter("ignore")
    batch = generate.batch(kind, seed, number, size)
    window = batch.owner, batch.at, batch.until
    engine = judges.engine(program, batch.text, *window)
    own = judges.own(batch.text, *window, batch.lead)
    result = {"cases": size, "firings": len(own), "own": [], "pypi": []}
    for event in batch.events:
        calendar = generate.calendar(event)
        components = text.parse(calendar).children
        uid = components[0].first("UID").value
        ours = [firing for firing in engine if firing.uid == uid]
        expected = [firing for firing in own if firing.uid == uid]
        told = {"batch": batch.name, "owner": batch.owner, "at": str(batch.at), "until": str(batch.until), "ics": calendar}
        if ours != expected:
            result["own"].append(told | difference(ours, expected))
        if with_pypi:
            theirs, error = answer_of_pypi(calendar, *window, batch.lead)
            mine = judges.comparable(ours, components)
            theirs = judges.comparable(theirs, components)
            if error or mine != theirs:
                result["pypi"].append(told | difference(mine, theirs) | {"error": error})
    return result


def answer_of_pypi(*question):
    try:
        return judges.pypi(*question), None
    except Exception as error:  # Whatever it is that they cannot read.
        return [], f"{type(error).__name__}: {error}"[:300]


def difference(ours, theirs):
    """As multisets: a firing that comes twice is wrong as well."""
    plain = lambda firings: [vars(firing) for firing in sorted(firings.elements())]
    ours, theirs = Counter(ours), Counter(theirs)
    return {"missing": plain(ours - theirs), "extra": plain(theirs - ours)}


def explained(told):
    firings = lambda name: [explain.Firing(**firing) for firing in told[name]]
    case = explain.Case(told["ics"], told["owner"], firings("missing"), firings("extra"), told["error"])
    return explain.explained_by(case)


def wrong_examples(program):
    """Examples of `explained.toml` about which one of the three says something else than is written there."""
    for example in explain.examples():
        calendar = generate.calendar(example.events)
        components = text.parse(calendar).children
        window = example.owner, example.at, example.until
        engine = judges.engine(program, calendar, *window)
        own = judges.own(calendar, *window, generate.Events.LEAD)
        theirs, error = answer_of_pypi(calendar, *window, generate.Events.LEAD)
        told = difference(judges.comparable(engine, components), judges.comparable(theirs, components))
        told |= {"ics": calendar, "owner": example.owner, "error": error}
        triggers = lambda name: [firing["trigger"] for firing in told[name]]
        is_right = (triggers("missing"), triggers("extra")) == (example.ours, example.theirs)
        if engine != own or error or not is_right or example.name not in explained(told):
            yield example.name


def show(judge, told):
    print(f"\n== {judge} disagrees in {told['batch']}, owner in {told['owner']}, {told['at']} to {told['until']}")
    print(told["ics"].replace("\r", ""))
    print("the engine alone:", told["missing"][:5])
    print("the judge alone: ", told["extra"][:5], told.get("error") or "", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="tests/differential.sh", description=__doc__)
    parser.add_argument("--program", required=True, help="the carillon to test")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--rules", type=int, default=10_000, help="how many random rules")
    parser.add_argument("--events", type=int, default=2_000, help="how many random events")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--log", type=Path, required=True, help="where every disagreement is written")
    arguments = parser.parse_args()

    begun = time.monotonic()
    wrong = list(wrong_examples(arguments.program))
    if wrong:
        print(f"explained.toml: these examples are not as they are written: {', '.join(wrong)}")
        return 1
    print(f"seed {arguments.seed}: {arguments.rules} rules, {arguments.events} events, {arguments.jobs} at a time", flush=True)
    tasks = []
    for kind, count in (("events", arguments.events), ("rules", arguments.rules)):
        sizes = [min(generate.BATCH, count - first) for first in range(0, count, generate.BATCH)]
        tasks += [(arguments.program, kind, arguments.seed, number, size, True) for number, size in enumerate(sizes)]
    total, classes, unexplained, shown = Counter(), Counter(), 0, time.monotonic()
    with multiprocessing.Pool(arguments.jobs) as pool, arguments.log.open("w") as log:
        for done, result in enumerate(pool.imap_unordered(compared, tasks), 1):
            total.update(cases=result["cases"], firings=result["firings"], own=len(result["own"]), pypi=len(result["pypi"]))
            for told in result["own"]:
                log.write(json.dumps({"judge": "own", **told}) + "\n")
                show("our reference", told)
                unexplained += 1
            for told in result["pypi"]:
                log.write(json.dumps({"judge": "pypi", **told}) + "\n")
                names = explained(told)
                classes.update(names)
                if not names:
                    show("recurring-ical-events", told)
                    unexplained += 1
            log.flush()
            if time.monotonic() - shown > 15 or done == len(tasks):
                shown = time.monotonic()
                print(
                    f"{shown - begun:5.0f} s: {total['cases']} cases, {total['firings']} firings; disagreements: "
                    f"{total['own']} with our reference, {total['pypi']} with the packages, {unexplained} unexplained",
                    flush=True,
                )
    for name, count in classes.most_common():
        print(f"{count:6} {name}")
    print(f"seed {arguments.seed}: {unexplained} unexplained in {total['cases']} cases, {time.monotonic() - begun:.0f} s")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
