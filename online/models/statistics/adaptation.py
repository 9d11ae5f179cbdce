"""Chooses by evidence, after an alarm of drift, between all that was learned and what is recent.

    all sums  |  sums since an offset  |  the newest rows  |  all sums, the older ones translated
                        each is solved without the newest BLOCK rows and answers these; what leads by LEAD is
                        served from then on

Nothing learned is lost: all sums stay whole, and are the identity of the model. If nearly every answer since the
change is wrong, what is recent is served at once. Alarms of a change that goes on begin the comparison again, and
each time the newest rows win, the sums begin later; so a gradual change is followed to its end. A false alarm
changes nothing as long as all sums answer better.

Classes that only changed their names need no new learning: a translation reads each class of the examples before the
change as the class that most rows since have, of those that the older sums alone take for it (`find_translation`).

What is decided, and when, depends on the log alone: a block ends after a number of examples, not with a batch, and is
judged on weights that are solved from sums.

Shapes: B examples, N rows, D inputs, M features.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from online.models.contract import State, StatePart, pack_json, unpack_json
from online.models.statistics.calibration import HELD_OUT, hash_offset
from online.models.statistics.exact import ExactStatistics
from online.models.statistics.heads import Head, HeadDecision
from online.models.statistics.recent import RecentRows
from online.models.statistics.slda import MeanSums
from online.schemas.json_values import JSONObject

BLOCK = 16  # examples that are judged together
LEAD, KEPT_LEAD = 5.0, 0.75  # right answers more than the served sums; share of a lead that the next block keeps
PER_CLASS, LEAST_ROWS = 8, 64  # the newest rows that compete: of each class, and in all
WRONG_AT_ONCE, LEAST_AT_ONCE = 2 / 3, 5  # share of wrong answers since a change, and rows, that suffice at once
IDLE_PER_CLASS, LEAST_IDLE = 20, 128  # examples of a comparison that changes nothing, after which it ends
NEVER = 1 << 62
LEAST_ROOM = LEAST_ROWS + BLOCK  # rows that a comparison needs
PART = "adaptation"

Int8s = NDArray[np.int8]
Translation = dict[str, str]  # a class before a change -> what it is since; classes that did not change are left out


@dataclass(slots=True)
class MemoryComparison:
    """A comparison that goes on.

    since: the offset near which the change began. judged_until: the offset of the last example that was judged.
    newest, everything, translated: what the newest rows, all sums and their translation lead the served sums by.
    idle: examples since it began, or since another memory was served.
    """

    since: int
    judged_until: int
    newest: float = 0.0
    everything: float = 0.0
    idle: int = 0
    translated: float = 0.0

    def begin_again(self) -> None:
        """Forget all leads: other sums are served now."""
        self.newest = self.everything = self.translated = 0.0
        self.idle = 0


class Adaptation:
    """The memory that a model uses instead of all sums, and the comparison that decides it.

    recent: the sums of the examples since the offset `since`, if these are served. all_since: the offset after which
    their negative examples count, because older ones are not held as rows. translation: what the classes of earlier
    examples are in `recent`, if these are part of it, by name; None: they are not.
    """

    def __init__(self, room: int) -> None:
        """room: rows that are held; 0: the model never adapts."""
        self.rows = RecentRows(room)
        self.recent: Head | None = None
        self.contest: MemoryComparison | None = None
        self.since = self.all_since = 0
        self.translation: Translation | None = None

    # examples

    def add(
        self,
        x_BD: Int8s,
        features_BM: Int8s,
        labels: Sequence[str],
        offsets: Sequence[int],
        whole: Head,
        negative: bool,
        times: int,
    ) -> None:
        """Note B examples that were added to the sums of `whole` (times=-1: subtracted)."""
        if not negative and self.rows.room:
            if times > 0:
                self.rows.add(x_BD, labels, offsets)
            else:
                self.rows.remove(offsets)
        if self.recent is not None:
            self._share_names(self.recent, whole)
            first = self.all_since + 1 if negative else self.since
            is_recent = [offset >= first for offset in offsets]
            kept = [place for place in range(len(offsets)) if is_recent[place] or self.translation is not None]
            names = [labels[place] if is_recent[place] else self._translate(labels[place]) for place in kept]
            if kept:
                classes = [whole.statistics.add_class(name) for name in names]
                self.recent.add(features_BM[kept], classes, negative, times)

    def merge(self, sums: ExactStatistics, offset: int, whole: Head, times: int) -> None:
        """Note that the sums of a device, which came at an offset, were added to those of `whole` (times=-1: subtracted).

        They count as recent on the same condition as negative examples do: neither are held as rows.
        """
        is_recent = offset > self.all_since
        if self.recent is None or not (is_recent or self.translation is not None):
            return
        self._share_names(self.recent, whole)
        if not is_recent:
            own = [*sums.classes]
            places = [sums.add_class(self._translate(label)) for label in own]
            sums = sums.translated([*places, *range(len(own), len(sums.classes))])
        self.recent.merge(sums, times)

    def drop_unused_classes(self, whole: Head) -> None:
        """Drop the classes of which neither the recent sums nor those of `whole` have examples."""
        heads, used_C = [whole], whole.statistics.used
        if self.recent is not None:
            self._share_names(self.recent, whole)
            heads, used_C = [whole, self.recent], used_C | self.recent.statistics.used
        if not used_C.all():
            for head in heads:
                head.statistics.keep_classes(np.flatnonzero(used_C).tolist())
                head.forget_solutions()

    def _translate(self, label: str) -> str:
        return label if self.translation is None else self.translation.get(label, label)

    @staticmethod
    def _share_names(head: Head, whole: Head) -> None:
        """Give the sums of a head the classes and columns of all sums, in the same order."""
        for label in whole.statistics.classes[len(head.statistics.classes) :]:
            head.statistics.add_class(label)
        head.statistics.widen(whole.statistics.width)

    def count_missing(self) -> int:
        """Return the number of examples until a block is to be judged or a decision about the recent sums is due."""
        missing = NEVER if self.recent is None else self.recent.decides_at - self.recent.count
        if self.contest is not None:
            missing = min(missing, BLOCK - len(self.rows.after(self.contest.judged_until)))
        return max(1, missing)

    # the comparison

    def begin(self, since: int, at_once: bool, whole: Head, mean_sums: MeanSums | None) -> None:
        """Compare from now on. at_once: whether nearly all answers may have become wrong."""
        if not self.rows.offsets:
            return
        newest = self.rows.offsets[-1]
        if self.contest is None:
            self.contest = MemoryComparison(since, newest)
        self.contest.since, self.contest.idle = max(since, self.contest.since), 0
        changed = self._select_newest(self.rows.after(max(since, self.since) - 1), whole)
        if at_once and len(changed) >= LEAST_AT_ONCE:
            right = self._count_right(self.recent or whole, changed, whole, mean_sums)
            if right <= (1 - WRONG_AT_ONCE) * len(changed):
                self._serve(changed, whole)
                self.contest.judged_until = newest

    def judge(self, whole: Head, mean_sums: MeanSums | None) -> bool:
        """Judge a block, if it is complete. Return whether other sums are served now."""
        contest = self.contest
        if contest is None or len(block := self.rows.after(contest.judged_until)) < BLOCK:
            return False
        earlier = self.rows.offsets[: -len(block)]
        newest = self._select_newest([offset for offset in earlier if offset >= contest.since], whole)
        served = self._count_right(self.recent or whole, block, whole, mean_sums)
        changed = [offset for offset in earlier if offset >= contest.since]
        translation, translated = self._judge_translation(changed, block, whole)
        contest.translated = contest.translated * KEPT_LEAD + translated - served
        contest.newest *= KEPT_LEAD
        if newest and (self.recent is None or newest[0] > self.since):
            contest.newest += self._count_right(self._collect(newest, whole), block, None) - served
        contest.everything *= KEPT_LEAD
        if self.recent is not None:
            contest.everything += self._count_right(whole, block, whole, mean_sums) - served
        contest.judged_until, contest.idle = block[-1], contest.idle + len(block)
        if translation is not None and self._is_better_translation(contest, translation, translated >= served):
            self._serve_translated(translation, [*changed, *block], whole)
            return True
        return self._decide(contest, [*newest, *block], whole)

    def _is_better_translation(self, contest: MemoryComparison, translation: Translation, is_as_good: bool) -> bool:
        """Return whether to serve a translation: if it leads, or if it adds to the one that is served."""
        if self.translation is not None and self.since == contest.since:
            return translation != self.translation and is_as_good
        return contest.translated >= max(LEAD, contest.newest, contest.everything)

    def _decide(self, contest: MemoryComparison, newest: Sequence[int], whole: Head) -> bool:
        if contest.newest >= LEAD:
            self._serve(newest, whole)
        elif contest.everything >= LEAD:
            self.recent, self.since, self.translation = None, 0, None
            contest.begin_again()
        else:
            if contest.idle >= max(LEAST_IDLE, IDLE_PER_CLASS * len(whole.statistics.classes)):
                self.contest = None
            return False
        return True

    def _serve(self, offsets: Sequence[int], whole: Head) -> None:
        """Serve the sums since the first of these offsets."""
        self.recent, self.since, self.all_since = self._collect(offsets, whole), offsets[0], self.rows.offsets[-1]
        self.translation = None
        if self.contest is not None:
            self.contest.begin_again()

    # translated classes

    def _judge_translation(
        self, changed: Sequence[int], block: Sequence[int], whole: Head
    ) -> tuple[Translation | None, int]:
        """Return what the rows since a change say the older classes are now, and how many rows of a block that gets right.

        None if they say that nothing changed, or if rows since the change are no longer held.
        """
        if not changed or (len(self.rows.offsets) >= self.rows.room and changed[0] == self.rows.offsets[0]):
            return None, 0
        features_NM, classes = self._read([*changed, *block], whole)
        others = whole.statistics.copy()
        others.add(features_NM, classes, times=-1)
        guesses_N = whole.solve_others(whole.decided, others).scores(features_NM).argmax(1)
        count, labels = len(changed), whole.statistics.classes
        place_C = find_translation(guesses_N[:count], np.array(classes[:count]), len(labels))
        right = int((place_C[guesses_N[count:]] == classes[count:]).sum())
        translation = {labels[old]: labels[new] for old, new in enumerate(place_C.tolist()) if old != new}
        return translation or None, right

    def _serve_translated(self, translation: Translation, offsets: Sequence[int], whole: Head) -> None:
        """Serve all sums; before the first of these offsets, the newest of all, other classes meant the same."""
        head = Head(whole.head, whole.projection, whole.shrinkage, whole.priors, whole.statistics.place)
        features_NM, classes = self._read(offsets, whole)
        sums = whole.statistics.copy()
        sums.add(features_NM, classes, times=-1)
        places = [whole.statistics.add_class(translation.get(label, label)) for label in whole.statistics.classes]
        head.statistics = sums.translated(places)
        head.statistics.add(features_NM, classes)
        head.merged_count = whole.merged_count
        head.decided = replace(whole.decided, at_count=head.count)
        self.recent, self.since, self.all_since = head, offsets[0], self.rows.offsets[-1]
        self.translation = translation
        if self.contest is not None:
            self.contest.begin_again()

    def _select_newest(self, offsets: Sequence[int], whole: Head) -> list[int]:
        """Return the newest of these offsets, as many as compete."""
        count = max(LEAST_ROWS, PER_CLASS * len(whole.statistics.classes))
        return list(offsets[-min(count, self.rows.room - BLOCK) :])

    def _collect(self, offsets: Sequence[int], whole: Head) -> Head:
        """Return a head on the sums of the rows with these offsets."""
        head = self._create_head(whole)
        if whole.head == "slda":
            head.decided = replace((self.recent or whole).decided, at_count=0)
        self._share_names(head, whole)
        features_NM, classes = self._read(offsets, whole)
        head.statistics.add(features_NM, classes)
        return head

    @staticmethod
    def _create_head(whole: Head) -> Head:
        """Return a head without examples for recent sums.

        Any head but slda is replaced by `best`: slda answers better after few examples, and held-out rows decide
        later whether it stays.
        """
        head = "slda" if whole.head == "slda" else "best"
        return Head(head, whole.projection, whole.shrinkage, whole.priors, whole.statistics.place)

    def _read(self, offsets: Sequence[int], whole: Head) -> tuple[Int8s, list[int]]:
        """Return the features [N, M] and classes of rows."""
        x_ND, labels = self.rows.read(offsets, whole.statistics.width - whole.start)
        return whole.features(x_ND), [whole.statistics.add_class(label) for label in labels]

    def _count_right(
        self, head: Head, offsets: Sequence[int], whole: Head | None, mean_sums: MeanSums | None = None
    ) -> int:
        """Return how many rows a head answers rightly that has not learned them. whole: all sums; None if it has not."""
        features_NM, classes = self._read(offsets, whole or head)
        others = head.statistics
        if whole is not None:
            others = others.copy()
            others.add(features_NM, classes, times=-1)
        solved = head.solve_others(head.decided, others, mean_sums if head is whole else None)
        return int((solved.scores(features_NM).argmax(1) == classes).sum())

    # decisions of the head

    @property
    def decides(self) -> bool:
        """Whether held-out rows are to decide about the recent sums now."""
        return self.recent is not None and self.recent.count >= self.recent.decides_at

    def decide(self, whole: Head, strange_NM: Int8s) -> None:
        """Let held-out rows decide the temperature, strength and confidence of the recent sums, if that is due."""
        head = self.recent
        if head is None or not self.decides:
            return
        held = sorted(self.rows.after(self.since - 1), key=hash_offset)[: min(head.held_out_count, HELD_OUT)]
        features_NM, classes = self._read(held, whole)
        head.decide(features_NM, np.array(classes), strange_NM)

    # state

    def parts(self, whole: Head) -> dict[str, StatePart]:
        """Return the rows; and, after an alarm, the comparison and the recent sums."""
        if self.recent is None and self.contest is None:
            return self.rows.parts()
        memory: JSONObject = {"since": self.since, "all_since": self.all_since, "whole": asdict(whole.decided)}
        if self.translation is not None:
            memory["translation"] = self.translation
        memory["contest"] = asdict(self.contest) if self.contest is not None else None
        if self.recent is not None and self.recent.merged_count:
            memory["merged_count"] = self.recent.merged_count
        sums = self.recent.statistics.tensors() if self.recent is not None else {}
        return {**self.rows.parts(), PART: StatePart({**sums, "memory": pack_json(memory)}, serving=False)}

    def restore(self, state: State, whole: Head) -> None:
        """Load the state. The decisions of `whole` are those of the sums that are served, until they are restored here."""
        self.rows.restore(state)
        if PART not in state:
            return
        tensors = dict(state[PART].tensors)
        memory = unpack_json(tensors.pop("memory"))
        self.since, self.all_since = memory["since"], memory["all_since"]
        self.contest = MemoryComparison(**memory["contest"]) if memory["contest"] else None
        self.translation = memory.get("translation")
        if tensors:
            self.recent = self._create_head(whole)
            if self.translation is not None:
                self.recent = Head(whole.head, whole.projection, whole.shrinkage, whole.priors, whole.statistics.place)
            self.recent.decided, whole.decided = whole.decided, HeadDecision.from_json(memory["whole"])
            self.recent.merged_count = memory.get("merged_count", 0)
            self.recent.statistics = ExactStatistics.from_tensors(
                whole.statistics.classes, tensors, whole.statistics.place
            )


def find_translation(guesses_N: NDArray[np.intp], classes_N: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """[C] the class that most rows have which are taken for each class; a class without such rows, and a tie, stay.

    guesses_N: what rows are taken for. classes_N: what they are. count: of the classes.
    """
    rows_CC = np.zeros((count, count), np.int64)
    np.add.at(rows_CC, (guesses_N, classes_N), 2)
    place_C: NDArray[np.intp] = (rows_CC + np.eye(count, dtype=np.int64)).argmax(1)
    return place_C
