"""Chooses a reply from a repertoire, and learns from thumbs, corrections and examples.

    examples --> ExactStatistics, Exemplars, replies --solved--> ReplyChooser (choice.py) --> answers

A thumb up and a correction are positive examples; a thumb down is negative evidence near that
question and forbids the reply for the very same question until later feedback contradicts it.

Shapes: R replies, D features.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import nlargest

import numpy as np
from numpy.typing import NDArray

from online.models.contract import (
    Answer,
    BadExample,
    Example,
    Options,
    State,
    StatePart,
    Tensors,
    pack_json,
    unpack_json,
)
from online.models.encoders.text import TEXT_WIDTH, text_epoch
from online.models.kinds import ANY_LANGUAGE, CHAT_LANGUAGE, encoder_options
from online.models.options import Option, resolve
from online.models.ranker.choice import ReplyChooser
from online.models.ranker.exemplars import (
    ChoiceExplanation,
    Exemplar,
    ExemplarIndex,
    Exemplars,
    GrowingIndex,
    make_exemplar,
    parse_chunk_number,
    read_exemplars,
    stack_features,
)
from online.models.ranker.exploration import Support, SupportCounter
from online.models.ranker.likeness import compute_centres
from online.models.ranker.policies import POLICY_OPTIONS, Policy
from online.models.ranker.replies import Reply
from online.models.statistics.exact import ExactStatistics, LinearWeights
from online.models.statistics.slda import SldaSolver, solve_slda

PROBES = 32


OPTIONS = (
    Option(
        "language",
        CHAT_LANGUAGE,
        "The language that people type in. en: misspelt words are corrected, a short follow-up is read with the question "
        "before it, and a question in another language gets no reply unless one was taught. any: texts are read as they come; "
        "set it for a repertoire in another language.",
        choices=(CHAT_LANGUAGE, ANY_LANGUAGE),
    ),
    Option("encoder", "", "sha256 of the tuned text encoder; empty: the one that is shipped. Set by `online adapt`."),
    Option(
        "shrinkage",
        2.5,
        "Strength of the covariance's shrinkage. Raise it when few questions per reply mislead the model.",
        unit="examples per feature",
        low=0.0,
        high=1e6,
    ),
    Option(
        "abstain_below",
        0.38,
        "Abstain if nothing known about the chosen reply is as similar to the question. Raise it to answer less.",
        unit="cosine",
        low=-1e6,
        high=1e6,
    ),
    Option(
        "abstain_margin",
        4.0,
        "Abstain if the best reply leads the next one by less. Raise it when guesses are worse than no reply.",
        unit="score units",
        low=-1e6,
        high=1e6,
    ),
    Option(
        "min_chance",
        0.6,
        "Abstain if the chance that the best reply is right is lower, also where it follows a rejected one. Raise it where a wrong reply costs more than none; "
        "lower it to learn faster from thumbs while little is known.",
        unit="probability",
        low=0.0,
        high=1.0,
    ),
    Option("candidates", 5, "Replies listed in a prediction.", unit="replies", low=1, high=1e6),
    Option("max_replies", 5_000, "Most replies; further ones are refused.", unit="replies", low=1, high=1e6),
    Option(
        "max_exemplars",
        20_000,
        "Rated questions that are kept one by one: the newest, and corrections longer than thumbs.",
        unit="questions",
        low=1,
        high=1e6,
    ),
    *POLICY_OPTIONS,
)


class Ranker:
    """A model that answers with replies from a repertoire. Implements `contract.Model`."""

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        self.policy = Policy.of(self.options)
        self.device = device
        self.replies: list[Reply] = []  # append-only: an index never changes its meaning
        self.statistics = ExactStatistics(TEXT_WIDTH, device)
        self.exemplars = Exemplars()
        self.exemplars_digest = 0  # multiset hash: sum of the exemplars' hashes modulo 2^256 (Clarke et al. 2003)
        self._support = SupportCounter()
        self.evicted = False
        self.answers_by_updates = False  # see `updates`
        self._solver = SldaSolver(self.options["shrinkage"], priors=False, rounded=True)
        self._index: GrowingIndex | None = None  # of the exemplars, while they are only appended
        self._known: tuple[NDArray[np.int8], NDArray[np.bool_]] | None = None  # of all replies: features, is active
        self._served: ReplyChooser | None = None
        self._is_published = False  # whether it was solved from the sums alone

    @property
    def subtracts(self) -> bool:
        """False once an exemplar was evicted: only a replay knows which ones would have been kept."""
        return not self.evicted

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return text_epoch(self.options["encoder"], encoder_options("ranker", self.options)["language"])

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        if not self.replies:
            return [Answer(None, (), abstained=True) for _ in inputs]
        return self._chooser().predict(inputs, keys)

    def explain(self, features: bytes, given: str | None, count: int) -> ChoiceExplanation:
        """Explain a choice by the scores of `count` replies, `given` first, and `count` rated neighbours."""
        return self._chooser().explain(features, given, count)

    def _chooser(self) -> ReplyChooser:
        """Return what the present sums and exemplars answer with, solved once after each change of them."""
        if not self.answers_by_updates:
            return self._served or self._published()
        if self._served is None:
            self._served = self._new_chooser(
                self._solver.solve(self.statistics, self._replies_now()[0]), self._present_index()
            )
        return self._served

    def _published(self) -> ReplyChooser:
        """Return the same, solved from the sums alone: what servers answer with, and this process from now on."""
        if self._served is None or not self._is_published:
            described_RD, shrinkage = self._replies_now()[0], self.options["shrinkage"]
            weights = solve_slda(self.statistics, shrinkage, False, described_RD, rounded=True)
            neighbours = ExemplarIndex.of(list(self.exemplars.parts().values()), len(self.replies))
            self._served = self._new_chooser(weights, neighbours)
            self._is_published = True
        return self._served

    def _present_index(self) -> ExemplarIndex:
        if self._index is None:
            self._index = GrowingIndex(self.exemplars.all())
        return self._index.view(len(self.replies))

    def _new_chooser(self, weights: LinearWeights, neighbours: ExemplarIndex) -> ReplyChooser:
        described_RD, active_R = self._replies_now()
        weights = replace(weights, active=active_R.copy())
        support = None if self.policy.is_greedy else self._support.count(len(self.replies))
        centres_RD = compute_centres(self.statistics.sums[0], described_RD)
        return ReplyChooser.of(
            self.options, self.policy, self.replies, weights, described_RD, centres_RD, neighbours, support
        )

    def _replies_now(self) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        if self._known is None:
            described_RD = stack_features([reply.features for reply in self.replies])
            self._known = described_RD, np.array([reply.is_active for reply in self.replies], np.bool_)
        return self._known

    def _note_reply(self, place: int) -> None:
        """Note that a reply was added or changed."""
        self._known = None
        self._solver.touch(place)

    def _forget_served(self) -> None:
        self._served, self._is_published = None, False

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn the examples in order, all or none of them. Raises BadExample."""
        self.check(examples)
        self._forget_served()
        positives = [example for example in examples if self._apply(example)]
        self._count(positives)

    def _apply(self, example: Example) -> bool:
        """Apply an example to everything but the sums; whether it must be added to those."""
        if example.kind == "reply":
            self._add_reply(example)
            return False
        place = self.statistics.add_class(example.label)
        if example.kind in ("retire", "restore"):
            self.replies[place].changes[example.offset] = example.kind == "restore"
            self._note_reply(place)
            return False
        exemplar = make_exemplar(example, place, self._find_superseded(example))
        self.exemplars.add(exemplar)
        self._support.add(exemplar)
        if self._index is not None and not self._index.append(exemplar):
            self._index = None
        self._sum_digest(exemplar, 1)
        if self.exemplars.count > self.options["max_exemplars"]:
            self._evict()
        return exemplar.is_summed

    def _find_superseded(self, example: Example) -> int:
        """Return the index of the reply that a correction supersedes; -1 for none."""
        return self._find_place(example.superseded) if example.superseded else -1

    def _find_place(self, id: str) -> int:
        """Return the index of a reply. One that does not exist, or no longer, gets one as a forgotten reply has."""
        place = self.statistics.add_class(id)
        if place == len(self.replies):
            self.replies.append(Reply(id, {}, {}))
            self._note_reply(place)
        return place

    def _add_reply(self, example: Example) -> None:
        place = self._find_place(example.label)
        self.replies[place].wordings[example.offset] = example.text, example.features
        if example.scope == "question":
            self.replies[place].local.add(example.offset)
        self._note_reply(place)

    def _evict(self) -> None:
        oldest = self.exemplars.oldest()
        self.exemplars.remove(oldest.offset)
        self._support.add(oldest, times=-1)
        if self._index is not None:
            self._index.remove(oldest.offset)
        self._sum_digest(oldest, -1)
        self.evicted = True

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove the examples from the state."""
        self._forget_served()
        self._index = None
        for example in examples:
            place = self.statistics.index(example.label)
            assert place is not None, "a retracted example was learned"
            self._note_reply(place)
            if example.kind == "reply":
                self.replies[place].wordings.pop(example.offset, None)
                self.replies[place].local.discard(example.offset)
                self._forget_before(place, min(self.replies[place].wordings, default=None))
            elif example.kind in ("retire", "restore"):
                self.replies[place].changes.pop(example.offset, None)
            else:
                self._forget(example.offset)

    def _forget_before(self, place: int, first: int | None) -> None:
        """Drop the events about a reply that precede its first wording: they would have been refused."""
        reply = self.replies[place]
        reply.changes = {at: restored for at, restored in reply.changes.items() if first is not None and at > first}
        for exemplar in self.exemplars.all():
            if exemplar.reply == place and (first is None or exemplar.offset < first):
                self._forget(exemplar.offset)

    def _forget(self, offset: int) -> None:
        """Remove an exemplar, unless it was removed together with its reply."""
        removed = self.exemplars.remove(offset)
        if removed is not None:
            self._support.add(removed, times=-1)
            self._sum_digest(removed, -1)
            if removed.is_summed:
                self._add(stack_features([removed.features]), [removed.reply], times=-1)

    def _count(self, examples: Sequence[Example]) -> None:
        if examples:
            classes = [self.statistics.add_class(example.label) for example in examples]
            self._add(stack_features([example.features for example in examples]), classes)

    def _add(self, features: NDArray[np.int8], classes: Sequence[int], times: int = 1) -> None:
        self.statistics.add(features, classes, times=times)
        self._solver.add(features, classes, negative=False, times=times)

    def _sum_digest(self, exemplar: Exemplar, times: int) -> None:
        superseded = "" if exemplar.superseded < 0 else self.replies[exemplar.superseded].id
        own = exemplar.digest(self.replies[exemplar.reply].id, superseded)
        self.exemplars_digest = (self.exemplars_digest + times * own) % 2**256

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        known = {reply.id for reply in self.replies if not reply.is_forgotten}
        for example in examples:
            if len(example.features) != TEXT_WIDTH and example.kind not in ("retire", "restore"):
                raise BadExample(f"features of {len(example.features)} bytes where {TEXT_WIDTH} are expected")
            if example.kind == "reply":
                known.add(example.label)
            elif example.label not in known:
                raise BadExample(f"there is no reply {example.label!r} to learn about")
        if len(known) > self.options["max_replies"]:
            raise BadExample(f"more than {self.options['max_replies']} replies (option max_replies)")

    # state

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        seen = hashlib.sha256(self.statistics.digest())
        seen.update(self.exemplars_digest.to_bytes(32, "little"))
        for reply in sorted((reply for reply in self.replies if not reply.is_forgotten), key=lambda reply: reply.id):
            own = reply.id, sorted(reply.wordings.items()), sorted(reply.changes.items())
            seen.update(repr((*own, sorted(reply.local)) if reply.local else own).encode())
        return seen.hexdigest()

    def drifted(self, label: str | None, since: int) -> None:
        """Do nothing: a ranker has no windows."""

    def facts(self) -> Mapping[str, float]:
        """Return the figures of the state that versions show."""
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return the newest taught questions, each with the reply that the latest verdicts settled on."""
        newest = nlargest(4 * PROBES, self.exemplars.taught)  # several may be about the same question
        questions = list(dict.fromkeys(self.exemplars.taught[offset].features for offset in newest))[:PROBES]
        settled = self._chooser().find_settled(questions)
        return [(question, reply) for question, reply in zip(questions, settled, strict=True) if reply is not None]

    def state(self, serving_only: bool = False) -> State:
        """Return the state in parts; with serving_only those that prediction needs."""
        weights = self._published().weights
        meta = pack_json([[reply.id, reply.text] for reply in self.replies])
        solved = {
            "matrix": np.ascontiguousarray(weights.matrix),
            "bias": weights.bias,
            "active": weights.active,
            "described": self._published().described_RD,
            "centres": self._published().centres_RD,
            "meta": meta,
        }
        if weights.doubt is not None:
            solved["doubt"] = weights.doubt
        if (support := self._published().support) is not None:
            solved |= {"confirmed": support.confirmed_R, "rejected_ratio": np.array([support.rejected_ratio])}
        if self._has_scopes():
            solved["first_offset"] = np.array([reply.first_offset for reply in self.replies], np.int64)
            solved["local"] = np.array([reply.is_local for reply in self.replies], np.bool_)
        parts = {"weights": StatePart(solved, serving=True), **self.exemplars.parts()}
        if not serving_only:
            memory = {"replies": [reply.to_json() for reply in self.replies], "evicted": self.evicted}
            parts["statistics"] = StatePart({**self.statistics.tensors(), "memory": pack_json(memory)}, serving=False)
        return parts

    def _has_scopes(self) -> bool:
        """Return whether a correction of any scope is known. The tensors about them are left out otherwise."""
        return any(reply.local for reply in self.replies) or any(each.scope for each in self.exemplars.taught.values())

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        solved = state["weights"].tensors
        described_RD = solved["described"]
        self.replies = read_served_replies(solved)
        chunks = [state[name] for name in sorted(state, key=parse_chunk_number) if name.startswith("exemplars-")]
        if "statistics" in state:
            self._resume(state["statistics"].tensors, chunks)
        weights = LinearWeights(solved["matrix"], solved["bias"], solved["active"], solved.get("doubt"))
        neighbours = ExemplarIndex.of(chunks, len(self.replies))
        centres_RD = solved["centres"]
        support = None
        if "confirmed" in solved:
            support = Support(solved["confirmed"], float(solved["rejected_ratio"][0]))
        self._served = ReplyChooser.of(
            self.options, self.policy, self.replies, weights, described_RD, centres_RD, neighbours, support
        )
        self._is_published, self._known, self._index = True, None, None
        self._solver.forget()

    def _resume(self, tensors: Tensors, chunks: Sequence[StatePart]) -> None:
        self.statistics = ExactStatistics.from_tensors([reply.id for reply in self.replies], tensors, self.device)
        memory = unpack_json(tensors["memory"])
        self.evicted = memory["evicted"]
        self.replies = [Reply.from_json(*reply) for reply in memory["replies"]]
        self.exemplars, self.exemplars_digest, self._support = Exemplars(), 0, SupportCounter()
        for part in chunks:
            for exemplar in read_exemplars(part):
                self.exemplars.add(exemplar)
                self._support.add(exemplar)
                self._sum_digest(exemplar, 1)


def read_served_replies(solved: Tensors) -> list[Reply]:
    """Return the replies of a serving state, each with its present text alone."""
    names = unpack_json(solved["meta"])
    first = solved.get("first_offset", np.zeros(len(names), np.int64)).tolist()
    local = solved.get("local", np.zeros(len(names), np.bool_)).tolist()
    return [
        Reply(id, {offset: (text, row.tobytes())}, {}, {offset} if is_local else set())
        for (id, text), row, offset, is_local in zip(names, solved["described"], first, local, strict=True)
    ]
