#!/bin/sh
# Checks everything, the way CI does: formatting, lints, documentation, all tests. From a fresh clone: tests/run.sh
# Arguments go to the test runner: tests/run.sh journey
set -eu
cd "$(dirname "$0")/.."

need() {
    PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null 2>&1 && return
    echo "tests/run.sh: \`$1\` is missing: apt-get install $2" >&2
    exit 1
}
need smtp-sink postfix
need postfix postfix
need promtool prometheus
need systemd-analyze systemd
need curl curl
need bearerbox kannel
[ -x /usr/lib/kannel/test/fakesmsc ] || {
    echo 'tests/run.sh: `fakesmsc` is missing: apt-get install kannel-extras' >&2
    exit 1
}
[ -n "$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null)" ] || {
    echo 'tests/run.sh: PostgreSQL is missing: apt-get install postgresql' >&2
    exit 1
}

total=$(date +%s)
step() {
    name=$1
    shift
    echo "== $name"
    begun=$(date +%s)
    "$@" || { echo "== $name: FAILED after $(($(date +%s) - begun)) s" >&2; exit 1; }
    echo "== $name: $(($(date +%s) - begun)) s"
}

# Postfix changes users: without root its tests cannot run, and that is said rather than passed over.
left_out=
if [ "$(id -u)" -ne 0 ]; then
    left_out='tests through a real Postfix are left out: they need root'
    echo "== $left_out"
fi

run_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        if [ -n "$left_out" ]; then set -- "$@" -E 'not test(/postfix/)'; fi
        cargo nextest run --locked --lib --bins --tests --no-fail-fast "$@"
    else
        if [ -n "$left_out" ]; then set -- "$@" -- --skip postfix; fi
        cargo test --locked --lib --bins --tests --no-fail-fast "$@"
    fi
}

docs() {
    RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --lib --document-private-items
}

# Snapshots are compared, never written.
export INSTA_UPDATE=no

step 'format' cargo fmt --check
step 'lints' cargo clippy --locked --all-targets -- -D warnings
step 'documentation' docs
step 'tests' run_tests "$@"
echo "== all: $(($(date +%s) - total)) s${left_out:+ ($left_out)}"
