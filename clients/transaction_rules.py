"""The two protocols of transactions, and which of them brokers take.

Source: KIP-890; `TransactionManager.maybeUpdateTransactionV2Enabled`, `ApiVersions` in Kafka.

    finalized transaction.version    below 2, or not told          2
    a partition, a group's offsets   told to the coordinator       the request that writes adds
                                     before they are written       them: Produce 12,
                                                                   TxnOffsetCommit 5
    the end of a transaction         EndTxn up to 4: id and        EndTxn 5: the answer says id
                                     epoch stay                    and epoch of the next one
    a sequence in doubt              InitProducerId after the      nothing more: the next epoch
                                     abort                         begins at sequence 0
"""

from collections.abc import Mapping
from typing import NamedTuple

FEATURE = "transaction.version"
KIP_890_LEVEL = 2
NEWEST = 2**15 - 1

Versions = tuple[int, int]
"""The first and the last version of an API."""


class TransactionRules(NamedTuple):
    """One of the protocols.

    `is_told_first`: whether AddPartitionsToTxn and AddOffsetsToTxn come before what is written.
    `versions`: of the APIs whose version says which protocol it is.
    """

    is_told_first: bool
    versions: Mapping[str, Versions]


BEFORE_KIP_890 = TransactionRules(
    True, {"PRODUCE": (3, 11), "TXN_OFFSET_COMMIT": (3, 4), "END_TXN": (0, 4)}
)
KIP_890 = TransactionRules(
    False, {"PRODUCE": (12, NEWEST), "TXN_OFFSET_COMMIT": (5, NEWEST), "END_TXN": (5, NEWEST)}
)


def rules_of(features: Mapping[str, int]) -> TransactionRules:
    """The protocol of a cluster, by the levels of its finalized features."""
    return KIP_890 if features.get(FEATURE, 0) >= KIP_890_LEVEL else BEFORE_KIP_890
