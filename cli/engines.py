"""The engines of `brokertwin gateway`, made of its options."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokertwin.cli.options import settings_of
from brokertwin.cli.output import warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.gateway.local_engine import LocalEngine
    from brokertwin.gateway.persistence import JournalOptions
    from brokertwin.gateway.spark_engine import SparkEngine
    from brokertwin.kafka_io.placement import Placement
    from brokertwin.state.core.settings import BrokerSettings

LOCAL_CLUSTER = "local"
INTERNAL_LOGS = "brokertwin.internal.logs"
"""Tools read internal topics of a broker that is alone, too; who does not care gives false."""

_UNITS_MS = {"ms": 1, "s": 1000}


class EngineName(StrEnum):
    """What decides the requests."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True)
class EngineOptions:
    """The options that concern the engine; None means not given."""

    cluster: str | None
    brokers: int | None
    journal: Path | None
    journal_fsync: str | None
    bootstrap: str | None
    prefix: str | None
    kafka_config: Path | None
    config: Path | None
    answer_timeout_s: float | None
    may_intervene: bool = False

    def make(
        self, name: EngineName, settings: "BrokerSettings", of_gateway: Collection[str]
    ) -> "LocalEngine | SparkEngine":
        """The engine.

        Args:
            name: which one.
            settings: of the modelled brokers; a job has its own.
            of_gateway: the settings that the gateway itself heeds.

        Raises:
            UserError: an option is for the other engine, or the engine's own errors.
        """
        if name is EngineName.LOCAL:
            return self._local(settings)
        idle = ", ".join(sorted(settings.given.keys() - set(of_gateway)))
        if idle:
            warn(f"{idle}: without effect here; `brokertwin run` takes the brokers' settings.")
        return self._spark()

    def _local(self, settings: "BrokerSettings") -> "LocalEngine":
        from brokertwin.gateway.local_engine import LocalEngine

        for option, value in (
            ("--bootstrap", self.bootstrap),
            ("--prefix", self.prefix),
            ("--kafka-config", self.kafka_config),
            ("--answer-timeout", self.answer_timeout_s),
        ):
            if value is not None:
                raise UserError(
                    f"{option} is for --engine spark; the engine local needs no Kafka.",
                    f"Give --engine spark, or leave out {option}.",
                )
        if INTERNAL_LOGS not in settings.given:
            settings = msgspec.structs.replace(settings, brokertwin_internal_logs=True)
        brokers = list(range(1, (self.brokers or 1) + 1))
        return LocalEngine(
            self.cluster or LOCAL_CLUSTER,
            brokers,
            settings,
            self._journal(),
            may_intervene=self.may_intervene,
        )

    def _journal(self) -> "JournalOptions | None":
        """Where the state is kept, and when it is on the device."""
        from brokertwin.gateway.persistence import AT_ONCE, JournalOptions

        text = self.journal_fsync
        if self.journal is None:
            if text is not None:
                raise UserError("--journal-fsync needs --journal.", "Give --journal FILE.")
            return None
        if text is None:
            return JournalOptions(self.journal)
        if text in ("always", "never"):
            return JournalOptions(self.journal, AT_ONCE if text == "always" else None)
        found = re.fullmatch(r"([1-9]\d{0,6})(ms|s)", text, re.ASCII)
        if found is None:
            raise UserError(
                f"--journal-fsync {text}: expected always, never, or a time such as 100ms or 1s."
            )
        return JournalOptions(self.journal, int(found[1]) * _UNITS_MS[found[2]])

    def _spark(self) -> "SparkEngine":
        from brokertwin.gateway.data_topic import DataTopic
        from brokertwin.gateway.sealed_segments import SealedSegments
        from brokertwin.gateway.spark_engine import ANSWER_TIMEOUT_S, SparkEngine
        from brokertwin.kafka_io import placement
        from brokertwin.kafka_io.kafka_clients import client_properties
        from brokertwin.kafka_io.topics import PLACEMENT, full_name

        settings = settings_of(
            self.config,
            bootstrap=self.bootstrap,
            prefix=self.prefix,
            kafka_config=self.kafka_config,
        )
        prefix = settings.prefix
        if self.brokers is not None:
            raise UserError(
                "--brokers is for --engine local: a job's brokers are in the topic"
                f" {full_name(prefix, PLACEMENT)}.",
                "`brokertwin run` writes them there; leave out --brokers.",
            )
        if self.journal is not None or self.journal_fsync is not None:
            raise UserError(
                "--journal is for --engine local: a job keeps its state in its checkpoint.",
                "Leave out --journal.",
            )
        if self.may_intervene:
            raise UserError(
                "--control is for --engine local: `brokertwin cluster` reaches a job itself.",
                "Leave out --control; start the job with `run --interventions`.",
            )
        client = client_properties(settings)
        for warning in client.warnings():
            warn(warning)
        placed = _cluster(placement.read(client, prefix), self.cluster)
        return SparkEngine(
            client,
            prefix,
            placed,
            DataTopic(client, prefix),
            SealedSegments(client, prefix, placed.cluster),
            self.answer_timeout_s or ANSWER_TIMEOUT_S,
        )


def _cluster(placements: Mapping[str, "Placement"], name: str | None) -> "Placement":
    """The cluster that is named, or the only one. Raises UserError."""
    known = ", ".join(sorted(placements))
    if name is None and len(placements) == 1:
        return next(iter(placements.values()))
    if name is None:
        raise UserError(f"The job holds several clusters: {known}.", "Say which with --cluster.")
    if name not in placements:
        raise UserError(f"The job holds {known}, not {name}.", "Is --cluster right?")
    return placements[name]
