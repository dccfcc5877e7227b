"""The methods of a `KafkaBroker` over HTTP, for tests in any language.

`POST /broker/advance_time` with `{"milliseconds": 45000}` calls the method with these arguments and
returns `{"result": …}`. `GET /broker` has the address for clients, and the methods with their
arguments.
"""

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.faults.fault import Fault, FaultSpec
from brokertwin.testing.broker import KafkaBroker
from brokertwin.testing.records import StoredRecord

VERBS = (
    "create_topic",
    "produce",
    "records",
    "committed_offsets",
    "leader",
    "coordinator",
    "wait_for_group",
    "move_leader",
    "move_coordinator",
    "expire_session",
    "expire_members",
    "advance_time",
    "pause",
    "resume",
    "fail_log_dir",
    "kill",
    "restart",
    "calm",
    "reset",
)
_TEXT = str | None
_AS_JSON = {"key": _TEXT, "values": list[_TEXT], "headers": list[tuple[str, bytes]]}
"""Arguments that accept text and bytes in Python; JSON has text, and base64 for header values."""


class BrokerVerbs:
    """A broker's methods by name; bad arguments raise UserError."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self._arguments = {name: _arguments(getattr(broker, name)) for name in VERBS}

    def described(self) -> dict[str, Any]:
        """Return the address for clients, and the arguments of each method."""
        fields = {name: kind.__struct_encode_fields__ for name, kind in self._arguments.items()}
        return {"bootstrap": self._broker.bootstrap, "methods": fields}

    def call(self, name: str, body: Any) -> Any:
        """Call a method with its arguments as JSON.

        Raises:
            UserError: an unknown method, arguments that do not fit, or as the method.
            TimeoutError: what the method waits for does not happen.
        """
        kind = self._arguments.get(name)
        if kind is None:
            raise UserError(f"No method {name}.", f"Methods: {', '.join(VERBS)}.")
        try:
            given = msgspec.convert(body, kind)
        except msgspec.ValidationError as error:
            named = ", ".join(kind.__struct_encode_fields__) or "none"
            raise UserError(f"{name}: {error}.", f"Arguments: {named}.") from None
        arguments = {field: getattr(given, field) for field in kind.__struct_fields__}
        values = arguments.pop("values", ())
        topic = [arguments.pop("topic")] if values else []
        return _as_json(getattr(self._broker, name)(*topic, *values, **arguments))

    def add_fault(self, spec: FaultSpec) -> Fault:
        """Add a fault. Raises UserError if the broker cannot have it."""
        return self._broker.add_fault(spec)

    def documents(self) -> list[bytes]:
        """Return the received requests as lines of JSON."""
        return [msgspec.json.encode(each) for each in self._broker.requests()]


def _arguments(method: Callable[..., Any]) -> type[msgspec.Struct]:
    """Return a struct with the parameters of a method."""
    hints = get_type_hints(method)
    required: list[Any] = []
    optional: list[Any] = []
    for name, parameter in inspect.signature(method).parameters.items():
        kind = _AS_JSON.get(name, hints[name])
        if parameter.default is not inspect.Parameter.empty:
            optional.append((name, kind, parameter.default))
        else:
            required.append((name, kind))
    fields = required + optional
    return msgspec.defstruct(method.__name__, fields, rename="camel", forbid_unknown_fields=True)


def _as_json(result: Any) -> Any:
    if isinstance(result, dict):  # of committed offsets
        return [{"topic": t, "partition": p, "offset": offset} for (t, p), offset in result.items()]
    if isinstance(result, list):
        return [_record(each) if isinstance(each, StoredRecord) else each for each in result]
    return result


def _record(record: StoredRecord) -> dict[str, Any]:
    """Return a record with key and value as text, and their bytes as base64."""
    texts = {
        name: None if data is None else data.decode("utf-8", "replace")
        for name, data in (("key", record.key), ("value", record.value))
    }
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        **texts,
        "keyBase64": record.key,
        "valueBase64": record.value,
        "headers": record.headers,
        "timestampMs": record.timestamp_ms,
        "leaderEpoch": record.leader_epoch,
        "producerId": record.producer_id,
        "producerEpoch": record.producer_epoch,
        "sequence": record.sequence,
    }
