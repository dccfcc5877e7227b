"""Audit of producer epochs: requests of fenced producers are not acknowledged."""

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.end_txn import EndTxnRequest
from brokertwin.protocol.generated.init_producer_id import InitProducerIdRequest
from brokertwin.simulation.audit_epochs import EpochAudit


def handed_out(epochs: EpochAudit, client: str, epoch: int) -> None:
    body = {"errorCode": 0, "producerId": 7, "producerEpoch": epoch}
    epochs.on_response(client, f"init-{client}", "INIT_PRODUCER_ID", body)


def end(epochs: EpochAudit, epoch: int, error: int) -> None:
    request = EndTxnRequest(
        transactional_id="t", producer_id=7, producer_epoch=epoch, committed=True
    )
    epochs.on_request("first", "end", request)
    epochs.on_response("first", "end", "END_TXN", {"errorCode": error})


def test_acknowledging_an_older_epoch_is_a_violation() -> None:
    violations: list[str] = []
    epochs = EpochAudit(violations.append)
    handed_out(epochs, "first", 0)
    end(epochs, 0, Error.NONE)
    handed_out(epochs, "second", 1)
    end(epochs, 0, Error.PRODUCER_FENCED)
    assert violations == []
    end(epochs, 0, Error.NONE)
    assert violations == ["END_TXN end has an epoch that was fenced, and is acknowledged"]


def test_an_epoch_is_assigned_to_one_client() -> None:
    violations: list[str] = []
    epochs = EpochAudit(violations.append)
    handed_out(epochs, "first", 0)
    handed_out(epochs, "first", 0)
    assert violations == []
    handed_out(epochs, "second", 0)
    assert violations == ["epoch 0 of producer 7 is given to first and to second"]


def test_end_txn_also_assigns_an_epoch() -> None:
    violations: list[str] = []
    epochs = EpochAudit(violations.append)
    handed_out(epochs, "first", 0)
    body = {"errorCode": 0, "producerId": 7, "producerEpoch": 1}
    epochs.on_response("first", "end", "END_TXN", body)
    end(epochs, 0, Error.NONE)
    assert violations == ["END_TXN end has an epoch that was fenced, and is acknowledged"]


def test_rivals_share_a_transactional_id() -> None:
    epochs = EpochAudit(lambda _: None)
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)
    epochs.on_request("first", "init-1", request)
    epochs.on_request("first", "init-2", request)
    assert not epochs.has_rivals("t")
    epochs.on_request("second", "init-3", request)
    assert epochs.has_rivals("t")
    assert not epochs.has_rivals("another")
