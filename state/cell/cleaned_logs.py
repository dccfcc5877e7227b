"""What a `clean-log` event says: a pass of the cleaner at the edge has left this of a log."""

import msgspec

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.events import LogMark, Reason, Refusal, decode_body
from brokertwin.state.core.records import LogCleaned
from brokertwin.state.logs import cleaner

_decoder = msgspec.json.Decoder(LogCleaned)


def decide(broker: Broker, told: msgspec.Raw, seen: LogMark | None) -> LogCleaned | Refusal | None:
    """The record of a pass over a broker's log, or why it cannot be.

    None where the log is another than that which the pass has `seen`: it comes again.
    """
    cleaned = decode_body(told, _decoder)
    if isinstance(cleaned, Refusal):
        return cleaned
    assert isinstance(cleaned, LogCleaned), "as it was decoded"
    log = broker.log(cleaned.topic_id, cleaned.partition)
    if seen is not None and (log is None or cleaner.log_mark(log) != seen):
        return None
    wrong = cleaner.cleaning_violation(log, cleaned)
    return Refusal(Reason.NOT_POSSIBLE, wrong) if wrong else cleaned
