"""The HTTP server of a job or a gateway: a page, its document, metrics and health.

| path | what |
|---|---|
| `/` | the page, which reads `/status.json` every two seconds |
| `/status.json` | the document (`status.py`) |
| `/metrics` | it for Prometheus |
| `/healthz` | 200 while the process is alive, else 503 |
| `/readyz` | 200 while the job's query runs, or the gateway serves, else 503 |

It only reads, and asks nobody who it is: by default it listens on the loopback address. Each
connection has a thread, so a slow reader holds up no other, nor the job.
"""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import msgspec
from prometheus_client import make_wsgi_app

from brokertwin.cli.watching.metrics import registry
from brokertwin.cli.watching.status import Phase
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from brokertwin.cli.watching.sources import Source

LOOPBACK = "127.0.0.1"
OPTION = "--http-listen"
PORTS = range(2**16)
SLOW_S = 10.0
"""How long a connection may be silent."""

TEXT, HTML, JSON = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json"
OK, UNAVAILABLE = "200 OK", "503 Service Unavailable"

_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
ITSELF_ONLY = ("Content-Security-Policy", _POLICY)
"""A browser loads nothing from elsewhere, whatever the page may say."""

Reply = tuple[str, str, bytes]
"""Status line, content type, body."""


def listen_address(text: str) -> tuple[str, int]:
    """The host and port of `--http-listen`; a port alone is one of the loopback address.

    Raises:
        UserError: it is no such thing.
    """
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) not in PORTS or (colon and not host):
        raise UserError(
            f"{OPTION} {text}: expected [HOST:]PORT.",
            "As in 9404, which is 127.0.0.1:9404, or 0.0.0.0:9404 for every address.",
        )
    return host.strip("[]") or LOOPBACK, int(port)


def app(source: "Source") -> "WSGIApplication":
    """The WSGI application."""
    metrics = make_wsgi_app(registry(source.status))
    page = (resources.files("brokertwin.cli.watching") / "page.html").read_bytes()
    pages: dict[str, Callable[[], Reply]] = {
        "/": lambda: (OK, HTML, page),
        "/status.json": lambda: (OK, JSON, msgspec.json.encode(source.status())),
        "/healthz": lambda: _health(source.pulse.is_alive(), "alive"),
        "/readyz": lambda: _health(source.pulse.phase is Phase.RUNNING, source.pulse.phase),
    }

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            reply = ("405 Method Not Allowed", TEXT, b"GET and HEAD only\n")
        elif path == "/metrics":
            found: Iterable[bytes] = metrics(environ, start_response)
            return found
        elif path in pages:
            reply = pages[path]()
        else:
            known = " ".join([*pages, "/metrics"])
            reply = ("404 Not Found", TEXT, f"There is {known}\n".encode())
        status, kind, body = reply
        headers = [("Content-Type", kind), ("Cache-Control", "no-store"), ITSELF_ONLY]
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return answer


def _health(is_well: bool, word: str) -> Reply:
    if is_well:
        return OK, TEXT, b"ok\n"
    return UNAVAILABLE, TEXT, f"not {word}\n".encode() if word == "alive" else f"{word}\n".encode()


class _Handler(WSGIRequestHandler):
    """Writes no line for each request."""

    timeout = SLOW_S

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ServerV6(_Server):
    address_family = socket.AF_INET6


@contextmanager
def served(source: "Source", option: str, host: str, port: int) -> Iterator[str]:
    """Serve at an address; gives the URL.

    Args:
        source: what is asked where it stands.
        option: how the user gave the address; an error begins with it.
        host: a name or address of this machine.
        port: 0 to 65535; 0 chooses one.

    Raises:
        UserError: the port is taken or may not be used, or the host is not this one.
    """
    kind = _ServerV6 if ":" in host else _Server
    try:
        server = make_server(host, port, app(source), server_class=kind, handler_class=_Handler)
    except OSError as error:
        hint = "Choose another port, or 0 for any that is free."
        if isinstance(error, PermissionError):
            hint = "Ports below 1024 are for root; choose a higher one, or 0 for any that is free."
        raise UserError(f"{option}: {error.strerror}.", hint) from None
    thread = Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
