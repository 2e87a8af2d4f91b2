"""A web server for tests.

`/` answers with its pid, `/fail` makes `/health` answer 500 from then on, and `/crash` ends it.
"""

from __future__ import annotations

import argparse
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    healthy = True

    def do_GET(self) -> None:
        if self.path == "/crash":
            os._exit(7)
        if self.path == "/fail":
            Handler.healthy = False
        failing = self.path == "/health" and not Handler.healthy
        self.send_response(500 if failing else 200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args()
    ThreadingHTTPServer((given.host, given.port), Handler).serve_forever()


main()
