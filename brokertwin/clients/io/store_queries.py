"""Interactive queries: HTTP access to the stores of a Streams instance.

    GET /stores/counts/the               {"store": "counts", "key": "the", "task": "1_2", …}
    GET /stores/counts?from=a&to=m       {"store": "counts", "items": [{"key": …, "value": …}, …]}

Any instance forwards a query to the owner of the key. Without `from` and `to` a range has all keys;
it is queried from the owner of each task and merged in key order. With `stale=1`, if the owner does
not respond, the standby instances are queried, and then an owner that is restoring. Their data may
be older, so the response has `stale`.

Source: KIP-67, KIP-535; `KafkaStreams.queryMetadataForKey`, `enableStaleStores` in Kafka, which
leaves the network to the application. There is no authentication.
"""

import http.client
import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote_to_bytes, urlsplit

from brokertwin.clients.io.streams import StreamsInstance
from brokertwin.clients.streams.key_owner import KeyOwner, key_owner, store_owners
from brokertwin.clients.streams.layout import Layout, TaskId
from brokertwin.clients.streams.stores import KeyValueStore
from brokertwin.clients.streams.streams_protocol import AssignmentInfo, HostInfo
from brokertwin.errors import UserError
from brokertwin.gateway.http_access import is_allowed_host

ASK_S = 10.0
TASK = re.compile(rb"\d{1,9}_\d{1,9}")
QueryResult = dict[str, Any]


class StoreQuery(NamedTuple):
    """A query for a `key`, or for the range from `first` to `last`.

    `task`: forwarded by another instance, for this task only.
    """

    store: str
    key: bytes | None = None
    first: bytes | None = None
    last: bytes | None = None
    may_be_stale: bool = False
    task: str | None = None

    @property
    def path(self) -> str:
        parameters = {"from": self.first, "to": self.last, "task": self.task and self.task.encode()}
        parameters["stale"] = b"1" if self.may_be_stale else None
        words = [
            f"{name}={quote(value, safe='')}"
            for name, value in parameters.items()
            if value is not None
        ]
        place = [self.store.encode(), *([] if self.key is None else [self.key])]
        path = "".join(f"/{quote(part, safe='')}" for part in place)
        return f"/stores{path}?{'&'.join(words)}"

    @classmethod
    def of(cls, path: str) -> "StoreQuery | None":
        """Parse an HTTP path; None if it is no query."""
        split = urlsplit(path)
        parts = split.path.split("/")[1:]
        if len(parts) not in (2, 3) or parts[0] != "stores":
            return None
        fields = parse_qs(split.query, keep_blank_values=True, encoding="latin-1")
        parameters = {name: values[0].encode("latin-1") for name, values in fields.items()}
        if "task" in parameters and not TASK.fullmatch(parameters["task"]):
            return None
        return cls(
            _text(unquote_to_bytes(parts[1])),
            unquote_to_bytes(parts[2]) if parts[2:] else None,
            parameters.get("from"),
            parameters.get("to"),
            "stale" in parameters,
            parameters["task"].decode() if "task" in parameters else None,
        )

    def header(self) -> QueryResult:
        return {"store": self.store, **({} if self.key is None else {"key": _text(self.key)})}


def query_instance(server: HostInfo, query: StoreQuery) -> QueryResult:
    """Query an instance; `error` has the reason of a failure."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=ASK_S)
    try:
        connection.request("GET", query.path)
        result: QueryResult = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        return query.header() | {"error": f"{server} did not respond: {error}"}
    finally:
        connection.close()
    return result


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


class StoreQueryServer:
    """A server for one instance. Raises OSError if its address is in use."""

    def __init__(self, instance: StreamsInstance, layout: Layout, server: HostInfo) -> None:
        self._instance = instance
        self._layout = layout
        self._here = server
        self._http = ThreadingHTTPServer((server.host, server.port), _handler(self.result))
        self._thread = Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def result(self, query: StoreQuery) -> QueryResult:
        """Return a key's owner and value, or a range; `error` on failure."""
        header = query.header()
        info = self._newest_info()
        if info is None:
            return header | {"error": "this instance has no assignment yet"}
        owners = store_owners(self._layout, info, query.store)
        if not owners:
            return header | {"error": f"unknown store {query.store}"}
        if query.task is not None:
            return header | self._query_local(query)
        if query.key is None:
            return header | self._range(query, owners)
        owner = key_owner(self._layout, info, query.store, query.key)
        assert owner is not None, "the store exists"
        place = {
            "task": str(owner.task),
            "active": None if owner.active is None else str(owner.active),
            "standby": [str(host) for host in owner.standby],
        }
        return self._first_of(query, owner) | header | place

    def _range(self, query: StoreQuery, owners: list[KeyOwner]) -> QueryResult:
        items: list[QueryResult] = []
        is_stale = False
        for owner in owners:
            result = self._first_of(query, owner)
            if "error" in result:
                return result
            items += result["items"]
            is_stale |= "stale" in result
        result = {"items": sorted(items, key=lambda item: str(item["key"]).encode())}
        return result | ({"stale": True} if is_stale else {})

    def _first_of(self, query: StoreQuery, owner: KeyOwner) -> QueryResult:
        """Query the owner of a task; with `stale=1` then the standbys."""
        strict = query._replace(task=str(owner.task), may_be_stale=False)
        active = owner.active or self._here
        refusal = result = self._query(active, strict)
        if query.may_be_stale and "error" in result:
            stale = strict._replace(may_be_stale=True)
            results = (self._query(host, stale) for host in (*owner.standby, active))
            result = next((each for each in results if "error" not in each), refusal)
        return result

    def _query(self, host: HostInfo, query: StoreQuery) -> QueryResult:
        return self._query_local(query) if host == self._here else query_instance(host, query)

    def _query_local(self, query: StoreQuery) -> QueryResult:
        store = self._store(query)
        if store is None:
            return {"error": f"task {query.task} does not run here now"}
        return self._found(store, query) | ({"stale": True} if query.may_be_stale else {})

    def _found(self, store: KeyValueStore, query: StoreQuery) -> QueryResult:
        if query.key is not None:
            value = store.get(query.key)
            return {"value": None if value is None else _text(value)}
        entries = store.range(query.first, query.last)
        return {"items": [{"key": _text(key), "value": _text(value)} for key, value in entries]}

    def _store(self, query: StoreQuery) -> KeyValueStore | None:
        assert query.task is not None
        task_id = TaskId(*map(int, query.task.split("_")))
        for running in list(self._instance.threads.values()):
            stores = running.stream.stores_of(task_id, may_be_stale=query.may_be_stale)
            if stores is not None:
                return stores.by_name.get(query.store)
        return None

    def _newest_info(self) -> AssignmentInfo | None:
        streams = [running.stream for running in list(self._instance.threads.values())]
        with_info = [each for each in streams if each.assignor.info is not None]
        if not with_info:
            return None
        newest = max(with_info, key=lambda each: each.consumer.coordinator.generation.id)
        return newest.assignor.info


def served_queries(instance: StreamsInstance, layout: Layout) -> "StoreQueryServer | None":
    """Serve key queries. Raises UserError if the address is in use."""
    if instance.end_point is None:
        return None
    try:
        return StoreQueryServer(instance, layout, instance.end_point)
    except OSError as error:
        raise UserError(
            f"Cannot listen on --application-server {instance.end_point}: {error.strerror}.",
            "Pass another port.",
        ) from None


def _handler(result: Callable[[StoreQuery], QueryResult]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = ASK_S

        def do_GET(self) -> None:
            if not is_allowed_host(self.headers.get("Host", "")):
                self.send_error(403)
                return
            query = StoreQuery.of(self.path)
            if query is None:
                self.send_error(404)
                return
            header = result(query)
            body = json.dumps(header, ensure_ascii=False).encode()
            self.send_response(503 if "error" in header else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    return Handler
