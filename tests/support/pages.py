"""A page of metrics that a test may change at any time, served on loopback."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Page:
    """`text` is what the next scrape gets."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.address = ""


@contextmanager
def served_page(text: str = "", port: int = 0) -> Iterator[Page]:
    page = Page(text)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page.text.encode()
            with suppress(OSError):  # the scraper may have gone
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    page.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield page
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
