"""A share of the log: the sums of a range of its examples, computed by another process than the learner.

    range of offsets --ShareReader.sum_up--> Share --bytes--> the learner: merged for exactly the examples that it sums

Each run of examples in a share is named by a digest of the examples. The learner reads the same range, and merges the
sums of a run only if the digest of what it would learn next is that name. So it does not matter whether a share is
late, comes twice or was read from a log that has changed since: it is used for what it sums, or not at all.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from safetensors.numpy import load, save

from online.learning.training_state import build_example
from online.models import BadExample, Example, Options, State, StatePart, Tensors, create
from online.models.contract import join_parts, pack_json, split_parts, unpack_json
from online.models.statistics.partial_sums import as_summing
from online.schemas.events import Event
from online.stream.contract import Stream

PART_NAMES = "names of parts"


@dataclass(frozen=True, slots=True)
class SumShare:
    """runs: the sums of each run of examples, by `digest_examples`. worker: the number of the one that computed them."""

    runs: Mapping[str, Tensors]
    worker: int = 0

    def find(self, examples: Sequence[Example]) -> Tensors | None:
        """Return the sums of exactly these examples; None if they are not in the share."""
        return self.runs.get(digest_examples(examples)) if self.runs else None

    def pack(self) -> bytes:
        """Return the sums as the bytes of a safetensors file."""
        return save(join_parts(self.runs))

    @classmethod
    def unpack(cls, data: bytes) -> "SumShare":
        """Return what `pack` packed. Raises ValueError for data that are not a share."""
        try:
            return cls(split_parts(load(data)))
        except Exception as error:  # the library has errors of its own, of several bases
            raise ValueError(f"a share of the log cannot be read: {error}") from None


EMPTY = SumShare({})


def digest_examples(examples: Sequence[Example]) -> str:
    """Return the name of a run of examples, which equal examples at the same offsets alone have."""
    fields = [
        (
            example.offset,
            example.kind,
            example.label,
            example.text,
            example.reward,
            example.scope,
            example.superseded,
            example.signal,
            len(example.features),
        )
        for example in examples
    ]
    seen = hashlib.blake2b(json.dumps(fields).encode(), digest_size=16)  # one call takes half the time of one for each
    seen.update(b"".join(example.features for example in examples))
    return seen.hexdigest()


def list_runs(entries: Sequence[Event]) -> Iterator[list[Event]]:
    """Yield the runs that a training state learns at once: what retracts an earlier entry separates them."""
    teaching = (entry for entry in entries if not entry.teaches_nothing)
    for is_retraction, run in groupby(teaching, lambda entry: entry.kind == "retraction"):
        if not is_retraction:
            yield list(run)


class ShareReader:
    """Sums ranges of one model's log, as the learner reads examples at the time.

    state: the serving parts of the learner's model.
    """

    def __init__(self, kind: str, options: Options, stream: Stream, state: State) -> None:
        self.stream, self.model = stream, create(kind, options)
        self.model.restore(state)

    def sum_up(self, after: int, until: int) -> SumShare:
        """Sum the examples at the offsets `after` + 1 to `until`; runs that must be learned in order are left out."""
        entries = self.stream.read(after, until - after)
        found = {}
        for run in list_runs(entries):
            examples = [build_example(entry) for entry in run]
            sums = self._sum_run(examples)
            if sums is not None:
                found[digest_examples(examples)] = sums
        return SumShare(found)

    def _sum_run(self, examples: Sequence[Example]) -> Tensors | None:
        if len(examples) < 2 or any(example.kind not in ("label", "reward", "correction") for example in examples):
            return None
        try:
            return as_summing(self.model).sum_up(examples)
        except BadExample:  # the learner finds it, and refuses it
            return None


def pack_state(state: State) -> bytes:
    """Return the parts of a state, as bytes."""
    names = {PART_NAMES: pack_json(list(state))}  # a part without tensors is a part
    return save(join_parts({name: part.tensors for name, part in state.items()}) | names)


def unpack_state(data: bytes) -> State:
    """Return the inverse of `pack_state`."""
    tensors = load(data)
    parts = split_parts(tensors)
    return {name: StatePart(parts.get(name, {}), serving=True) for name in unpack_json(tensors[PART_NAMES])}
