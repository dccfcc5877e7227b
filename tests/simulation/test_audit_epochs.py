"""What the auditor says of epochs: who is fenced is acknowledged nothing."""

from brokerstream.simulation.audit_epochs import Epochs
from brokerstream.state.apis.end_txn import EndTxnRequest
from brokerstream.state.core.errors import Error


def handed_out(epochs: Epochs, client: str, epoch: int) -> None:
    body = {"errorCode": 0, "producerId": 7, "producerEpoch": epoch}
    epochs.answered(client, f"init-{client}", "INIT_PRODUCER_ID", body)


def end(epochs: Epochs, epoch: int, error: int) -> None:
    request = EndTxnRequest(
        transactional_id="t", producer_id=7, producer_epoch=epoch, committed=True
    )
    epochs.asked("end", request)
    epochs.answered("first", "end", "END_TXN", {"errorCode": error})


def test_an_older_epoch_is_acknowledged_nothing() -> None:
    violations: list[str] = []
    epochs = Epochs(violations.append)
    handed_out(epochs, "first", 0)
    end(epochs, 0, Error.NONE)
    handed_out(epochs, "second", 1)
    end(epochs, 0, Error.PRODUCER_FENCED)
    assert violations == []
    end(epochs, 0, Error.NONE)
    assert violations == ["END_TXN end has an epoch that was fenced, and is acknowledged"]


def test_an_epoch_is_given_to_one_client() -> None:
    violations: list[str] = []
    epochs = Epochs(violations.append)
    handed_out(epochs, "first", 0)
    handed_out(epochs, "first", 0)
    assert violations == []
    handed_out(epochs, "second", 0)
    assert violations == ["epoch 0 of producer 7 is given to first and to second"]
