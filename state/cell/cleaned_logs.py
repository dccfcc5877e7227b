"""The `clean-log` event: the result of a pass of the log cleaner at the edge."""

import msgspec

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.events import LogMark, Reason, Refusal, decode_body
from brokertwin.state.core.records import LogCleaned
from brokertwin.state.logs import cleaner

_decoder = msgspec.json.Decoder(LogCleaned)


def decide(broker: Broker, body: msgspec.Raw, seen: LogMark | None) -> LogCleaned | Refusal | None:
    """Return the record of a pass over a broker's log, or why it is impossible.

    None if the log has changed since the pass started (`seen`); the pass is repeated.
    """
    cleaned = decode_body(body, _decoder)
    if isinstance(cleaned, Refusal):
        return cleaned
    assert isinstance(cleaned, LogCleaned), "as it was decoded"
    log = broker.log(cleaned.topic_id, cleaned.partition)
    if seen is not None and (log is None or cleaner.log_mark(log) != seen):
        return None
    wrong = cleaner.cleaning_violation(log, cleaned)
    return Refusal(Reason.NOT_POSSIBLE, wrong) if wrong else cleaned
