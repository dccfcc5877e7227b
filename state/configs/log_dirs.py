"""A broker's log directories by its settings, and which of them get no new logs (KIP-1066).

Of a broker all of whose directories are cordoned the controller gives no new partition unless a
client names it. What 4.3.1 does is in `tests/gateway/test_cordoned_dirs_like_kafka.py`.
"""

from brokertwin.state.configs.listeners import names_of
from brokertwin.state.core.settings import BrokerSettings

CORDONED = "cordoned.log.dirs"
ALL = "*"


def of(settings: BrokerSettings) -> list[str]:
    """The log directories; the first is that of logs without a place."""
    several = list(settings.log_dirs)
    return several or names_of(settings, "log.dirs") or names_of(settings, "log.dir")


def cordoned(settings: BrokerSettings) -> list[str]:
    """Those that get no new logs."""
    if CORDONED not in settings.given:
        return []
    named = names_of(settings, CORDONED)
    return [each for each in of(settings) if ALL in named or each in named]


def takes_logs(settings: BrokerSettings) -> bool:
    """Whether any is left that gets new ones."""
    return CORDONED not in settings.given or len(cordoned(settings)) < len(of(settings))
