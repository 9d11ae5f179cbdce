"""The total of a cohort: recovered from the messages of all rounds, and written as a file of sums.

messages in the store --load_rounds--> bodies --recover--> values [L] --write_total--> file of sums
"""

import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from online.models.exchange.sums_file import write_sums
from online.models.statistics.exact import ExactStatistics
from online_federated.bodies import (
    COMMITMENT,
    choose_values_layout,
    limits_of,
    read_keys,
    read_unmasking,
)
from online_federated.schemas import CohortParameters
from online_federated.secure_aggregation.messages import AggregationGroup, SealedShares, choose_threshold
from online_federated.tables import CohortRow, load_bodies
from online_federated.values import check_limits, unflatten_sums

Rounds = Mapping[str, Mapping[int, bytes]]  # round -> number of the member -> body


def context_of(id: str) -> bytes:
    """Return the name of a cohort's group."""
    return b"online cohort " + id.encode()


def id_of_feedback(id: str) -> str:
    """Return the id of the feedback that the sum of a cohort becomes. No client can choose it: theirs have no '#'."""
    return f"cohort#{id}"


def load_rounds(connection: Connection, row: CohortRow) -> Rounds:
    """Return all that `recover` reads: of the shares, which their receivers have opened, only the commitments."""
    return {
        round: load_bodies(connection, row.model, row.id, round, COMMITMENT if round == "sharing" else None)
        for round in ("joining", "sharing", "masking", "unmasking")
    }


def recover(row: CohortRow, parameters: CohortParameters, messages: Rounds) -> NDArray[np.int64]:
    """Return the sum of the survivors' values. Raises AggregationFailed."""
    from online_federated.secure_aggregation.server import recover_sum

    layout = choose_values_layout(parameters, row.width)
    return recover_sum(
        AggregationGroup(context_of(row.id), choose_threshold(row.member_count), layout),
        {number: read_keys(body) for number, body in messages["joining"].items()},
        {number: SealedShares({}, commitment) for number, commitment in messages["sharing"].items()},
        messages["masking"],
        {number: read_unmasking(body) for number, body in messages["unmasking"].items()},
    )


def write_total(row: CohortRow, parameters: CohortParameters, total_L: NDArray[np.int64]) -> bytes:
    """Return the file of the sums of a cohort, of the features on which its members agreed. Raises AggregationFailed."""
    tensors = unflatten_sums(total_L, len(parameters.classes), row.width)
    check_limits(tensors, limits_of(parameters))
    return write_sums(ExactStatistics.from_tensors(parameters.classes, tensors), json.loads(row.features))
