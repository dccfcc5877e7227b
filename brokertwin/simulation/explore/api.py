"""Parts of a model of `brokertwin explore`: clients, faults, a cluster, invariants, bounds.

A model is a Python file with a `Model` in the name `MODEL`. The page docs/explore_models.md
explains one line by line.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from brokertwin.state.eras.versions import SETTINGS

if TYPE_CHECKING:
    from brokertwin.simulation.explore.invariants import View


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a client may send.

    Attributes:
        api: Kafka's name in capitals, for example `END_TXN`.
        body: with the field names of Kafka's schemas (camel case).
        label: text in diagrams.
        broker: the broker that receives it.
        nonce: seeds ids that the broker makes, for example a member id. Requests with the same
            nonce get the same id.
        producer_id: the id that InitProducerId assigns if it assigns a new one.
        may_be_late: whether the faults `late` and `lost` apply.
    """

    api: str
    version: int
    body: dict[str, Any]
    label: str = ""
    broker: int = 1
    nonce: str = ""
    producer_id: int = -1
    may_be_late: bool = True


class Client(ABC):
    """A client as a step function over requests and responses.

    A state is a value that never changes: a frozen msgspec.Struct, a tuple, a number or a string.
    A client has at most one request in flight.

    Attributes:
        name: in traces and diagrams, and the `client.id`.
    """

    name: str
    start: Any

    @abstractmethod
    def sends(self, state: Any) -> Iterable[Send]:
        """Return the requests that the client may send now; several mean a free choice."""

    @abstractmethod
    def receives(self, state: Any, send: Send, response: Any) -> Any:
        """Return the state after a response: a struct of `protocol/generated`.

        The response is None if none came: the request or its response was lost or is late. The
        client cannot know which, and a late request may still arrive at any later time.
        """

    def is_done(self, state: Any) -> bool:
        """True if the client has done what it wanted; by default, if it sends nothing more."""
        return not list(self.sends(state))

    def restarts(self, _state: Any) -> Any:
        """Return the state after a crash; by default the first one."""
        return self.start


class Invariant:
    """A condition on every state.

    Attributes:
        source: of the promise: a KIP or a class in Kafka.
    """

    start: Any = ()
    source: ClassVar[str] = ""

    @property
    def name(self) -> str:
        return type(self).__name__

    def sent(self, ghost: Any, _client: str, _send: Send) -> Any:
        """Return the ghost after a client has sent a request."""
        return ghost

    def received(self, ghost: Any, _client: str, _send: Send, _response: Any) -> Any:
        """Return the ghost after a client has a response, or None if none came."""
        return ghost

    def crashed(self, ghost: Any, _client: str) -> Any:
        return ghost

    def check(self, _ghost: Any, _view: "View") -> str | None:
        """Return the violation as a sentence, or None."""
        return None


class Fault(StrEnum):
    """Something that can happen between two deliveries.

    `late`, `lost` and `crash` concern clients, the others a broker or an administrator.
    """

    LATE = "late"
    LOST = "lost"
    CRASH = "crash"
    WAIT = "wait"
    STOP = "stop-broker"
    KILL = "kill-broker"
    START = "start-broker"
    ISOLATE = "isolate-broker"
    SEVER = "sever-broker"
    REJOIN = "rejoin-broker"
    ELECT = "elect-leader"


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """How often each fault may happen, in total.

    Attributes:
        late: requests that the client gives up, and that arrive at any later time or never.
        lost: responses that do not arrive.
        crashes: restarts of clients.
        waits: how often `wait_ms` may pass; deadlines up to then expire.
        stops, kills: brokers that stop in order, or crash; each may start again.
        isolations: brokers cut off from other brokers; each may rejoin.
        severed: brokers cut off from the controller, too; each may rejoin.
        elections: unclean elections by an administrator.
        loses_cache: whether a broker that crashes loses its records, like a machine that has not
            written its disk cache.
        brokers: the brokers that the faults concern; empty for all.
    """

    late: int = 0
    lost: int = 0
    crashes: int = 0
    waits: int = 0
    wait_ms: int = 60_000
    stops: int = 0
    kills: int = 0
    isolations: int = 0
    severed: int = 0
    elections: int = 0
    loses_cache: bool = False
    brokers: tuple[int, ...] = ()


FAULT_NAMES = tuple(
    name for name in Faults.__struct_fields__ if name not in ("loses_cache", "brokers")
)
"""Faults with a number."""


class Between(StrEnum):
    """Kinds of messages between machines that can be steps of their own.

    All others are delivered within the step that causes them. Two messages of one kind between two
    machines keep their order.

    Attributes:
        METADATA: a broker reads a record of the controller.
        REQUEST: requests, such as AlterPartition and WriteTxnMarkers; a reply comes at once.
        REPLICA: fetches of followers, and the responses.
    """

    METADATA = "metadata"
    REQUEST = "request"
    REPLICA = "replica"


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of a model.

    Attributes:
        brokers: their number; ids start at 1.
        topics: name to number of partitions.
        groups: groups that are used; their coordinator's topic is created at the start.
        transactional_ids: the same for transactional ids.
        replicas: of every topic; by default one for each broker, at most 3.
        settings: broker settings by Kafka's names, and those of former versions
            (`state/eras/versions.py`).
        era: a key of `versions.SETTINGS`, for the settings of a former Kafka; "" for 4.3.
        between: kinds of messages between machines; each message is a step of its own.
        setup: requests before the search begins.
    """

    brokers: int = 1
    topics: Mapping[str, int] = {}
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    replicas: int = 0
    settings: Mapping[str, str] = {}
    era: str = ""
    topic_configs: Mapping[str, str] = {}
    between: frozenset[Between] = frozenset()
    setup: tuple[Send, ...] = ()


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a search; 0 is no bound. `seconds` are of the wall clock."""

    depth: int = 0
    states: int = 0
    seconds: float = 0.0


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model: clients, their cluster, its faults, and conditions on every state.

    Attributes:
        about: one sentence for `explore --list`.
        symmetric: groups of client names that can be exchanged for each other. The clients must
            be equal but for their names, and the names long, unusual, and of equal length.
        expected: the name of the invariant that is violated, "" for none; for `--list` and tests.
    """

    name: str
    about: str
    clients: tuple[Client, ...]
    cluster: Cluster = Cluster()
    faults: Faults = Faults()
    invariants: tuple[Invariant, ...] = ()
    bounds: Bounds = Bounds()
    symmetric: tuple[tuple[str, ...], ...] = ()
    expected: str = ""


def varied(model: Model, name: str, value: str) -> Model:
    """Return a model with another bound of a fault, another `era`, or another broker setting.

    Raises:
        ValueError: the value is no number or era.
    """
    replace = msgspec.structs.replace
    if name in FAULT_NAMES:
        if not value.isdecimal():
            raise ValueError(f"{name} must be a number, not {value!r}")
        return replace(model, faults=replace(model.faults, **{name: int(value)}))
    cluster = model.cluster
    if name == "era":
        if value and value not in SETTINGS:
            raise ValueError(f"{value!r} is none of the eras {', '.join(SETTINGS)}")
        return replace(model, cluster=replace(cluster, era=value))
    if "." not in name:
        raise ValueError(f"{name!r} is no fault ({', '.join(FAULT_NAMES)}), era or broker setting")
    return replace(model, cluster=replace(cluster, settings={**cluster.settings, name: value}))
