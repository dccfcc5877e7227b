"""Creation of `brokertwin gateway`'s engines from its options."""

import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from brokertwin.cli.options import kafka_of, selected_cluster, settings_of
from brokertwin.cli.output import warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.gateway.engine.local_engine import LocalEngine
    from brokertwin.gateway.engine.persistence import JournalOptions
    from brokertwin.gateway.engine.spark_engine import SparkEngine
    from brokertwin.state.core.settings import BrokerSettings

INTERNAL_LOGS = "brokertwin.internal.logs"
"""Setting for internal topics of a single broker, because tools read them; false disables them."""

_UNITS_MS = {"ms": 1, "s": 1000}

EngineName = Literal["local", "spark"]


@dataclass(frozen=True)
class EngineOptions:
    """Options for the engine; None means not given."""

    cluster: str | None = None
    brokers: int | None = None
    journal: Path | None = None
    journal_fsync: str | None = None
    bootstrap: str | None = None
    prefix: str | None = None
    kafka_config: Path | None = None
    config: Path | None = None
    response_timeout_s: float | None = None
    may_intervene: bool = False

    def make(
        self, name: EngineName, settings: "BrokerSettings", of_gateway: Collection[str]
    ) -> "LocalEngine | SparkEngine":
        """Create the engine.

        Args:
            name: which engine.
            settings: settings of the modelled brokers; a job has its own.
            of_gateway: settings that the gateway itself uses.

        Raises:
            UserError: an option belongs to the other engine, or the engine cannot be created.
        """
        if name == "local":
            return self._local(settings)
        idle = ", ".join(sorted(settings.given.keys() - set(of_gateway)))
        if idle:
            warn(f"no effect with --engine spark: {idle}. Pass them to `brokertwin run` instead.")
        return self._spark()

    def _local(self, settings: "BrokerSettings") -> "LocalEngine":
        from brokertwin.gateway.engine.journal import cluster_of
        from brokertwin.gateway.engine.local_engine import LocalEngine

        for option, value in (
            ("--bootstrap", self.bootstrap),
            ("--prefix", self.prefix),
            ("--kafka-config", self.kafka_config),
            ("--response-timeout", self.response_timeout_s),
        ):
            if value is not None:
                raise UserError(
                    f"Cannot combine {option} with --engine local, which uses no Kafka.",
                    f"Add --engine spark, or leave out {option}.",
                )
        if INTERNAL_LOGS not in settings.given:
            settings = msgspec.structs.replace(settings, brokertwin_internal_logs=True)
        brokers = list(range(1, (self.brokers or 1) + 1))
        journal = self._journal()
        of_journal = None if journal is None else cluster_of(journal.path)
        # Kafka, too, draws an id for each cluster: clients and tools tell clusters apart by it
        cluster = self.cluster or of_journal or f"local-{uuid.uuid4()}"
        return LocalEngine(cluster, brokers, settings, journal, may_intervene=self.may_intervene)

    def _journal(self) -> "JournalOptions | None":
        """Return the journal's path and its fsync interval."""
        from brokertwin.gateway.engine.persistence import AT_ONCE, JournalOptions

        text = self.journal_fsync
        if self.journal is None:
            if text is not None:
                raise UserError("--journal-fsync requires --journal.", "Add --journal FILE.")
            return None
        if text is None:
            return JournalOptions(self.journal)
        if text in ("always", "never"):
            return JournalOptions(self.journal, AT_ONCE if text == "always" else None)
        match = re.fullmatch(r"([1-9]\d{0,6})(ms|s)", text, re.ASCII)
        if match is None:
            raise UserError(
                f"Invalid value of --journal-fsync: {text!r}.",
                "Pass always, never, or a time such as 100ms or 1s.",
            )
        return JournalOptions(self.journal, int(match[1]) * _UNITS_MS[match[2]])

    def _spark(self) -> "SparkEngine":
        from brokertwin.gateway.engine.spark_engine import RESPONSE_TIMEOUT_S, SparkEngine
        from brokertwin.gateway.records.data_topic import DataTopic
        from brokertwin.gateway.records.sealed_segments import SealedSegments
        from brokertwin.kafka_io import placement
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
                "Cannot combine --brokers with --engine spark: the topic"
                f" {full_name(prefix, PLACEMENT)} has the job's brokers.",
                "Leave out --brokers; pass it to `brokertwin run`.",
            )
        if self.journal is not None or self.journal_fsync is not None:
            raise UserError(
                "Cannot combine --journal with --engine spark: the checkpoint has the job's state.",
                "Leave out --journal.",
            )
        if self.may_intervene:
            raise UserError(
                "Cannot combine --control with --engine spark.",
                "Leave out --control: `brokertwin cluster` reaches a job directly if it was started"
                " with `brokertwin run --interventions`.",
            )
        client = kafka_of(settings)
        placements = placement.read(client, prefix)
        placed = placements[selected_cluster(placements, self.cluster)]
        return SparkEngine(
            client,
            prefix,
            placed,
            DataTopic(client, prefix),
            SealedSegments(client, prefix, placed.cluster),
            self.response_timeout_s or RESPONSE_TIMEOUT_S,
        )
