"""What a `clean-log` event says: a pass of the cleaner at the edge has left this of a log."""

import msgspec

from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.events import Reason, Refusal, decode_body
from brokerstream.state.core.records import LogCleaned
from brokerstream.state.logs import cleaner

_decoder = msgspec.json.Decoder(LogCleaned)


def decide(broker: Broker, told: msgspec.Raw) -> LogCleaned | Refusal:
    """The record of a pass over a broker's log, or why it cannot be."""
    cleaned = decode_body(told, _decoder)
    if isinstance(cleaned, Refusal):
        return cleaned
    assert isinstance(cleaned, LogCleaned), "as it was decoded"
    wrong = cleaner.wrong(broker.log(cleaned.topic_id, cleaned.partition), cleaned)
    return Refusal(Reason.NOT_POSSIBLE, wrong) if wrong else cleaned
