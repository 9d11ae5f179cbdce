"""Several models that answer together, each on a device of its own: their average, or their vote.

    example -> every member learns it            devices cuda:0, cuda:1  -> members 0, 2, ... and 1, 3, ...
    input   -> every member's chances -> combine -> one answer

average: the mean of the members' chances (Breiman 1996 calls it a committee; Lakshminarayanan et al. 2017 a deep ensemble).
vote: the share of members that choose a class; among equal shares the mean chance decides. A member without an answer takes
no part. The members do not influence each other, so that members on several devices compute at the same time.

Devices decide where members compute, never what they learn. An ensemble that lies on the CPU alone has every member there.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from online.models.contract import (
    Answer,
    Example,
    Model,
    Options,
    State,
    StatePart,
    build_candidates,
    pack_json,
    unpack_json,
)
from online.models.devices.placement import AUTO, split_devices
from online.models.devices.probe import CPU
from online.models.encoders.text import TextEncoder
from online.models.example_checks import check
from online.models.options import INPUT, KEY, SIZE, Option, require_size, resolve
from online.plugins.ensembles.members import extract_parts, prefix_parts, teach_all
from online.plugins.ensembles.membership import check_untrusted_member, create_member
from online.schemas.json_values import JSONObject

OPTIONS = (
    INPUT,
    SIZE,
    Option(
        "members",
        [],
        "Tables of a kind, its options and, if it must lie on a certain one, a device; empty: a set that suits the input. "
        "Members without a device are spread over those of the model's placement, in turns.",
    ),
    Option(
        "combine",
        "average",
        "average: of the members' chances; vote: each member counts once, for what it chooses. Vote where the chances of "
        "the members are not comparable.",
        choices=("average", "vote"),
    ),
    KEY,
)
Tables = list[JSONObject]
MEMBERS: dict[str, Tables] = {
    "text": [{"kind": "classifier"}, {"kind": "knn"}],
    "vector": [{"kind": "classifier"}, {"kind": "knn"}, {"kind": "logistic"}],
    "table": [{"kind": "classifier"}, {"kind": "knn"}, {"kind": "logistic"}],
}
TABLE = "ensemble"  # name of the part in snapshots
Result = TypeVar("Result")


def check_untrusted(options: Options) -> None:
    """Raise ValueError for a member with which its sender could choose code to run."""
    members = options.get("members", [])
    if not isinstance(members, list):
        raise ValueError("option 'members' must be a list of tables")
    for each in members:
        check_untrusted_member(each)


class Ensemble:
    """Members that all learn and answer. Implements `contract.Model`."""

    def __init__(self, options: Options, device: str = CPU) -> None:
        """device: over which the members are spread, joined by commas."""
        self.options = resolve(options, OPTIONS)
        require_size(self.options)
        self.input: str = self.options["input"]
        self.tables: Tables = self.options["members"] or MEMBERS[self.input]
        self.places = place_members(self.tables, split_devices(device))
        self._create_members()

    def _create_members(self) -> None:
        made = zip(self.tables, self.places, strict=True)
        self.members = [
            create_member(f"member {number}", own, self.options, place) for number, (own, place) in enumerate(made)
        ]
        self.missed = [0] * len(self.members)  # examples that a member could not learn

    @property
    def subtracts(self) -> bool:
        """Whether all members subtract. False once one missed an example that another one learned."""
        return not any(self.missed) and all(member.subtracts for member in self.members)

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return TextEncoder.epoch if self.input == "text" else self.input

    def _on_devices(self, work: Callable[[Model], Result]) -> list[Result]:
        """Return what `work` returns for each member: one after the other on a device, at the same time on several."""
        devices = [*dict.fromkeys(self.places)]
        if len(devices) == 1:
            return [work(member) for member in self.members]
        with ThreadPoolExecutor(len(devices), "ensemble") as pool:
            shares = [[n for n, place in enumerate(self.places) if place == device] for device in devices]
            runs = [
                pool.submit(copy_context().run, lambda share=share: [(n, work(self.members[n])) for n in share])
                for share in shares
            ]
            found = dict(pair for run in runs for pair in run.result())
        return [found[number] for number in range(len(self.members))]

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer by the average of the members, or by their vote."""
        if not inputs:
            return []
        combine = vote if self.options["combine"] == "vote" else average
        given = self._on_devices(lambda member: member.predict(inputs))
        return [combine(answers) for answers in zip(*given, strict=True)]

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Teach all members. One that cannot learn an example skips it."""
        self.check(examples)
        missed = self._on_devices(lambda member: teach_all(member, examples))
        self.missed = [before + more for before, more in zip(self.missed, missed, strict=True)]

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        for example in examples:
            check(example, "ensemble", self.input, self.options["size"])

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove the examples from every member."""
        if not self.subtracts:
            raise NotImplementedError("a member cannot subtract; replay the log instead (subtracts is False)")
        self._on_devices(lambda member: member.unlearn(examples))

    def drifted(self, label: str | None, since: int) -> None:
        """Pass an alarm of drift to every member."""
        self._on_devices(lambda member: member.drifted(label, since))

    # state

    def facts(self) -> Mapping[str, float]:
        """Return how many members there are, on how many devices, and how many examples they missed in all."""
        return {"members": len(self.members), "devices": len({*self.places}), "missed": sum(self.missed)}

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        return hashlib.sha256(" ".join(member.fingerprint() for member in self.members).encode()).hexdigest()

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return the inputs of the first member that has any; the ensemble may answer them otherwise than the member."""
        found = next(filter(None, (member.probes() for member in self.members)), [])
        return [(features, None) for features, _ in found]

    def state(self, serving_only: bool = False) -> State:
        """Return each member's parts under its number."""
        parts = {TABLE: StatePart({"table": pack_json({"missed": self.missed})}, serving=True)}
        for number, member in enumerate(self.members):
            for name, part in prefix_parts(str(number), member.state(serving_only), serves=True).items():
                parts[name] = part
        return parts

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        self._create_members()
        self.missed = unpack_json(state[TABLE].tensors["table"])["missed"]
        for number, member in enumerate(self.members):
            if parts := extract_parts(str(number), state):
                member.restore(parts)


def place_members(tables: Tables, devices: Sequence[str]) -> list[str]:
    """Return the device of each member: its own, or one of these in turns. On the CPU alone, all are there."""
    if tuple(devices) == (CPU,):
        return [CPU] * len(tables)
    places, turns = list[str](), 0
    for table in tables:
        own = table.get("device", AUTO) if isinstance(table, Mapping) else AUTO
        places.append(devices[turns % len(devices)] if own == AUTO else own)
        turns += own == AUTO
    return places


def average(answers: Sequence[Answer]) -> Answer:
    """Return the mean of the members' chances; a class that a member does not know has none there."""
    return rank({label: (chance, 0.0) for label, chance in mean_chances(answers).items()})


def vote(answers: Sequence[Answer]) -> Answer:
    """Return the share of the votes for each class; among equal shares the larger mean chance is first."""
    votes = [answer.choice for answer in answers if answer.choice is not None]
    if not votes:
        return Answer(None, ())
    chances = mean_chances(answers)
    return rank({label: (votes.count(label) / len(votes), chances.get(label, 0.0)) for label in {*chances, *votes}})


def mean_chances(answers: Sequence[Answer]) -> dict[str, float]:
    """Return the mean probability of each class over the members that answer."""
    voters = [answer for answer in answers if answer.candidates]
    sums = dict[str, float]()
    for answer in voters:
        for label, chance, _ in answer.candidates:
            sums[label] = sums.get(label, 0.0) + chance
    return {label: total / len(voters) for label, total in sums.items()}


def rank(scores: Mapping[str, tuple[float, float]]) -> Answer:
    """Return an answer from a score and a second one for each class; the name decides between equals."""
    if not scores:
        return Answer(None, ())
    labels = sorted(scores, key=lambda label: (-scores[label][0], -scores[label][1], label))
    candidates = build_candidates(labels, [scores[label][0] for label in labels])
    return Answer(candidates[0].id, candidates, candidates[0].score)
