"""The members of an ensemble: teaches them all, and stores their states under their names."""

from collections.abc import Callable, Iterator, Sequence

from online.models.contract import BadExample, Example, Model, State, StatePart


def split_at_scored(examples: Sequence[Example], scores: Callable[[Example], bool]) -> Iterator[Sequence[Example]]:
    """Split into runs, each of which begins with an example that is scored.

    Whatever precedes a scored example is then learned before the members answer it.
    """
    cuts = [place for place, example in enumerate(examples) if place and scores(example)]
    for start, end in zip([0, *cuts], [*cuts, len(examples)], strict=True):
        if end > start:
            yield examples[start:end]


def teach_all(model: Model, examples: Sequence[Example]) -> int:
    """Teach every example that the model can learn; the number of those it cannot."""
    try:
        model.learn(examples)
    except BadExample:
        return sum(teach_all(model, [example]) for example in examples) if len(examples) > 1 else 1
    return 0


def prefix_parts(name: str, state: State, serves: bool) -> dict[str, StatePart]:
    """Return a member's parts under "name.part"; only a member that serves has serving parts."""
    return {
        f"{name}.{part_name}": StatePart(part.tensors, part.serving and serves, part.revision, part.derived)
        for part_name, part in state.items()
    }


def extract_parts(name: str, state: State) -> dict[str, StatePart]:
    """Return the parts of one member under their own names: the inverse of `prefix_parts`."""
    return {full.removeprefix(f"{name}."): part for full, part in state.items() if full.startswith(f"{name}.")}
