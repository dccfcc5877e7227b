"""The HTTP server of a job or a gateway: a page, its document, metrics and health.

| path | what |
|---|---|
| `/` | the page, which reads `/status.json` every two seconds |
| `/status.json` | the document (`status.py`) |
| `/metrics` | the document for Prometheus |
| `/healthz` | 200 while the process is alive, else 503 |
| `/readyz` | 200 while the job's query runs, or the gateway serves, else 503 |

It is read-only and listens on the loopback address by default; `HttpAccess` has a token and TLS.
Each connection has its own thread, so that slow clients do not delay others or the job.
"""

import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import resources
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import msgspec
from prometheus_client import make_wsgi_app

from brokertwin.cli.options import PORTS, HttpPort
from brokertwin.cli.output import warn
from brokertwin.cli.watching.metrics import registry
from brokertwin.cli.watching.status import Phase
from brokertwin.errors import UserError
from brokertwin.gateway.http_access import EVERYBODY, HttpAccess

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from brokertwin.cli.watching.sources import StatusSource

LOOPBACK = "127.0.0.1"
OPTION = "--http-listen"
CONNECTIONS_MAX = 64
SLOW_S = 10.0
"""Timeout of an idle connection."""

TEXT, HTML, JSON = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json"
OK, UNAVAILABLE = "200 OK", "503 Service Unavailable"

_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
ITSELF_ONLY = ("Content-Security-Policy", _POLICY)
"""Content security policy: the page loads nothing from other origins."""

Reply = tuple[str, str, bytes]
"""Status line, content type, body."""


def listen_address(text: str, option: str = OPTION) -> tuple[str, int]:
    """Parse the value of an option; a port alone is on the loopback address.

    Raises:
        UserError: the value is invalid.
    """
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) not in PORTS or (colon and not host):
        raise UserError(
            f"Invalid value of {option}: {text!r}.",
            "Pass [HOST:]PORT: 9404 for 127.0.0.1:9404, or 0.0.0.0:9404 for every address.",
        )
    return host.strip("[]") or LOOPBACK, int(port)


def served_control(
    application: "WSGIApplication", option: str, at: tuple[str, int], access: HttpAccess
) -> AbstractContextManager[str]:
    """Serve an application that changes what brokers do; warn if everybody may send requests."""
    host, port = at
    if access.token is None and not _is_loopback(host):
        warn(
            f"Who reaches {option} {host}:{port} can inject faults, and in a gateway write records."
            " --http-access FILE adds a token."
        )
    return served(application, f"{option} {port}", host, port, access)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def app(source: "StatusSource") -> "WSGIApplication":
    metrics = make_wsgi_app(registry(source.status))
    page = (resources.files("brokertwin.cli.watching") / "page.html").read_bytes()
    pages: dict[str, Callable[[], Reply]] = {
        "/": lambda: (OK, HTML, page),
        "/status.json": lambda: (OK, JSON, msgspec.json.encode(source.status())),
        "/healthz": lambda: _health(source.pulse.is_alive(), "alive"),
        "/readyz": lambda: _health(source.pulse.phase is Phase.RUNNING, source.pulse.phase),
    }

    def respond(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            reply = ("405 Method Not Allowed", TEXT, b"GET and HEAD only\n")
        elif path == "/metrics":
            result: Iterable[bytes] = metrics(environ, start_response)
            return result
        elif path in pages:
            reply = pages[path]()
        else:
            paths = " ".join([*pages, "/metrics"])
            reply = ("404 Not Found", TEXT, f"Paths: {paths}\n".encode())
        status, kind, body = reply
        headers = [("Content-Type", kind), ("Cache-Control", "no-store"), ITSELF_ONLY]
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return respond


def _health(is_well: bool, word: str) -> Reply:
    if is_well:
        return OK, TEXT, b"ok\n"
    return UNAVAILABLE, TEXT, f"not {word}\n".encode() if word == "alive" else f"{word}\n".encode()


class _Handler(WSGIRequestHandler):
    timeout = SLOW_S

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    tls: ssl.SSLContext | None = None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._free = BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, or close it if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Handle the requests of a connection, with TLS if it is set."""
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(SLOW_S)
        with self.tls.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that ends or sends no HTTP is no fault of the server."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


@contextmanager
def status_page(
    source: "StatusSource", http: HttpPort, report: Callable[[str], None]
) -> Iterator[None]:
    """Serve a status at the address of `--http-listen`, if given; `report` gets the URL."""
    if http.listen is None:
        yield
        return
    host, port = listen_address(http.listen)
    access = HttpAccess.read(http.access)
    with served(app(source), f"{OPTION} {http.listen}", host, port, access) as url:
        report(f"status page at {url}")
        yield


@contextmanager
def served(
    application: "WSGIApplication",
    option: str,
    host: str,
    port: int,
    access: HttpAccess = EVERYBODY,
) -> Iterator[str]:
    """Serve at an address; yields the URL.

    Args:
        application: `app`, or another one.
        option: the user's option; errors start with it.
        host: a name or address of this machine.
        port: 0 to 65535; 0 selects a free one.
        access: who may use it.

    Raises:
        UserError: the port is in use or not permitted, or the host is not this machine.
    """
    kind = _ServerV6 if ":" in host else _Server
    try:
        server = make_server(
            host, port, access.guarded(application), server_class=kind, handler_class=_Handler
        )
    except OSError as error:
        hint = "Choose another port, or 0 for any free port."
        if isinstance(error, PermissionError):
            hint = "Ports below 1024 require root; choose a higher port, or 0 for any free port."
        raise UserError(f"Cannot listen on {option}: {error.strerror}.", hint) from None
    server.tls = access.tls
    thread = Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http{'s' * (access.tls is not None)}://{shown}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
