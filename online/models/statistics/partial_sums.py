"""Exact models whose examples are summed by several processes.

    log --shares--> sum_up, in any process --sums--> merge, in the order of the log --> the state of one process

What a share adds to a model is a few tensors: integer sums, which addition merges, and bounded samples (the examples
with the lowest hashes, the newest rows), whose union determines the same sample of the whole. When a share arrives,
how often, and who summed it therefore cannot change the state: only which shares were merged does.
"""

from typing import cast

from online.models.contract import Model, Options, SummingModel
from online.models.kinds import spec_of
from online.models.retirement import unwrap
from online.models.wrappers import find_wrapper


def has_partial_sums(kind: str, options: Options) -> bool:
    """Return whether several processes can sum the examples of such a model."""
    return spec_of(kind).has_partial_sums and find_wrapper(options) is None


def as_summing(model: Model) -> SummingModel:
    """Return the part of a model that sums examples. The kind of the model must have partial sums."""
    return cast(SummingModel, unwrap(model))
