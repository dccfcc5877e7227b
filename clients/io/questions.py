"""Questions for keys of an instance's stores, over HTTP: whoever is asked asks the owner.

    GET /stores/counts/the               {"store": "counts", "key": "the", "task": "1_2", …}
    GET /stores/counts?from=a&to=m       {"store": "counts", "items": [{"key": …, "value": …}, …]}

Without `from` and `to` a range has all keys; it is asked of each task's owner, and put together in
the keys' order. With `stale=1`, where the owner does not answer, those with copies are asked, and
at last the owner that restores: what they have may be older, and the answer says `stale`.

Source: KIP-67, KIP-535; `KafkaStreams.queryMetadataForKey`, `enableStaleStores` in Kafka, which
leaves the network to the application. It asks nobody who it is.
"""

import http.client
import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote_to_bytes, urlsplit

from brokertwin.clients.io.streams import Instance
from brokertwin.clients.streams.key_owner import KeyOwner, key_owner, store_owners
from brokertwin.clients.streams.layout import Layout, TaskId
from brokertwin.clients.streams.stores import KeyValueStore
from brokertwin.clients.streams.streams_protocol import AssignmentInfo, HostInfo

ASK_S = 10.0
TASK = re.compile(rb"\d{1,9}_\d{1,9}")
Answer = dict[str, Any]


class Question(NamedTuple):
    """For a `key`, or where that is None for those `first` to `last`, with None all of them.

    `task`: another instance passes the question on, and wants what is there of this task.
    """

    store: str
    key: bytes | None = None
    first: bytes | None = None
    last: bytes | None = None
    may_be_stale: bool = False
    task: str | None = None

    @property
    def path(self) -> str:
        """What is asked for in HTTP."""
        given = {"from": self.first, "to": self.last, "task": self.task and self.task.encode()}
        given["stale"] = b"1" if self.may_be_stale else None
        words = [
            f"{name}={quote(value, safe='')}" for name, value in given.items() if value is not None
        ]
        place = [self.store.encode(), *([] if self.key is None else [self.key])]
        path = "".join(f"/{quote(part, safe='')}" for part in place)
        return f"/stores{path}?{'&'.join(words)}"

    @classmethod
    def of(cls, path: str) -> "Question | None":
        """None where it is no question."""
        split = urlsplit(path)
        parts = split.path.split("/")[1:]
        if len(parts) not in (2, 3) or parts[0] != "stores":
            return None
        found = parse_qs(split.query, keep_blank_values=True, encoding="latin-1")
        given = {name: values[0].encode("latin-1") for name, values in found.items()}
        if "task" in given and not TASK.fullmatch(given["task"]):
            return None
        return cls(
            _text(unquote_to_bytes(parts[1])),
            unquote_to_bytes(parts[2]) if parts[2:] else None,
            given.get("from"),
            given.get("to"),
            "stale" in given,
            given["task"].decode() if "task" in given else None,
        )

    def told(self) -> Answer:
        """What every answer says."""
        return {"store": self.store} if self.key is None else self._of_key()

    def _of_key(self) -> Answer:
        assert self.key is not None
        return {"store": self.store, "key": _text(self.key)}


def ask(server: HostInfo, question: Question) -> Answer:
    """An instance's answer; `error` says why there is none."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=ASK_S)
    try:
        connection.request("GET", question.path)
        answer: Answer = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        return question.told() | {"error": f"{server} did not respond: {error}"}
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
        self._http = ThreadingHTTPServer((server.host, server.port), _handler(self.answer))
        self._thread = Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more questions."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, question: Question) -> Answer:
        """Where a key is and its value, or a range; `error` where nobody can tell now."""
        told = question.told()
        info = self._newest_info()
        if info is None:
            return told | {"error": "this instance has no assignment yet"}
        owners = store_owners(self._layout, info, question.store)
        if not owners:
            return told | {"error": f"there is no store {question.store}"}
        if question.task is not None:
            return told | self._here_of(question)
        if question.key is None:
            return told | self._range(question, owners)
        owner = key_owner(self._layout, info, question.store, question.key)
        assert owner is not None, "there is such a store"
        place = {
            "task": str(owner.task),
            "active": None if owner.active is None else str(owner.active),
            "standby": [str(host) for host in owner.standby],
        }
        return self._first_of(question, owner) | told | place

    def _range(self, question: Question, owners: list[KeyOwner]) -> Answer:
        items: list[Answer] = []
        is_stale = False
        for owner in owners:
            found = self._first_of(question, owner)
            if "error" in found:
                return found
            items += found["items"]
            is_stale |= "stale" in found
        found = {"items": sorted(items, key=lambda item: str(item["key"]).encode())}
        return found | ({"stale": True} if is_stale else {})

    def _first_of(self, question: Question, owner: KeyOwner) -> Answer:
        """What the owner of a task says, or, if that will do, the first with a copy who can."""
        strict = question._replace(task=str(owner.task), may_be_stale=False)
        active = owner.active or self._here
        refusal = found = self._ask(active, strict)
        if question.may_be_stale and "error" in found:
            stale = strict._replace(may_be_stale=True)
            answers = (self._ask(host, stale) for host in (*owner.standby, active))
            found = next((each for each in answers if "error" not in each), refusal)
        return found

    def _ask(self, host: HostInfo, question: Question) -> Answer:
        return self._here_of(question) if host == self._here else ask(host, question)

    def _here_of(self, question: Question) -> Answer:
        """What is here of a task."""
        store = self._store(question)
        if store is None:
            return {"error": f"task {question.task} does not run here now"}
        return self._found(store, question) | ({"stale": True} if question.may_be_stale else {})

    def _found(self, store: KeyValueStore, question: Question) -> Answer:
        if question.key is not None:
            value = store.get(question.key)
            return {"value": None if value is None else _text(value)}
        found = store.range(question.first, question.last)
        return {"items": [{"key": _text(key), "value": _text(value)} for key, value in found]}

    def _store(self, question: Question) -> KeyValueStore | None:
        assert question.task is not None
        wanted = TaskId(*map(int, question.task.split("_")))
        for running in list(self._instance.threads.values()):
            stores = running.stream.stores_of(wanted, may_be_stale=question.may_be_stale)
            if stores is not None:
                return stores.by_name.get(question.store)
        return None

    def _newest_info(self) -> AssignmentInfo | None:
        streams = [running.stream for running in list(self._instance.threads.values())]
        known = [each for each in streams if each.assignor.info is not None]
        if not known:
            return None
        newest = max(known, key=lambda each: each.consumer.coordinator.generation.id)
        return newest.assignor.info


def _handler(answer: Callable[[Question], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = ASK_S

        def do_GET(self) -> None:
            question = Question.of(self.path)
            if question is None:
                self.send_error(404)
                return
            told = answer(question)
            body = json.dumps(told, ensure_ascii=False).encode()
            self.send_response(503 if "error" in told else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is written of questions."""

    return Handler
