"""What each setting is for, in a sentence of our own: the documentation that DescribeConfigs tells.

The sentences lie in `texts_of_brokers.py` and its neighbours. Kafka's own texts are longer.
"""

import re

from brokertwin.state.configs import (
    texts_of_brokers,
    texts_of_groups,
    texts_of_logs,
    texts_of_security,
    texts_of_topics,
)

OF_BROKERS = {
    **texts_of_brokers.TEXTS,
    **texts_of_logs.TEXTS,
    **texts_of_groups.TEXTS,
    **texts_of_security.TEXTS,
}
_OF_KINDS = re.compile(r"(?:group\.)?(consumer|share|streams)\.(min\.|max\.)?(.+)")
_TIMES = {
    "assignment.interval.ms": "How many ms lie at least between two assignments of a {} group.",
    "heartbeat.interval.ms": "The time in ms between two heartbeats of a member of a {} group.",
    "session.timeout.ms": "After how many ms without a heartbeat a member leaves a {} group.",
}
_BOUNDS = {"min.": "The least that a group may be given. ", "max.": "The most. "}


def text_of(name: str, is_of_topic: bool = False) -> str | None:
    """What a setting is for; None where there is no such setting.

    Args:
        name: Kafka's name of it, or ours.
        is_of_topic: whether it is one of a topic; some of these have the name of a broker's.
    """
    found = (texts_of_topics.TEXTS if is_of_topic else OF_BROKERS).get(name)
    if found is not None or is_of_topic:
        return found
    kind = _OF_KINDS.fullmatch(name)
    if kind is None or kind[3] not in _TIMES:
        return None
    return _BOUNDS.get(kind[2], "") + _TIMES[kind[3]].format(kind[1])
