"""HTTP control of a proxy or a test broker, for test suites in any language.

| request | effect and response |
|---|---|
| `POST /faults` | add the faults in the body; 201 and a list of their statuses |
| `GET /faults` | list the active faults and those that have ended |
| `GET /faults/1` | status of one fault; `?hits=1&timeoutMs=5000` waits for hits |
| `POST /faults/1/release` | end the fault; held requests continue |
| `DELETE /faults/1`, `DELETE /faults` | release and remove one fault, or all |
| `GET /requests` | the last exchanges and pending ones; `?api=PRODUCE&client=id` selects |
| `GET /schema` | JSON schema of the body of `POST /faults` |
| `GET /broker`, `POST /broker/METHOD` | the methods of a test broker (`brokertwin.testing`) |

Bodies are `application/json`. Errors have a body `{"error": …, "hint": …}` and the status 400, 404,
405 or 408, or one of `HttpAccess`: 401, 403, 411, 413 or 415.
"""

import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qs

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.faults import fault_file
from brokertwin.gateway.faults.fault import Fault, FaultSpec, api_key_of
from brokertwin.gateway.faults.injection import FaultSet

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

WAIT_MS, WAIT_MS_MAX = 5_000, 60_000
PATHS = "/faults, /faults/ID, /faults/ID/release, /requests, /schema"


class Verbs(Protocol):
    """The methods of a test broker."""

    def described(self) -> dict[str, Any]:
        """Return the address for clients, and the arguments of each method."""

    def call(self, name: str, body: Any) -> Any:
        """Call a method. Raises UserError, TimeoutError."""

    def add_fault(self, spec: FaultSpec) -> Fault:
        """Add a fault that the broker can have. Raises UserError."""


class _Reply(NamedTuple):
    status: HTTPStatus
    body: Any


class _Refused(Exception):
    """An HTTP request that is rejected."""

    def __init__(self, status: HTTPStatus, error: str, hint: str = "") -> None:
        super().__init__(error)
        self.reply = _Reply(status, {"error": error, "hint": hint})


def app(
    faults: FaultSet, documents: Callable[[], list[bytes]], verbs: Verbs | None = None
) -> "WSGIApplication":
    """Return the WSGI application.

    Args:
        faults: faults of the proxy or broker.
        documents: returns the exchanges as lines of JSON; called from any thread.
        verbs: methods of a test broker; None for a proxy.
    """
    control = _Control(faults, documents, verbs)

    def respond(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        try:
            reply = control.reply(environ)
        except UserError as error:
            reply = _Refused(HTTPStatus.BAD_REQUEST, error.message, error.hint).reply
        except _Refused as refused:
            reply = refused.reply
        body = msgspec.json.encode(reply.body) + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(f"{reply.status.value} {reply.status.phrase}", headers)
        return [body]

    return respond


class _Control:
    def __init__(
        self, faults: FaultSet, documents: Callable[[], list[bytes]], verbs: Verbs | None
    ) -> None:
        self._faults = faults
        self._documents = documents
        self._verbs = verbs

    def reply(self, environ: "WSGIEnvironment") -> _Reply:
        """Return the response to a request. Raises _Refused, UserError."""
        method = environ["REQUEST_METHOD"]
        query = {k: v[-1] for k, v in parse_qs(environ.get("QUERY_STRING", "")).items()}
        match [part for part in environ["PATH_INFO"].split("/") if part]:
            case ["faults"]:
                return self._all(_allowed(method, "GET", "POST", "DELETE"), environ)
            case ["faults", number]:
                return self._one(_allowed(method, "GET", "DELETE"), number, query)
            case ["faults", number, "release"]:
                _allowed(method, "POST")
                fault = self._fault(number)
                fault.release()
                return _Reply(HTTPStatus.OK, fault_file.status(fault))
            case ["requests"]:
                _allowed(method, "GET")
                return _Reply(HTTPStatus.OK, self._requests(query))
            case ["schema"]:
                _allowed(method, "GET")
                return _Reply(HTTPStatus.OK, fault_file.schema())
            case ["broker"] if self._verbs is not None:
                _allowed(method, "GET")
                return _Reply(HTTPStatus.OK, self._verbs.described())
            case ["broker", name] if self._verbs is not None:
                _allowed(method, "POST")
                return self._call(self._verbs, name, environ)
        of_broker = "" if self._verbs is None else ", /broker, /broker/METHOD"
        raise _Refused(HTTPStatus.NOT_FOUND, "Unknown path.", f"Paths: {PATHS}{of_broker}.")

    def _call(self, verbs: Verbs, name: str, environ: "WSGIEnvironment") -> _Reply:
        try:
            document = _json(environ) if environ.get("CONTENT_LENGTH", "0") not in ("", "0") else {}
            return _Reply(HTTPStatus.OK, {"result": verbs.call(name, document)})
        except TimeoutError as error:
            raise _Refused(HTTPStatus.REQUEST_TIMEOUT, f"{error}.") from None

    def _all(self, method: str, environ: "WSGIEnvironment") -> _Reply:
        if method == "GET":
            return _Reply(HTTPStatus.OK, [fault_file.status(f) for f in self._faults.faults])
        if method == "DELETE":
            self._faults.clear()
            return _Reply(HTTPStatus.OK, [])
        add = self._faults.add if self._verbs is None else self._verbs.add_fault
        added = [add(spec) for spec in fault_file.specs_in(_json(environ), "Body")]
        return _Reply(HTTPStatus.CREATED, [fault_file.status(fault) for fault in added])

    def _one(self, method: str, number: str, query: dict[str, str]) -> _Reply:
        fault = self._fault(number)
        if method == "DELETE":
            self._faults.remove(fault.number)
        elif "hits" in query:
            hits, timeout_ms = _number(query, "hits", 1), _number(query, "timeoutMs", WAIT_MS)
            try:
                fault.wait(hits, min(timeout_ms, WAIT_MS_MAX) / 1000)
            except TimeoutError as error:
                raise _Refused(HTTPStatus.REQUEST_TIMEOUT, f"{error}.") from None
        return _Reply(HTTPStatus.OK, fault_file.status(fault))

    def _fault(self, number: str) -> Fault:
        fault = self._faults.get(int(number)) if number.isdecimal() else None
        if fault is None:
            raise _Refused(HTTPStatus.NOT_FOUND, f"No fault {number}.", "GET /faults lists all.")
        return fault

    def _requests(self, query: dict[str, str]) -> list[msgspec.Raw]:
        key = api_key_of(query["api"]) if "api" in query else None
        client = query.get("client")
        lines = self._documents()
        if key is None and client is None:
            return [msgspec.Raw(line) for line in lines]
        requests = []
        for line in lines:
            header = msgspec.json.decode(line).get("requestHeader", {})
            is_api = key in (None, header.get("requestApiKey"))
            if is_api and client in (None, header.get("clientId")):
                requests.append(msgspec.Raw(line))
        return requests


def _allowed(method: str, *methods: str) -> str:
    if method not in methods:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not allowed here.")
    return method


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isdecimal():
        raise _Refused(HTTPStatus.BAD_REQUEST, f"Invalid {name}={text!r}.", "Pass a number.")
    return int(text)


def _json(environ: "WSGIEnvironment") -> Any:
    """Return the decoded body of a request. Raises _Refused."""
    try:
        return json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or "0")))
    except ValueError as error:
        why = f"The body is not valid JSON: {error}."
    except RecursionError:
        why = "The body is nested too deeply."
    raise _Refused(HTTPStatus.BAD_REQUEST, why, "See GET /schema.")
