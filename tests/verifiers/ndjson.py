"""Tells schemathesis how lines of JSON are sent: as they are."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
