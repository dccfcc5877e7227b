"""Scenes of the playground: requests to a cell, step by step, with what each step changed.

A scene is a JSON file in `assets/scenes`:

    {"title", "document", "about", "brokers": [1], "settings": {…}, "steps": [step, …]}

A step is a request of a client, time that passes, or an event of the cluster:

    {"say": "The consumer opens a session.", "client": "consumer", "api": "FETCH", "version": 13,
     "request": {…}, "keep": {"session": "sessionId"}, "rule": "…", "source": "KIP-227; …"}
    {"say": "Seven days pass.", "after_ms": 604800000}
    {"say": "Broker 2 is cut off.", "event": {"kind": "isolate-broker", "broker": 2}}

`keep` names values of the response by their path; `"$session"` in a later request is that value.
`"lost": true` loses the response on its way: the broker's state changes, the client does not see
it. `hidden` steps prepare the scene and are not shown. Expected error codes are in `errors`, which
the tests compare with the model and with a real broker. A counterexample of `explore` also has
`begin`, the time of its first step, and in each step the `nonce` and the `choices` of its event.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from brokertwin.protocol.errors import error_name
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import outputs
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.tables.state_rows import IDENTITY, ItemKind, Row, rows

CLUSTER = "scene"
START = 1_800_000_000_000
"""Time of the first step without a `begin` in the scene, in ms since 1970."""

STEP_MS = 100
SHOWN = (
    *(ItemKind.LOGS, ItemKind.PARTITIONS, ItemKind.REPLICAS, ItemKind.PRODUCERS),
    *(ItemKind.PRODUCER_BATCHES, ItemKind.SESSIONS, ItemKind.SESSION_PARTITIONS),
    *(ItemKind.GROUPS, ItemKind.MEMBERS, ItemKind.OFFSETS, ItemKind.TRANSACTIONAL_IDS),
)
"""The tables whose changes a step shows."""


class SceneError(ValueError):
    """A step cannot be sent; the text says why."""


class Player:
    """Plays a scene on a cell of its own. `do` sends a step; `reset` starts again.

    Attributes:
        now: time of the next step, in ms since 1970.
        kept: the values that steps have kept.
    """

    def __init__(self, scene: Mapping[str, Any]) -> None:
        self.scene = scene
        self.reset()

    def reset(self) -> None:
        """Start with an empty cluster, after the hidden steps."""
        settings = msgspec.convert(self.scene.get("settings", {}), BrokerSettings)
        self._cell = Cell(
            CellSettings(
                name=CLUSTER,
                cluster=CLUSTER,
                brokers=list(self.scene.get("brokers", [1])),
                broker_settings=settings,
                event_time="recorded",
                may_intervene=True,
            )
        )
        self.now = self._begin = self.scene.get("begin", START)
        self.kept: dict[str, Any] = {}
        self._count = 0
        self._asked: dict[str, str] = {}
        self._keeps: dict[str, Mapping[str, str]] = {}
        self._tables = self._read()
        for step in self.scene["steps"]:
            if step.get("hidden"):
                self.do(step)

    def do(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Send a step.

        Returns:
            `time`, `request`, `responses` (that of this request, and of earlier ones that waited),
            `errors` in the responses by name, and `changes` of the tables.

        Raises:
            SceneError: the request is invalid, or names an unknown API or value.
        """
        self._count += 1
        self.now += int(step.get("after_ms", STEP_MS))
        event = self._event(step)
        rows = self._cell.handle(msgspec.json.encode(event), Position(0, self._count))
        refused = [each for each in rows if each.topic == outputs.DEAD_LETTERS]
        if refused:
            reason = msgspec.json.decode(refused[0].value or b"")
            raise SceneError(f"{reason.get('error', 'invalid')}: {reason.get('detail', '')}")
        documents = {
            each.id: msgspec.json.decode(each.value)
            for each in rows
            if each.topic == outputs.RESPONSES and each.value is not None
        }
        responses = [
            {
                "id": name,
                "to": self._asked[name],
                "response": document["response"],
                "waited": name != event["id"],
            }
            for name, document in documents.items()
            if name in self._asked and "response" in document
        ]
        if not step.get("lost"):
            self._keeps[event["id"]] = step.get("keep", {})
        for each in responses:
            self.keep(self._keeps.pop(each["id"], {}), each["response"])
        before, self._tables = self._tables, self._read()
        return {
            "time": self.now - self._begin,
            "request": event.get("request"),
            "responses": responses,
            "waits": "api" in step and all(each["waited"] for each in responses),
            "lost": bool(step.get("lost")),
            "errors": [
                error_name(code) for each in responses for code in error_codes(each["response"])
            ],
            "changes": _changes(before, self._tables),
        }

    def tables(self) -> dict[str, list[Row]]:
        return {kind.value: found for kind, found in self._tables.items() if found}

    def _event(self, step: Mapping[str, Any]) -> dict[str, Any]:
        event: dict[str, Any] = {"id": f"step-{self._count}", "cluster": CLUSTER, "time": self.now}
        if "event" in step:
            return event | dict(step["event"])
        if "api" not in step:
            return event | {"kind": "tick"}
        if step["api"] not in API_KEYS:
            raise SceneError(f"There is no API {step['api']!r}.")
        client = step.get("client", "client")
        self._asked[event["id"]] = f"{client} {step['api']}"
        header = {
            "requestApiKey": API_KEYS[step["api"]],
            "requestApiVersion": step["version"],
            "correlationId": self._count,
            "clientId": client,
        }
        return event | {
            "broker": step.get("broker", self.scene.get("brokers", [1])[0]),
            "connection": step.get("connection", client),
            "nonce": step.get("nonce", f"nonce-{self._count}"),
            "choices": step.get("choices", {}),
            "requestHeader": header,
            "request": self.filled(step.get("request", {})),
        }

    def filled(self, value: Any) -> Any:
        """Return a value with `$name` replaced by what an earlier step kept."""
        if isinstance(value, dict):
            return {name: self.filled(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        if isinstance(value, str) and value.startswith("$"):
            if value[1:] not in self.kept:
                raise SceneError(f"No step has kept {value[1:]!r} yet.")
            return self.kept[value[1:]]
        return value

    def keep(self, keep: Mapping[str, str], response: Any) -> None:
        """Keep values of a response by their paths, for `filled`."""
        for name, path in keep.items():
            value = response
            for part in path.split("."):
                if isinstance(value, list):
                    value = dict(enumerate(value)).get(int(part))
                else:
                    value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                self.kept[name] = value

    def _read(self) -> dict[ItemKind, list[Row]]:
        columns = {CLUSTER: self._cell.columns()}
        return {kind: rows(kind, columns) for kind in SHOWN}


def error_codes(body: Any) -> list[int]:
    """The error codes in a response other than 0, in their order."""
    if isinstance(body, list):
        return [code for each in body for code in error_codes(each)]
    if not isinstance(body, dict):
        return []
    own = [v for name, v in body.items() if name.lower().endswith("errorcode") and v]
    return own + [code for each in body.values() for code in error_codes(each)]


def _changes(
    before: Mapping[ItemKind, list[Row]], after: Mapping[ItemKind, list[Row]]
) -> list[dict[str, Any]]:
    """Rows that are new, gone or have other values; `row` has what identifies one."""
    changes = []
    for kind in SHOWN:
        order = [name for name in IDENTITY[kind] if name != "cell"]
        old, new = (
            {tuple(str(row[name]) for name in order): row for row in rows_of[kind]}
            for rows_of in (before, after)
        )
        for key in dict.fromkeys([*old, *new]):
            was, now = old.get(key), new.get(key)
            if was == now:
                continue
            values = {
                name: [(was or {}).get(name), (now or {}).get(name)]
                for name in (now or was or {})
                if (was or {}).get(name) != (now or {}).get(name) and name != "cell"
            }
            change = "new" if was is None else "gone" if now is None else "changed"
            row = {name: (now or was or {})[name] for name in order}
            changes.append({"table": kind.value, "row": row, "change": change, "fields": values})
    return changes
