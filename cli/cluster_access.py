"""How `brokertwin cluster` reaches a cluster: a gateway's control socket, or a job's topics.

Each subcommand takes the same options and puts them into `Access`, which finds out which of the two
is meant: with `--control` the engine local of a gateway, otherwise a job.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brokertwin.cli.options import settings_of
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.gateway.engine import Answer
    from brokertwin.gateway.spark_engine import SparkEngine
    from brokertwin.streaming.state_rows import Row

INTERNAL_KIND = "internal kind from outside"

ControlFile = Annotated[
    Path | None,
    typer.Option(
        "--control",
        metavar="FILE",
        help="The control socket of a gateway with the engine local; without it a job is meant.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="The job's cluster, where it has several."),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", min=1, metavar="SECONDS", help="How long the job may be silent."),
]


@dataclass(frozen=True)
class Access:
    """The options that say which cluster is meant; None means not given."""

    control: Path | None
    cluster: str | None = None
    checkpoint: Path | None = None
    bootstrap: str | None = None
    prefix: str | None = None
    kafka_config: Path | None = None
    config: Path | None = None
    timeout_s: float | None = None

    def status(self) -> "dict[str, list[Row]]":
        """`brokers` and `partitions` of the cluster, as `state/cell/overview.py` has them.

        Raises:
            UserError: nobody answers, there is no checkpoint, or it is not clear which cluster.
        """
        if self.control is not None:
            from brokertwin.gateway.control import STATUS, ask

            return ask(self.control, ask=STATUS)
        return self._status_of_job()

    def intervene(self, kind: str, broker: int, directory: str = "") -> None:
        """Do to a broker what `ABOUT_BROKERS` names. Raises UserError where it is refused.

        `directory` is the log directory that fails.
        """
        if self.control is not None:
            from brokertwin.gateway.control import ask

            told = ask(self.control, ask=kind, broker=broker, directory=directory)
            _refuse(told.get("error"))
            return
        from brokertwin.state.core.events import Kind

        self._at_job(lambda engine: engine.intervene(Kind(kind), broker, directory), broker)

    def request(self, api_key: int, version: int, body: Any, principal: str) -> Any:
        """The body of the answer to a request. Raises UserError where there is none."""
        from brokertwin.gateway import control

        if self.control is not None:
            asked = {"apiKey": api_key, "apiVersion": version, "body": body}
            answer = control.ask(self.control, ask=control.REQUEST, principal=principal, **asked)
            _refuse(answer.get("error"))
            return answer["response"]
        return self._at_job(
            lambda engine: control.request(engine, api_key, version, body, principal)
        ).response

    def _status_of_job(self) -> "dict[str, list[Row]]":
        from brokertwin.kafka_io.placement import cluster_of
        from brokertwin.state.cell import overview
        from brokertwin.state.core.tables import Tables
        from brokertwin.streaming import facts, state_reader

        settings = settings_of(self.config, checkpoint=self.checkpoint, prefix=self.prefix)
        cells = state_reader.read_cells(settings.checkpoint_dir)
        known = facts.read(settings.checkpoint_dir)
        assert known is not None, "there are cells, and so there are facts"
        name = _one_of(list(known.brokers), self.cluster)
        tables = [Tables(cells[cell]) for cell in cells if cluster_of(cell) == name]
        return {
            "brokers": overview.brokers(tables, known.brokers[name]),
            "partitions": overview.partitions(tables),
        }

    def _at_job(
        self, work: "Callable[[SparkEngine], Awaitable[Answer]]", broker: int | None = None
    ) -> "Answer":
        """What a job answers. Raises UserError where it does not, or refuses."""
        from brokertwin.cli.engines import EngineName, EngineOptions
        from brokertwin.gateway.engine import UnansweredError
        from brokertwin.gateway.spark_engine import SparkEngine
        from brokertwin.state.core.settings import BrokerSettings

        options = EngineOptions(
            self.cluster,
            None,
            None,
            None,
            self.bootstrap,
            self.prefix,
            self.kafka_config,
            self.config,
            self.timeout_s,
        )
        engine = options.make(EngineName.SPARK, BrokerSettings(), ())
        assert isinstance(engine, SparkEngine)
        if broker is not None and broker not in engine.brokers:
            raise UserError(f"There is no broker {broker}, only {engine.brokers}.")

        async def do() -> "Answer":
            await engine.start()
            try:
                return await work(engine)
            finally:
                await engine.close()

        try:
            answer = asyncio.run(do())
        except UnansweredError as error:
            raise UserError(f"No answer: {error}.") from None
        _refuse(answer.error)
        return answer


def _refuse(error: "dict[str, str] | None") -> None:
    """Raises UserError with the reason of a refusal, if it is one."""
    if error is None:
        return
    if error["reason"] == INTERNAL_KIND:
        raise UserError(
            "This job takes no interventions.", "Start it with `brokertwin run --interventions`."
        )
    raise UserError(f"Refused, {error['reason']}: {error['detail']}.")


def _one_of(names: list[str], name: str | None) -> str:
    """The cluster that is named, or the only one. Raises UserError."""
    known = ", ".join(sorted(names))
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise UserError(f"The job holds several clusters: {known}.", "Say which with --cluster.")
    if name not in names:
        raise UserError(f"The job holds {known}, not {name}.", "Is --cluster right?")
    return name
