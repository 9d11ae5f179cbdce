"""Completes lines with the features that a model reads."""

from collections.abc import Iterator, Sequence
from typing import Any

from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.log_format import Line, LoggedEvent, LoggedPrediction
from online.evaluation.sources.row_blocks import RowBlock
from online.models import Encoder


class LineFeatures:
    """Completes lines with features: as logged, or encoded from the instance.

    An event about a prediction gets the features of that prediction. kept: the features of
    predictions, with the number of events that still need them.
    """

    def __init__(self, encoder: Encoder | None) -> None:
        self.encoder = encoder
        self.kept: dict[str, list[Any]] = {}

    def of(self, lines: Sequence[Line], bad: BadLines) -> Iterator[Line]:
        """Yield lines with their features. Events about a prediction that did not come before are marked as orphans.

        `bad` counts those whose input cannot be encoded, which are left out.
        """
        needed = [self._instance(line) for line in lines]
        encoded = self._encoded([instance for each in needed for instance in each if instance is not None])
        for line, instance in zip(lines, needed, strict=True):
            features = next(encoded) if instance and instance[0] is not None else None
            if instance == (None,):
                continue  # its text was erased
            if isinstance(features, ValueError):
                bad.add(f"{describe_line(line)}: {str(features).removeprefix('instance 0 ')}")
                continue
            if isinstance(line, LoggedPrediction):
                self._keep(line, features)
            else:
                self._complete(line, features)
            yield line

    def of_rows(self, rows: RowBlock, bad: BadLines) -> RowBlock:
        """Return the rows with their features, without those whose instance cannot be encoded."""
        if self.encoder is None:
            return rows
        encoded = [*self._encoded(rows.instances)]
        wrong = {place for place, features in enumerate(encoded) if isinstance(features, ValueError)}
        for place in sorted(wrong):
            what = str(encoded[place]).removeprefix("instance 0 ")
            bad.add(f"example {rows.numbers[place]}: {what}", rows.numbers[place], "bad_input")
        rows.features = encoded  # type: ignore[assignment]
        return rows.drop(wrong) if wrong else rows

    def _instance(self, line: Line) -> tuple[object, ...]:
        """Return the instance to encode, in a tuple: () if there is none, (None,) if its text was erased."""
        if self.encoder is None:
            return ()
        if isinstance(line, LoggedPrediction):
            return (line.instance,)
        event = line.event
        if "sums" in (event.kind, event.target and event.target.kind):
            return ()  # it has no instance: its features are a file
        words = event.text or (event.target.text if event.target else "")
        if line.prediction_id is not None or not (event.features or words):
            return ()
        return (line.instance if line.instance is not None else words or None,)

    def _encoded(self, instances: Sequence[object]) -> Iterator[bytes | ValueError]:
        if self.encoder is None or not instances:
            return
        try:
            yield from self.encoder.encode(instances)
            return
        except ValueError:
            pass  # one of them is invalid: encode one by one to find it
        for instance in instances:
            try:
                yield self.encoder.encode([instance])[0]
            except ValueError as error:
                yield error

    def _keep(self, line: LoggedPrediction, features: bytes | None) -> None:
        if features is not None:
            line.features = features
        if line.feedback_count:
            self.kept[line.id] = [line.features, line.feedback_count]

    def _complete(self, line: LoggedEvent, features: bytes | None) -> None:
        """Give an event its features. One about a prediction that comes later, never, or could not be used is an orphan."""
        line.features = features
        if line.prediction_id is None:
            return
        kept = self.kept.get(line.prediction_id)
        if kept is None:
            line.is_orphan = True
            return
        line.features = kept[0]
        kept[1] -= 1
        if not kept[1]:
            del self.kept[line.prediction_id]


def describe_line(line: Line) -> str:
    """Return the name of a line for an error."""
    return f"example {line.id}" if isinstance(line, LoggedPrediction) else f"event {line.event.offset}"
