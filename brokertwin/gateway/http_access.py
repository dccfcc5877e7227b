"""Access to the HTTP ports: which pages and programs may send requests.

A page in a browser can send requests to a local port. `Origin` shows pages of other sites. `Host`
shows a name that its owner has pointed at this machine (DNS rebinding): only addresses, names
without a dot, and names in the file of `--http-access` are allowed.
"""

import hmac
import ipaddress
import json
import ssl
import tomllib
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from brokertwin.errors import UserError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

BODY_BYTES_MAX = 1024 * 1024
HEALTH = frozenset({"/healthz", "/readyz"})
"""Paths that need no token."""


class _AccessFile(msgspec.Struct, forbid_unknown_fields=True):
    token: str | None = None
    certificate: str | None = None
    hosts: list[str] = []


class HttpAccess(NamedTuple):
    """Who may use an HTTP port.

    Attributes:
        token: token that requests must send as `Authorization: Bearer …`; None: no token.
        tls: context for HTTPS; None: plain HTTP.
        hosts: names with a dot under which clients may reach the port.
    """

    token: str | None = None
    tls: ssl.SSLContext | None = None
    hosts: frozenset[str] = frozenset()

    @classmethod
    def read(cls, file: Path | None) -> "HttpAccess":
        """Read the TOML file of `--http-access`. Raises UserError."""
        if file is None:
            return cls()
        try:
            access = msgspec.convert(tomllib.loads(file.read_text("utf-8")), _AccessFile)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UserError(
                f"Cannot read {file} of --http-access: {why}.",
                "It may have: token = '…', certificate = 'FILE.pem', hosts = ['NAME'].",
            ) from None
        if access.token is not None and not access.token.isascii():
            raise UserError(f"The token in {file} is not ASCII.", "Use letters and digits.")
        tls = None
        if access.certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                tls.load_cert_chain(file.parent / access.certificate)
            except OSError as error:
                raise UserError(
                    f"Cannot read the certificate {access.certificate}: {error.strerror or error}.",
                    "It is a PEM file with the private key and the certificates.",
                ) from None
        return cls(access.token, tls, frozenset(name.lower() for name in access.hosts))

    def guarded(self, application: "WSGIApplication") -> "WSGIApplication":
        """Return the application behind the checks; it never raises."""

        def respond(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
            refusal = self._refusal(environ)
            if refusal is not None:
                return _refused(start_response, *refusal)
            try:
                return application(environ, start_response)
            except Exception as error:  # noqa: BLE001 (a request ends, not the server)
                name = type(error).__name__
                return _refused(start_response, HTTPStatus.INTERNAL_SERVER_ERROR, name, "")

        return respond

    def _refusal(self, environ: "WSGIEnvironment") -> tuple[HTTPStatus, str, str] | None:
        host, origin = environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")
        if not is_allowed_host(host, self.hosts):
            return (
                HTTPStatus.FORBIDDEN,
                f"The name {host!r} is not allowed.",
                "Use an address, or add the name to `hosts` in the file of --http-access.",
            )
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return HTTPStatus.FORBIDDEN, f"Requests from {origin!r} are not allowed.", ""
        header = environ.get("HTTP_AUTHORIZATION", "")
        if self.token is not None and environ["PATH_INFO"] not in HEALTH:
            bearer = f"Bearer {self.token}"
            if not hmac.compare_digest(header.encode("latin-1", "replace"), bearer.encode()):
                hint = "Send `Authorization: Bearer TOKEN` with the token of --http-access."
                return HTTPStatus.UNAUTHORIZED, "The token is missing or wrong.", hint
        length = environ.get("CONTENT_LENGTH") or "0"
        if "HTTP_TRANSFER_ENCODING" in environ or not length.isdecimal():
            return HTTPStatus.LENGTH_REQUIRED, "The request has no Content-Length.", ""
        if int(length) > BODY_BYTES_MAX:
            return (
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The limit is {BODY_BYTES_MAX} bytes.",
                "",
            )
        kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if environ["REQUEST_METHOD"] == "POST" and int(length) and kind != "application/json":
            hint = "Send Content-Type: application/json."
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{kind or 'no type'} is not JSON.", hint
        return None


EVERYBODY = HttpAccess()
"""Access without a token, through HTTP."""


def is_allowed_host(header: str, hosts: Iterable[str] = ()) -> bool:
    """True if nobody else can have pointed the name in a `Host` header at this machine."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdecimal() else header
    name = name.lower().strip("[]").rstrip(".")
    if not name or "." not in name or name.endswith(".localhost") or name in hosts:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refused(
    start_response: "StartResponse", status: HTTPStatus, error: str, hint: str
) -> list[bytes]:
    body = json.dumps({"error": error, "hint": hint}).encode() + b"\n"
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response(f"{status.value} {status.phrase}", headers)
    return [body]
