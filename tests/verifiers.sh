#!/bin/sh
# Has programs of others verify what the binary sends, each from PyPI into an environment of its own: needs python3 with
# venv, and the network.
#   tests/verifiers.sh
set -eu
cd "$(dirname "$0")/.."

environment=target/verifiers
[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check standardwebhooks==1.0.0
cargo build --locked --quiet --bin carillon
"$environment/bin/python" tests/verifiers/webhook.py target/debug/carillon
"$environment/bin/pip" install --quiet --disable-pip-version-check mcp==2.3.0
"$environment/bin/python" tests/verifiers/agent.py target/debug/carillon
