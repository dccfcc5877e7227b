"""Writes scenarios down as data: each call of a function appends a step.

    IDEMPOTENCE = Author("idempotence", "Idempotent producers", source="ProducerAppendInfo")

    @IDEMPOTENCE
    def in_sequence(s):
        \"\"\"The first sequence number of a batch follows the last one of the producer.\"\"\"
        t = s.topic()
        p, e = s.init_pid()
        s.produce(t, batch(3, p, e, 0), label="sequence 0 to 2")

Values that a broker chooses are references (`Ref`); nothing is sent here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from brokertwin.testing.exam.model import Do, ExamSeverity, ExamSubject, Scenario, Step, Until, View

RETRY = [14, 15, 16]
CONCURRENT = [14, 15, 16, 51]
"""Also while the markers of the last transaction are written."""

DATA, CLIENTS = ExamSeverity.DATA, ExamSeverity.CLIENTS


class Expr:
    """An expression of `testing/exam/bodies.py`."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)


class Ref(Expr):
    """A value in the response of a step."""

    def __init__(self, step: int, path: str = "", add: Any = None) -> None:
        super().__init__({"$ref": f"{step}.{path}".rstrip(".")})
        if add is not None:
            self.data["add"] = add
        self._step, self._path = step, path

    def __getitem__(self, name: str | int) -> "Ref":
        return Ref(self._step, f"{self._path}.{name}".lstrip("."))

    def __add__(self, more: Any) -> "Ref":
        return Ref(self._step, self._path, more)

    def __sub__(self, less: int) -> "Ref":
        return self + -less


class Topic(Expr):
    """The name of a topic; `id` is its id."""

    def __init__(self, name: str) -> None:
        super().__init__({"$name": name})
        self.id = Expr({"$id": name})


def uuid(label: str) -> Expr:
    """Return a random UUID."""
    return Expr({"$uuid": label})


def node(number: int) -> Expr:
    """Return a node id."""
    return Expr({"$node": number})


def at(ms: int) -> Expr:
    """Return a time near the scenario's."""
    return Expr({"$at": ms})


def repeat(text: str, count: int) -> Expr:
    """Return a repeated text."""
    return Expr({"$repeat": [text, count]})


def text(value: Expr) -> Expr:
    """Return the bytes of a text."""
    return Expr({"$text": value.data})


def concat(*parts: Any) -> Expr:
    """Return a text of several parts."""
    return Expr({"$concat": list(parts)})


def frame(api: str, version: int, body: Any = None, **changed: Any) -> Expr:
    """Return the bytes of a request."""
    return Expr({"$frame": {"api": api, "version": version, "body": body or {}, **changed}})


def join(*parts: Any) -> Expr:
    """Return concatenated bytes."""
    return Expr({"$join": list(parts)})


def cut(data: Any, count: int) -> Expr:
    """Return bytes without the last ones."""
    return Expr({"$cut": [data, count]})


def subscription(*topics: Any) -> Expr:
    """Return the metadata of a consumer: `ConsumerProtocolSubscription` v0."""
    return Expr({"$subscription": list(topics)})


def batch(
    number: int = 1,
    pid: Any = -1,
    epoch: Any = -1,
    seq: Any = -1,
    txn: bool = False,
    **fields: Any,
) -> Expr:
    """Return a record batch; `fields` are those of `batches.from_fields`."""
    given = {"number": number, "pid": pid, "epoch": epoch, "seq": seq, "txn": txn, **fields}
    none = {"number": 1, "pid": -1, "epoch": -1, "seq": -1, "txn": False}
    return Expr({"$batch": {k: v for k, v in given.items() if k not in none or v != none[k]}})


def plain(value: Any) -> Any:
    """Return a body as JSON."""
    if isinstance(value, Expr):
        return {name: plain(part) for name, part in value.data.items()}
    if isinstance(value, bytes):
        is_text = value.isascii() and value.decode("ascii").isprintable()
        return {"$text": value.decode("ascii")} if is_text else {"$hex": value.hex()}
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


Play = Callable[[Any], None]
"""A function that writes a scenario into a `Script`."""


class Author:
    """A subject with its scenarios; a decorator of functions that write one.

    Args:
        name: of the subject.
        title: for reports.
        **defaults: of the scenarios' fields.
    """

    def __init__(self, name: str, title: str, **defaults: Any) -> None:
        self.name, self.title = name, title
        self._defaults = {"severity": CLIENTS, **defaults}
        self._cases: dict[str, tuple[str, Play, dict[str, Any]]] = {}

    def __call__(self, play: Play | None = None, **fields: Any) -> Any:
        if play is None:
            return lambda given: self(given, **fields)
        self.case(play.__name__, (play.__doc__ or "").strip(), play, **fields)
        return play

    def case(self, name: str, rule: str, play: Play, **fields: Any) -> None:
        """Add a scenario."""
        assert rule.endswith(".") and name not in self._cases, name
        self._cases[name] = " ".join(rule.split()), play, {**self._defaults, **fields}

    def subject(self, kafka: str) -> ExamSubject:
        """Return the subject without goldens."""
        from tests.exam.script import Script

        scenarios = []
        for name, (rule, play, fields) in self._cases.items():
            script = Script()
            play(script)
            scenarios.append(Scenario(name=name, rule=rule, steps=script.steps, **fields))
        return ExamSubject(self.name, self.title, kafka, scenarios)


class Steps:
    """The steps of a scenario."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, do: Do, **fields: Any) -> Ref:
        """Append a step and return a reference to its response."""
        given = {name: plain(value) for name, value in fields.items() if name not in _STRUCTS}
        made = {name: fields[name] for name in _STRUCTS if fields.get(name) is not None}
        self.steps.append(Step(do=do, **given, **made))
        return Ref(len(self.steps) - 1)

    def call(
        self,
        api: str,
        version: int,
        body: Any,
        label: str = "",
        *,
        on: str = "",
        client: str = "",
        broker: int = 0,
        retry: Iterable[int] = RETRY,
        until: Until | None = None,
        view: View | None = None,
        follow: Sequence[str] = (),
    ) -> Ref:
        """Send a request and receive the response."""
        return self.add(
            Do.CALL,
            api=api,
            version=version,
            body=body,
            label=label,
            on=on,
            client=client,
            broker=broker,
            retry=list(retry),
            until=until,
            view=view,
            follow=list(follow),
        )

    def send(self, api: str, version: int, body: Any, on: str = "", **fields: Any) -> None:
        """Send a request whose response is received later."""
        self.add(Do.SEND, api=api, version=version, body=body, on=on, **fields)

    def receive(self, label: str = "", on: str = "", **fields: Any) -> Ref:
        """Receive the response to the oldest request."""
        return self.add(Do.RECEIVE, label=label, on=on, **fields)

    def raw(self, data: Any, on: str, is_bare: bool = False) -> None:
        """Send bytes."""
        self.add(Do.RAW, body=data, on=on, is_bare=is_bare)

    def outcome(self, label: str, on: str) -> None:
        """Observe a response or the end of the connection."""
        self.add(Do.OUTCOME, label=label, on=on)

    def silent(self, label: str, on: str, ms: int = 300) -> None:
        """Observe that no response comes."""
        self.add(Do.SILENT, label=label, on=on, ms=ms)

    def close(self, on: str) -> None:
        """Close a connection."""
        self.add(Do.CLOSE, on=on)

    def restart(self) -> None:
        """Restart the home broker."""
        self.add(Do.RESTART)

    def wait(self, ms: int) -> None:
        """Wait."""
        self.add(Do.WAIT, ms=ms)

    def name(self, short: str) -> Expr:
        """Return a name with the scenario's prefix."""
        return Expr({"$name": short})


_STRUCTS = ("until", "view")


def until(path: str, *values: Any, is_not: bool = False) -> Until:
    """Return a condition for `call`."""
    return Until(path, plain(values), is_not)


def view(
    own: Sequence[str] = (),
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    throttle: bool = False,
) -> View:
    """Return what of a response is compared."""
    return View(list(own), list(only), list(without), throttle)
