"""A JWKS that is served by https, and may change."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.support.certificates import Authority


class JwksServer:
    """The served document and the number of requests.

    Attributes:
        trusted: a PEM file with the authority of its certificate.
        body: the response; None for a failure.
    """

    def __init__(self, url: str, trusted: Path, keys: list[dict[str, Any]]) -> None:
        self.url = url
        self.trusted = trusted
        self.body: bytes | None = None
        self.requested = 0
        self.serve(keys)

    def serve(self, keys: list[dict[str, Any]]) -> None:
        self.body = json.dumps({"keys": keys}).encode()

    @property
    def jaas_options(self) -> str:
        return f'ssl.truststore.location="{self.trusted}" ssl.truststore.type="PEM"'


@contextmanager
def serving(directory: Path, keys: list[dict[str, Any]]) -> Iterator[JwksServer]:
    authority = Authority()
    trusted = directory / "authority.pem"
    trusted.write_text(authority.certificate)
    identity = authority.issue("keys").store(directory / "server.pem")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requested += 1
            body = served.body
            self.send_response(200 if body is not None else 500)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *words: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("localhost", 0), Handler) as http:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity)
        http.socket = context.wrap_socket(http.socket, server_side=True)
        served = JwksServer(f"https://localhost:{http.server_port}/keys", trusted, keys)
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            http.shutdown()
            thread.join()
