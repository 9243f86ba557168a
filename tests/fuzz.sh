#!/bin/sh
# Fuzzes the reading of calendars and the search for firings, on stable Rust: an hour, or so many seconds.
#   tests/fuzz.sh        tests/fuzz.sh 60
# What breaks is left in target/fuzz/found, and `tests/fuzz.sh FILE` runs it again. A text that broke something belongs to
# tests/fuzz/corpus, with which every run begins, and which the tests replay.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

command -v c++ >/dev/null || {
    echo 'tests/fuzz.sh: `c++` is missing, which builds libFuzzer: apt-get install g++' >&2
    exit 1
}
host=$(rustc -vV | sed -n 's/^host: //p')
# What `cargo fuzz` passes too; none of it needs nightly.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    --cfg fuzzing -Cforce-frame-pointers"
export RUSTFLAGS
cargo build --release --locked --quiet --manifest-path fuzz/Cargo.toml --target "$host" --target-dir target/fuzz
fuzz="target/fuzz/$host/release/calendar"
unset RUSTFLAGS

# More memory than that is refused to the process; `-timeout` is of the clock on the wall, for what never ends, while
# `checks` allows an input 2 s of CPU time.
ulimit -v 524288
mkdir -p target/fuzz/corpus target/fuzz/found
set_limits='-rss_limit_mb=512 -timeout=60 -max_len=65536 -artifact_prefix=target/fuzz/found/'
if [ -f "${1:-}" ]; then
    # shellcheck disable=SC2086
    exec "$fuzz" $set_limits "$@"
fi

log=target/fuzz/log
status=0
# shellcheck disable=SC2086
nice -n 19 "$fuzz" $set_limits -max_total_time="${1:-3600}" -print_final_stats=1 \
    target/fuzz/corpus tests/fuzz/corpus >"$log" 2>&1 || status=$?
figure() { sed -n "s/^stat::$1: *//p" "$log"; }
worst=$(sed -n 's/^WORST \([0-9]*\) us.*/\1/p' "$log" | tail -1)
echo "executions: $(figure number_of_executed_units) ($(figure average_exec_per_sec) a second)"
echo "coverage:   $(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) corp: \([^ ]*\).*/\1 edges, \2 features, corpus \3/p' "$log" | tail -1)"
echo "worst:      ${worst:-0} us of CPU time for one input"
echo "memory:     $(figure peak_rss_mb) MiB at the most"
[ $status = 0 ] || {
    grep -v '^WORST\|^#' "$log" | tail -40 >&2
    echo "tests/fuzz.sh: FAILED, see $log and target/fuzz/found" >&2
}
exit $status
