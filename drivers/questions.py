"""Questions for keys of an instance's stores, over HTTP: whoever is asked asks the owner.

    GET /stores/counts/the      {"store": "counts", "key": "the", "task": "1_2", "active": …}

Source: KIP-67, KIP-535; `KafkaStreams.queryMetadataForKey` in Kafka, which leaves the network to
the application. It asks nobody who it is.
"""

import http.client
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from brokerstream.clients.streams.key_owner import KeyOwner, key_owner
from brokerstream.clients.streams.layout import Layout
from brokerstream.clients.streams.streams_protocol import AssignmentInfo, HostInfo
from brokerstream.drivers.streams import Instance

ASK_S = 10.0
PATH_PARTS = 4
PASSED_ON = "X-Passed-On"
"""A question that another instance passed on is not passed on again."""


def ask(server: HostInfo, store: str, key: bytes, *, is_passed_on: bool = False) -> dict[str, Any]:
    """An instance's answer; `error` says why there is none."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=ASK_S)
    path = f"/stores/{quote_from_bytes(store.encode(), safe='')}/{quote_from_bytes(key, safe='')}"
    try:
        connection.request("GET", path, headers={PASSED_ON: "1"} if is_passed_on else {})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        return {"store": store, "key": _text(key), "error": f"{server} does not answer: {error}"}
    finally:
        connection.close()
    return answer


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


class Questions:
    """A server for one instance. Raises OSError where its address is taken."""

    def __init__(self, instance: Instance, layout: Layout, server: HostInfo) -> None:
        self._instance = instance
        self._layout = layout
        self._here = server
        self._http = ThreadingHTTPServer((server.host, server.port), _handler(self))
        self._thread = Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more questions."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, store: str, key: bytes, *, is_passed_on: bool) -> dict[str, Any]:
        """Where a key is and its value; `error` where nobody can tell now."""
        told: dict[str, Any] = {"store": store, "key": _text(key)}
        info = self._newest_info()
        if info is None:
            return told | {"error": "this instance has no assignment yet"}
        owner = key_owner(self._layout, info, store, key)
        if owner is None:
            return told | {"error": f"there is no store {store}"}
        told["task"] = str(owner.task)
        told["active"] = None if owner.active is None else str(owner.active)
        told["standby"] = [str(host) for host in owner.standby]
        if owner.active not in (None, self._here) and not is_passed_on:
            assert owner.active is not None
            return ask(owner.active, store, key, is_passed_on=True)
        return told | self._value(owner, store, key)

    def _value(self, owner: KeyOwner, store: str, key: bytes) -> dict[str, Any]:
        for running in list(self._instance.threads.values()):
            task = running.stream.tasks.get(owner.task)
            if task is not None and owner.task in running.stream.running:
                value = task.stores.by_name[store].get(key)
                return {"value": None if value is None else _text(value)}
        return {"error": f"task {owner.task} does not run here now"}

    def _newest_info(self) -> AssignmentInfo | None:
        streams = [running.stream for running in list(self._instance.threads.values())]
        known = [each for each in streams if each.assignor.info is not None]
        if not known:
            return None
        newest = max(known, key=lambda each: each.consumer.coordinator.generation.id)
        return newest.assignor.info


def _handler(questions: Questions) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = ASK_S

        def do_GET(self) -> None:
            parts = self.path.split("/")
            if len(parts) != PATH_PARTS or parts[1] != "stores":
                self.send_error(404)
                return
            store, key = unquote_to_bytes(parts[2]).decode(errors="replace"), parts[3]
            is_passed_on = self.headers.get(PASSED_ON) is not None
            told = questions.answer(store, unquote_to_bytes(key), is_passed_on=is_passed_on)
            body = json.dumps(told, ensure_ascii=False).encode()
            self.send_response(503 if "error" in told else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is written of questions."""

    return Handler
