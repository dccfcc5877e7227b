"""A broker's settings as texts, under Kafka's names, for one listener.

As in Kafka, a name with the prefix `listener.name.<listener>.` takes precedence over the plain
name. A mechanism's setting can also have the prefix `<mechanism>.`; both are in lower case. A
listener is named after its security protocol. Unlike `BrokerSettings`, this includes secrets.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from brokertwin.errors import UserError
from brokertwin.state.configs.config_keys import InvalidConfigError, parse
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.wording import with_full_stop


def prefix_of(listener: str) -> str:
    return f"listener.name.{listener.lower()}."


class BrokerProperties:
    """Settings given for a listener.

    Args:
        values: texts by name.
    """

    def __init__(self, values: Mapping[str, str], listener: str) -> None:
        self._values = values
        self._listener = listener
        self._prefix = prefix_of(listener)

    def named(self, names: Iterable[str], others: Mapping[str, str]) -> dict[str, str]:
        """Return those of `others` that are this listener's own and have one of the names."""
        own = {f"{self._prefix}{name}" for name in names}
        return {name: text for name, text in others.items() if name in own}

    def altered(self, others: Mapping[str, str]) -> "BrokerProperties":
        return BrokerProperties({**self._values, **others}, self._listener)

    def of_listener(self, name: str, mechanism: str = "") -> str | None:
        """Return the text under the listener's prefix, and the mechanism's if named."""
        middle = f"{mechanism.lower()}." if mechanism else ""
        return self._values.get(f"{self._prefix}{middle}{name}")

    def given(self, name: str, mechanism: str = "") -> str | None:
        """Return the text that takes precedence, or None."""
        value = self.of_listener(name, mechanism) if mechanism else None
        if value is None:
            value = self.of_listener(name)
        if value is None:
            value = self._values.get(name)
        return value.strip() if value is not None else None

    def value(self, name: str, mechanism: str = "") -> Any:
        """Return the parsed value or Kafka's default. Raises UserError if it is invalid."""
        key = KAFKA_SETTINGS[name]
        text = self.given(name, mechanism)
        if text is None:
            text = key.default
        if text is None:
            return None
        try:
            return parse(name, key, text)
        except InvalidConfigError as error:
            raise UserError(with_full_stop(error)) from None

    def text(self, name: str, mechanism: str = "") -> str | None:
        value = self.value(name, mechanism)
        return str(value) if value is not None else None

    def names(self, name: str, mechanism: str = "") -> list[str]:
        return list(self.value(name, mechanism) or [])
