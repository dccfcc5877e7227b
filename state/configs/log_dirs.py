"""A broker's log directories, and cordoned ones (KIP-1066).

A broker with all directories cordoned gets a new partition only if a client assigns it.
`tests/gateway/test_cordoned_dirs_like_kafka.py` compares with 4.3.1.
"""

from brokertwin.state.configs.listeners import names_of
from brokertwin.state.core.settings import BrokerSettings

CORDONED = "cordoned.log.dirs"
ALL = "*"


def of(settings: BrokerSettings) -> list[str]:
    """Log directories; the first has the logs without a directory."""
    several = list(settings.log_dirs)
    return several or names_of(settings, "log.dirs") or names_of(settings, "log.dir")


def cordoned(settings: BrokerSettings) -> list[str]:
    """Directories that get no new logs."""
    if CORDONED not in settings.given:
        return []
    named = names_of(settings, CORDONED)
    return [each for each in of(settings) if ALL in named or each in named]


def takes_logs(settings: BrokerSettings) -> bool:
    """True if any directory gets new logs."""
    return CORDONED not in settings.given or len(cordoned(settings)) < len(of(settings))
