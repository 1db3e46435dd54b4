"""A receiver of gscd's webhooks: checks the signature, drops what came before, starts a job.

    python3 receiver.py --port 8080 --secret-file /run/secrets/gscd

It needs no package. In front of it stands whatever ends TLS: gscd posts to https only,
or to this host.
"""

import argparse
import hashlib
import hmac
import http.server
import json
import sys
import time

WITHIN = 300  # seconds that a signature may be old, or of a clock that is ahead
LARGEST = 1 << 20  # bytes of a body


def signed(header: str, body: bytes, secrets: dict[str, bytes]) -> bool:
    """Tells whether a body was signed with a secret that we know, a short while ago."""
    fields = dict(part.strip().partition("=")[::2] for part in header.split(","))
    try:
        age = abs(time.time() - int(fields["t"]))
    except (KeyError, ValueError):
        return False
    secret = secrets.get(fields.get("keyid", ""), b"")
    want = hmac.new(secret, fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    # compare_digest takes as long for a wrong first byte as for a wrong last one.
    return bool(secret) and age <= WITHIN and hmac.compare_digest(want, fields.get("v1", ""))


def start_job(event: dict) -> None:
    """What is to be done for a sealed day. Here it is said alone."""
    data = event["data"]
    print(f"{data['table']} {data['label']} is sealed: version {data['version']}, {data['rows']} rows", flush=True)


class Receiver(http.server.BaseHTTPRequestHandler):
    secrets: dict[str, bytes] = {}
    seen: set[str] = set()  # a real one keeps this where it survives a restart

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST:
            return self.answer(413)
        body = self.rfile.read(length)
        if not signed(self.headers.get("Gscd-Signature", ""), body, self.secrets):
            return self.answer(401)
        event = json.loads(body)
        if event["id"] in self.seen:  # what is told at least once may come twice
            print(f"{event['id']} came before", flush=True)
        elif event["type"] == "io.gscd.seal":
            start_job(event)
        self.seen.add(event["id"])
        return self.answer(204)  # only now: without a 2xx gscd tells it again

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--port", type=int, default=8080)
    args.add_argument("--secret-file", required=True)
    args.add_argument("--key-id", default="gscd")
    given = args.parse_args()
    with open(given.secret_file, "rb") as f:
        Receiver.secrets = {given.key_id: f.read().rstrip(b"\r\n")}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", given.port), Receiver)
    print(f"listening on port {server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
