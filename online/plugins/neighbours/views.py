"""Chooses the examples of a window that answer after an alarm of drift: all, the newest, or all with older classes translated.

    all  |  since an offset  |  the newest  |  all, the older ones translated
             each answers the newest BLOCK examples without them; what leads by LEAD answers from then on

The comparison is that of `statistics.adaptation`, on examples instead of sums. The window stays as it is, so nothing
is lost, and what is decided depends on the log alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from online.models.statistics.adaptation import (
    BLOCK,
    IDLE_PER_CLASS,
    KEPT_LEAD,
    LEAD,
    LEAST_AT_ONCE,
    LEAST_IDLE,
    LEAST_ROWS,
    PER_CLASS,
    WRONG_AT_ONCE,
    MemoryComparison,
    Translation,
    find_translation,
)
from online.schemas.json_values import JSONObject


@dataclass(frozen=True, slots=True)
class ExampleView:
    """A view of the examples before the offset `since`: in other classes, or (None) not at all. since=0: all are read."""

    since: int = 0
    translation: Translation | None = None

    def read(self, offset: int, label: str) -> str | None:
        """Return the class of an example; None if it is left out."""
        if offset >= self.since:
            return label
        return None if self.translation is None else self.translation.get(label, label)


ALL = ExampleView()
Answers = Callable[[ExampleView, Sequence[int], Sequence[int]], list[str | None]]
"""answers(view, known, asked): what the examples with the offsets `known` answer to those with the offsets `asked`."""


class ViewChoice:
    """The view that answers, and the comparison that decides it.

    offsets, labels below: of the window's positive examples, ascending.
    """

    def __init__(self) -> None:
        self.view = ALL
        self.contest: MemoryComparison | None = None

    def begin(self, since: int, at_once: bool, labels: dict[int, str], answers: Answers) -> bool:
        """Compare from now on. Return whether another view answers now. at_once: whether most may have become wrong."""
        if not labels:
            return False
        offsets = [*labels]
        if self.contest is None:
            self.contest = MemoryComparison(since, offsets[-1])
        self.contest.since, self.contest.idle = max(since, self.contest.since), 0
        changed = [offset for offset in offsets if offset >= max(since, self.view.since)]
        earlier = offsets[: len(offsets) - len(changed)]
        if not at_once or len(changed) < LEAST_AT_ONCE or not earlier:
            return False
        if count_right(answers(self.view, earlier, changed), changed, labels) > (1 - WRONG_AT_ONCE) * len(changed):
            return False
        self._serve(ExampleView(changed[0]))
        self.contest.judged_until = offsets[-1]
        return True

    def judge(self, labels: dict[int, str], answers: Answers) -> bool:
        """Judge a block, if it is complete. Return whether another view answers now."""
        contest, offsets = self.contest, [*labels]
        if contest is None or len(offsets) < BLOCK or offsets[-BLOCK] <= contest.judged_until:
            return False
        earlier, block = offsets[:-BLOCK], offsets[-BLOCK:]
        changed = [offset for offset in earlier if offset >= contest.since]
        classes = sorted({*labels.values()})
        newest = ExampleView((changed[-max(LEAST_ROWS, PER_CLASS * len(classes)) :] or [0])[0])
        served = count_right(answers(self.view, earlier, block), block, labels)
        everything = served if self.view == ALL else count_right(answers(ALL, earlier, block), block, labels)
        contest.everything = contest.everything * KEPT_LEAD + everything - served
        contest.newest *= KEPT_LEAD
        if newest.since > self.view.since:
            contest.newest += count_right(answers(newest, earlier, block), block, labels) - served
        translation, translated = self._judge_translation(changed, earlier, block, classes, labels, answers)
        contest.translated = contest.translated * KEPT_LEAD + translated - served
        contest.judged_until, contest.idle = block[-1], contest.idle + BLOCK
        return self._decide(contest, newest, translation, translated >= served, len(classes))

    def _judge_translation(
        self,
        changed: Sequence[int],
        earlier: Sequence[int],
        block: Sequence[int],
        classes: Sequence[str],
        labels: dict[int, str],
        answers: Answers,
    ) -> tuple[Translation | None, int]:
        """Return what the examples since a change say the older classes are now, and how many of a block that gets right."""
        before = earlier[: len(earlier) - len(changed)]
        if not changed or not before:
            return None, 0
        place = {label: index for index, label in enumerate(classes)}
        guesses = [place.get(label or "", 0) for label in answers(ALL, before, [*changed, *block])]
        known = np.array([place[labels[offset]] for offset in changed])
        place_C = find_translation(np.array(guesses[: len(changed)]), known, len(classes))
        right = sum(
            place_C[guess] == place[labels[at]] for guess, at in zip(guesses[-len(block) :], block, strict=True)
        )
        translation = {classes[old]: classes[new] for old, new in enumerate(place_C.tolist()) if old != new}
        return translation or None, int(right)

    def _decide(
        self,
        contest: MemoryComparison,
        newest: ExampleView,
        translation: Translation | None,
        is_as_good: bool,
        classes: int,
    ) -> bool:
        if translation is not None and self.view.translation is not None and self.view.since == contest.since:
            if translation != self.view.translation and is_as_good:  # it adds to the one that answers
                self._serve(ExampleView(contest.since, translation))
                return True
        elif translation is not None and contest.translated >= max(LEAD, contest.newest, contest.everything):
            self._serve(ExampleView(contest.since, translation))
            return True
        if contest.newest >= LEAD:
            self._serve(newest)
        elif contest.everything >= LEAD:
            self._serve(ALL)
        else:
            if contest.idle >= max(LEAST_IDLE, IDLE_PER_CLASS * classes):
                self.contest = None
            return False
        return True

    def _serve(self, view: ExampleView) -> None:
        self.view = view
        if self.contest is not None:
            self.contest.begin_again()

    # state

    def memory(self) -> JSONObject:
        """As JSON; empty if there was no alarm."""
        if self.view == ALL and self.contest is None:
            return {}
        return {"view": asdict(self.view), "contest": self.contest and asdict(self.contest)}

    def restore(self, memory: JSONObject) -> None:
        """Adopt a state that `state` returned."""
        self.view = ExampleView(**memory["view"]) if memory else ALL
        self.contest = MemoryComparison(**memory["contest"]) if memory and memory["contest"] else None


def count_right(choices: Sequence[str | None], asked: Sequence[int], labels: dict[int, str]) -> int:
    """Return how many choices are the labels."""
    return sum(choice == labels[offset] for choice, offset in zip(choices, asked, strict=True))
