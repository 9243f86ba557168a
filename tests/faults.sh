#!/bin/sh
# The fault tests in their long form, on a release build, each with the machine for itself: a line of figures for each.
#   tests/faults.sh all        tests/faults.sh F2 F17
# Shorter or lighter: CARILLON_FAULTS_SECONDS=120 CARILLON_FAULTS_RATE=100 tests/faults.sh F2
# One form less: CARILLON_FAULTS=short tests/faults.sh all
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || {
    sed -n '2,5s/^# //p' tests/faults.sh >&2
    exit 64
}
export CARILLON_FAULTS="${CARILLON_FAULTS:-long}"

cargo test --release --locked --test it --no-run
run() {
    cargo test --release --locked --quiet --test it -- --test-threads 1 --nocapture "$@"
}
list() {
    cargo test --release --locked --quiet --test it -- --list | sed -n 's/^\([a-z:]*::f[0-9]*_.*\): test$/\1/p'
}

failed=0
for name in $(list); do
    number=$(echo "$name" | sed 's/.*::f\([0-9]*\)_.*/F\1/')
    case " $* " in
    *" all "* | *" $number "*) ;;
    *) continue ;;
    esac
    output=$(mktemp)
    if run --exact "$name" >"$output" 2>&1; then verdict=passed; else verdict=FAILED failed=1; fi
    # The test's own line, which the runner may have begun.
    figures=$(grep -o "$number | .*" "$output" || echo "$number | no figures")
    echo "$figures | $verdict"
    [ "$verdict" = passed ] || cat "$output" >&2
    rm -f "$output"
done
exit $failed
