"""A broker's settings as texts, under Kafka's names, for one listener.

A name may have `listener.name.<listener>.` before it, and before a mechanism's setting also
`<mechanism>.`, both in lower case: it then goes before the plain one, as in Kafka. The listener has
the name of its security protocol. Unlike `BrokerSettings` this has the secrets, too.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from brokertwin.errors import UserError
from brokertwin.state.configs.config_keys import InvalidConfigError, parse
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS


def prefix_of(listener: str) -> str:
    """What the names of a listener's own settings begin with."""
    return f"listener.name.{listener.lower()}."


class BrokerProperties:
    """The settings that were given for a listener.

    Args:
        values: texts by name.
        listener: the listener's name.
    """

    def __init__(self, values: Mapping[str, str], listener: str) -> None:
        self._values = values
        self._listener = listener
        self._prefix = prefix_of(listener)

    def named(self, names: Iterable[str], others: Mapping[str, str]) -> dict[str, str]:
        """Those of other settings that are this listener's own, and have one of the names."""
        own = {f"{self._prefix}{name}" for name in names}
        return {name: text for name, text in others.items() if name in own}

    def altered(self, others: Mapping[str, str]) -> "BrokerProperties":
        """The settings where others have taken their place."""
        return BrokerProperties({**self._values, **others}, self._listener)

    def of_listener(self, name: str, mechanism: str = "") -> str | None:
        """The text that was given for this listener alone, and the mechanism if one is named."""
        middle = f"{mechanism.lower()}." if mechanism else ""
        return self._values.get(f"{self._prefix}{middle}{name}")

    def given(self, name: str, mechanism: str = "") -> str | None:
        """The text that was given, None where there is none."""
        found = self.of_listener(name, mechanism) if mechanism else None
        if found is None:
            found = self.of_listener(name)
        if found is None:
            found = self._values.get(name)
        return found.strip() if found is not None else None

    def value(self, name: str, mechanism: str = "") -> Any:
        """The value that was given, or Kafka's default. Raises UserError where Kafka would not."""
        key = KAFKA_SETTINGS[name]
        text = self.given(name, mechanism)
        if text is None:
            text = key.default
        if text is None:
            return None
        try:
            return parse(name, key, text)
        except InvalidConfigError as error:
            raise UserError(f"{error}.") from None

    def text(self, name: str, mechanism: str = "") -> str | None:
        """As `value`, of a text."""
        found = self.value(name, mechanism)
        return str(found) if found is not None else None

    def names(self, name: str, mechanism: str = "") -> list[str]:
        """As `value`, of a list."""
        return list(self.value(name, mechanism) or [])
