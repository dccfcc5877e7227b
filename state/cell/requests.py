"""The API of a request, requests of machines themselves, and refusals of events."""

from brokertwin.protocol.kafka_apis import UNKNOWN, Trait, api_of_key
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.output_rows import EventRefusedError
from brokertwin.state.core.api import Api, NotBuilt
from brokertwin.state.core.decision import Message, Request
from brokertwin.state.core.events import Choices, Event, Reason, Refusal, RequestHeader


def api_of(header: RequestHeader) -> Api:
    """Return the API of a request. Raises EventRefusedError if it is unknown or not built.

    ApiVersions is answered in every version, so that clients can find a common one.
    """
    key, version = header.request_api_key, header.request_api_version
    api = BUILT.get(key)
    if api is not None:
        first, last = api.versions
        if first <= version <= last or Trait.ANY_VERSION in api.kafka.traits:
            return api
    known = api_of_key(key)
    if known is UNKNOWN:
        raise EventRefusedError(Reason.UNKNOWN_API, f"Kafka 4.3 has no API with the key {key}")
    if not known.first <= version <= known.last:
        raise EventRefusedError(
            Reason.UNSUPPORTED_VERSION,
            f"{known.name} has the versions {known.first} to {known.last}, not {version}",
        )
    raise EventRefusedError(Reason.NOT_BUILT, f"{known.name} (key {key}, version {version})")


def internal_request(api: Api, message: Message, cause: Event | None) -> Request:
    """Return a machine's request to another one; random values derive from its cause."""
    version = api.versions[1] if message.version is None else message.version
    header = RequestHeader(api.key, version, request_api_key_name=api.name)
    nonce, choices = "", Choices()
    if cause is not None:
        nonce = cause.nonce
        choices = Choices(topic_ids=cause.choices.topic_ids if cause.choices else {})
    return Request(header, message.body, "User:ANONYMOUS", "", nonce, choices, is_from_machine=True)


def refusal_for(error: Exception) -> Refusal:
    """Return the refusal for an exception; FAULT if it has none itself."""
    if isinstance(error, EventRefusedError):
        return error.refusal
    if isinstance(error, NotBuilt):
        return Refusal(Reason.NOT_BUILT, str(error))
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = f" ({where.tb_frame.f_code.co_qualname}, line {where.tb_lineno})" if where else ""
    return Refusal(Reason.FAULT, f"{type(error).__name__}: {error}{place}")
