"""A receiver that verifies calls with the reference library of Standard Webhooks, and a node that makes them."""

import base64
import datetime
import http.server
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def secret():
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


OLD, NEW, OTHER = secret(), secret(), secret()
ARRIVED = queue.Queue()


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        ARRIVED.put((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def put(url, content_type, body):
    request = urllib.request.Request(
        url, data=body.encode(), method="PUT", headers={"content-type": content_type}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def event(at):
    stamp = at.strftime("%Y%m%dT%H%M%SZ")
    lines = f"""BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Example//Verifier//EN
BEGIN:VEVENT
UID:verified@example.org
DTSTAMP:{stamp}
DTSTART:{stamp}
SUMMARY:Größe \\, 会議 "and" <more>
BEGIN:VALARM
ACTION:EMAIL
TRIGGER:PT0S
SUMMARY:x
DESCRIPTION:x
END:VALARM
END:VEVENT
END:VCALENDAR
"""
    return lines.replace("\n", "\r\n")


def refuses(verifier, body, headers):
    try:
        verifier.verify(body, headers)
    except WebhookVerificationError:
        return True
    return False


def main(binary):
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    import threading

    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        secrets = os.path.join(folder, "secrets")
        with open(secrets, "w", encoding="utf-8") as file:
            file.write(f"{NEW}\n{OLD}\n")
        port = free_port()
        environment = {
            **os.environ,
            "CARILLON__STORE__URL": f"sqlite://{folder}/carillon.db",
            "CARILLON__HTTP__LISTEN": f"127.0.0.1:{port}",
            "CARILLON__CHANNELS__WEBHOOK__SECRET_FILE": secrets,
            "CARILLON__CHANNELS__WEBHOOK__ALLOW_NETWORKS": "127.0.0.1",
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
            owner = {
                "webhook": {"url": f"http://127.0.0.1:{receiver.server_port}/hook"},
                "routes": [{"action": "EMAIL", "channel": "webhook"}],
            }
            put(f"{api}/v1/owners/anna", "application/json", json.dumps(owner))
            due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
            put(f"{api}/v1/sources/home/events/e?owner=anna", "text/calendar", event(due))
            headers, body = ARRIVED.get(timeout=30)
        finally:
            node.terminate()
            node.wait(30)
    for known in (NEW, OLD):
        assert Webhook(known).verify(body, headers)["type"] == "alarm"
    assert refuses(Webhook(OTHER), body, headers), "another secret verifies it"
    assert refuses(Webhook(NEW), body.replace("alarm", "alert"), headers), "another body is verified"
    aged = {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) - 600)}
    assert refuses(Webhook(NEW), body, aged), "another time is verified"
    print("standardwebhooks (PyPI): verified by the old secret and the new one, and refused what was changed")


main(sys.argv[1])
