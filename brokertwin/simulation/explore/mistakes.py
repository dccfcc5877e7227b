"""Mistakes in a model, reported in one line."""

import contextlib
import difflib
import inspect
import traceback
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import API_KEYS, KAFKA_APIS, Decider
from brokertwin.simulation.explore.api import Client, Cluster, Invariant, Model, Send
from brokertwin.state.apis.registry import BUILT


class ModelError(Exception):
    """A model that cannot run; the message is the reason."""


def check_model(model: Model) -> None:
    """Check the parts of a model. Raises ModelError."""
    for field, kind in (("clients", Client), ("invariants", Invariant)):
        parts: Any = getattr(model, field)
        is_sequence = isinstance(parts, (tuple, list))
        if not is_sequence or not all(isinstance(each, kind) for each in parts):
            raise ModelError(f"{field} is no tuple of objects of {kind.__name__}, like (One(),)")
        for each in parts:
            _check_methods(type(each), kind)
    for client in model.clients:
        kind_name = type(client).__name__
        name = getattr(client, "name", None)
        if not isinstance(name, str) or not name:
            raise ModelError(f"{kind_name} has no name")
        if not hasattr(client, "start"):
            raise ModelError(f"{kind_name} has no start, its first state")
    if len({client.name for client in model.clients}) < len(model.clients):
        raise ModelError("two clients have the same name")
    for invariant in model.invariants:
        if type(invariant).check is Invariant.check:
            raise ModelError(f"{invariant.name} has no method check(ghost, view)")


def _check_methods(kind: type, base: type) -> None:
    """Refuse methods that the search would never call, or could not."""
    hooks = dict(inspect.getmembers(base, inspect.isfunction))
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if name.startswith("_"):
            continue
        if name not in hooks:
            near = difflib.get_close_matches(name, hooks, n=1, cutoff=0)[0]
            raise ModelError(
                f"{kind.__name__}.{name} is no method of {base.__name__}; the nearest is {near}."
                " The name of a helper begins with _"
            )
        parameters = inspect.signature(hooks[name]).parameters
        try:
            inspect.signature(method).bind(*parameters)
        except TypeError as error:
            given = ", ".join(each.lstrip("_") for each in parameters)
            raise ModelError(f"{kind.__name__}.{name} must take ({given}): {error}") from None


def checked_sends(owner: str, sends: Any, brokers: Collection[int]) -> tuple[Send, ...]:
    """Return requests as a tuple. Raises ModelError if one cannot be sent."""
    if not isinstance(sends, Iterable):
        raise ModelError(f"{owner} must return a list of Send, not {type(sends).__name__}")
    result = tuple(sends)
    for send in result:
        if not isinstance(send, Send):
            raise ModelError(f"{owner} must return Sends, not {type(send).__name__}")
        api = BUILT.get(API_KEYS.get(send.api, -1))
        if api is None:
            raise ModelError(f"{owner} names the API {send.api!r}, which brokertwin does not have")
        try:
            msgspec.convert(send.body, api.request_type)
        except msgspec.ValidationError as error:
            raise ModelError(f"{owner} returns {send.api} with a wrong body: {error}") from None
        if send.broker not in brokers:
            raise ModelError(
                f"{owner} names broker {send.broker}; the cluster has the brokers"
                f" {', '.join(map(str, brokers))}"
            )
    return result


def without_coordinator(cluster: Cluster, answered: Collection[tuple[str, int]]) -> list[str]:
    """Return the parts of a cluster that list nothing, and whose requests were refused for it."""
    setup = {send.api for send in cluster.setup}
    if "FIND_COORDINATOR" in setup or ("FIND_COORDINATOR", Error.NONE) in answered:
        return []
    refused = {
        KAFKA_APIS[API_KEYS[api]].handler for api, code in answered if code == Error.NOT_COORDINATOR
    }
    lists = (
        ("groups", cluster.groups, Decider.GROUP_COORDINATOR),
        ("transactional_ids", cluster.transactional_ids, Decider.TRANSACTION_COORDINATOR),
    )
    return [name for name, listed, handler in lists if handler in refused and not listed]


def one_line(error: Exception, files: Collection[str]) -> str:
    """Return an exception with the last line that it passed in some files; "" without one."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [(each.filename, each.lineno) for each in frames if each.filename in files]
    if isinstance(error, SyntaxError) and error.filename is not None and error.filename in files:
        places.append((error.filename, error.lineno))
        error = SyntaxError(error.msg)
    if not places:
        return ""
    file, line = places[-1]
    return f"{Path(file).name}:{line}: {type(error).__name__}: {error}"


@contextlib.contextmanager
def reported(model: Model) -> Iterator[None]:
    """Raise an exception in the files of a model's classes as a ModelError."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        line = one_line(error, {inspect.getfile(type(each)) for each in _parts(model)})
        if not line:
            raise
        raise ModelError(line) from error


def _parts(model: Model) -> Iterator[Any]:
    """Return the clients and invariants that are not brokertwin's own."""
    for each in (*model.clients, *model.invariants):
        if not type(each).__module__.startswith("brokertwin."):
            yield each
