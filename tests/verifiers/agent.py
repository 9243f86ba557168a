"""The official client of the Model Context Protocol as an agent, and a node that serves it: over HTTP, and over the
standard input and output of the binary, each in the way of today and in that of the years before."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from mcp import Client, StdioServerParameters

TOOLS = {
    "alarm_schedule",
    "alarm_list",
    "alarm_get",
    "alarm_cancel",
    "alarm_history",
    "alarm_stats",
    "alarm_complete",
    "alarm_fail",
    "time_parse",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def introduce(api):
    owner = {"email": "anna@example.org", "time_zone": "Europe/Berlin"}
    request = urllib.request.Request(
        f"{api}/v1/owners/anna",
        data=json.dumps(owner).encode(),
        method="PUT",
        headers={"content-type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()


async def told(client, tool, arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, f"{tool}: {result}"
    return result.structured_content


async def refused(client, tool, arguments, says):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, f"{tool}: {result}"
    assert says in result.content[0].text, f"{tool}: {result}"


async def drive(server, mode):
    async with Client(server, mode=mode, read_timeout_seconds=30) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS, tools
        alarm = await told(
            client,
            "alarm_schedule",
            {"owner": "anna", "when": "in 2 hours", "channel": "email", "label": "Größe 会議"},
        )
        of_alarm = {"owner": "anna", "id": alarm["id"]}
        got = await told(client, "alarm_get", of_alarm)
        assert (got["created_via"], got["label"]) == ("mcp", "Größe 会議"), got
        listed = await told(client, "alarm_list", {"owner": "anna", "status": "active"})
        assert [item["id"] for item in listed["items"]] == [alarm["id"]], listed
        cancelled = await told(client, "alarm_cancel", of_alarm)
        assert cancelled["status"] == "cancelled", cancelled

        soon = {"owner": "anna", "delay": "1ms", "channel": "email", "label": "Tea"}
        fired = await told(client, "alarm_schedule", soon)
        for _ in range(300):
            history = await told(client, "alarm_history", {"owner": "anna", "alarm": fired["id"]})
            if history["items"]:
                break
            await asyncio.sleep(0.1)
        firing = history["items"][0]
        assert firing["status"] == "sent", history
        report = {"trigger_id": firing["trigger_id"]}
        for tool in ("alarm_complete", "alarm_fail"):
            done = await told(client, tool, report)
            assert done["outcome"] == "completed", "that it was done is the last word"
        stats = await told(client, "alarm_stats", {"owner": "anna"})
        assert stats["completed"] >= 1, stats
        meant = await told(client, "time_parse", {"text": "2026-12-01T08:45", "timezone": "Europe/Berlin"})
        assert meant["at"] == "2026-12-01T07:45:00Z", meant
        await refused(client, "alarm_schedule", {**soon, "delay": "soon"}, "`delay`")


def main(binary):
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        environment = {
            **os.environ,
            "CARILLON__STORE__URL": f"sqlite://{folder}/carillon.db",
            "CARILLON__HTTP__LISTEN": f"127.0.0.1:{port}",
        }
        node = subprocess.Popen([binary, "serve"], env=environment, stderr=subprocess.DEVNULL)
        try:
            api = f"http://127.0.0.1:{port}"
            for _ in range(200):
                try:
                    urllib.request.urlopen(f"{api}/readyz", timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            introduce(api)
            relay = StdioServerParameters(command=binary, args=["mcp", "--url", api])
            for server in (f"{api}/mcp", relay):
                for mode in ("auto", "legacy"):
                    asyncio.run(drive(server, mode))
        finally:
            node.terminate()
            node.wait(30)
    print("mcp (PyPI): nine tools, over HTTP and standard input, with and without the handshake of before")


main(os.path.abspath(sys.argv[1]))
