#!/bin/sh
# The differential test: random calendars through `carillon preview`, against a plain reading of the standard of our own
# and against `icalendar` with `recurring-ical-events`. Ends with status 1 at any disagreement that is not explained.
#   tests/differential.sh                                   10,000 rules and 2,000 events
#   tests/differential.sh --seed 7 --rules 500 --events 100
#   tests/differential.sh write                             the cases that CI replays, anew
# It needs python3 (3.11 or later) and, the first time, PyPI. tests/differential/README.md says what it shows.
set -eu
cd "$(dirname "$0")/.."
work=target/differential
python=$work/venv/bin/python
packages='tzdata==2026.6 icalendar==7.3.2 recurring-ical-events==3.8.2 python-dateutil==2.9.0.post0 x-wr-timezone==2.0.1'

mkdir -p "$work"
if [ "$(cat "$work/venv/packages" 2>/dev/null)" != "$packages" ]; then
    rm -rf "$work/venv"
    python3 -m venv "$work/venv"
    # shellcheck disable=SC2086
    "$python" -m pip install --quiet --disable-pip-version-check $packages
    echo "$packages" >"$work/venv/packages"
fi

cases=tests/it/cases
if [ "${1:-}" = write ]; then
    "$python" tests/differential/changes.py >"$cases/clock_changes.txt"
    "$python" tests/differential/corpus.py >"$cases/differential.jsonl"
    exit
fi

cargo build --locked --bin carillon
"$python" tests/differential/run.py --program "${CARGO_TARGET_DIR:-target}/debug/carillon" \
    --log "$work/disagreements.jsonl" "$@"
for written in changes.py:clock_changes.txt corpus.py:differential.jsonl; do
    file=$cases/${written#*:}
    echo "$file: is it what the reference says today?"
    "$python" "tests/differential/${written%:*}" | cmp - "$file" || {
        echo "no: run \`tests/differential.sh write\` and look at what has changed" >&2
        exit 1
    }
done
