"""Pauses members of an ensemble that can neither be served nor change the vote.

    scored example -> for each member a bet that the served one errs less (`bets`)
    every PROBE    -> won, and its vote counts for less than REST_SHARE: the member rests
    resting        -> answers only PROBE of every PROBE * PERIOD scored examples, and only those are learned
                   -> its vote would count again: it is woken; drift wakes all

An exact member learns everything while it rests, because it could not make up for what it missed. The
schedule counts scored examples, so it is a function of the log. While a member is no worse than the
served one, it is put to rest at most once in `patience` scored examples on average.
"""

from collections.abc import Iterable, Mapping, Sequence

from online.plugins.ensembles.bets import Bets
from online.schemas.json_values import JSON, JSONObject

REST_SHARE = 0.1  # of the vote's weights
GRACE = 1_000  # scored examples that a member answers before it may rest: slow learners become good late
PROBE = 64  # scored examples in a row that a resting member answers and learns
PERIOD = 16  # of which one probe is for resting members
MOST = 16.0  # times what wins a bet: a member that was bad for long is not put to rest for that when it is good


class MemberSchedule:
    """The members, in a fixed order, and which of them rest. patience: see `bets`."""

    def __init__(self, names: Iterable[str], patience: float) -> None:
        self.names, self.patience = tuple(names), patience
        self.scored = 0
        self.resting = frozenset[str]()
        self.doubts = {name: Bets() for name in self.names}  # bets that the served one errs less

    @property
    def active(self) -> list[str]:
        """The members that vote and can be served."""
        return [name for name in self.names if name not in self.resting]

    @property
    def awake(self) -> list[str]:
        """The members that answer and learn the present scored example, and what follows until the next one."""
        return self.list_awake(self.scored)

    def list_awake(self, scored: int) -> list[str]:
        """Return the same for a scored example of the present stretch. scored: its number."""
        return list(self.names) if scored // PROBE % PERIOD == 0 else self.active

    def note(self, right: Mapping[str, bool], served_right: bool) -> None:
        """Update the bets by a scored example. right: whether each member that is awake was right."""
        needed = self.patience * len(self.names)
        for name in self.active:
            doubt = self.doubts[name]
            if doubt.bet(served_right - right[name]) >= needed:
                doubt.wealth = [min(wealth, MOST * needed) for wealth in doubt.wealth]

    def find_hopeless(self) -> list[str]:
        """Return the active members against which the bet is won."""
        needed = self.patience * len(self.names)
        return [name for name in self.active if self.doubts[name].mean >= needed]

    def rest(self, names: Sequence[str]) -> Sequence[str]:
        """Put members to rest. Returns them."""
        self._change(self.resting.union(names), names)
        return names

    def wake(self, shares: Mapping[str, float]) -> None:
        """Wake the members whose vote would count again. shares: what the vote of each that is awake would count for."""
        woken = {name for name in self.resting & shares.keys() if shares[name] >= REST_SHARE}
        self._change(self.resting - woken, woken)

    def _change(self, resting: frozenset[str], changed: Iterable[str]) -> None:
        self.resting = resting
        for name in changed:
            self.doubts[name].begin_again()

    def wake_all(self) -> None:
        """Wake every member, and begin the evidence again."""
        self.resting = frozenset()
        for doubt in self.doubts.values():
            doubt.begin_again()

    def table(self) -> JSONObject:
        """Return its state as JSON."""
        doubts = {name: doubt.wealth for name, doubt in self.doubts.items()}
        return {"scored": self.scored, "resting": sorted(self.resting), "doubts": doubts}

    def restore(self, table: Mapping[str, JSON]) -> None:
        """Adopt what `table` returned."""
        self.scored, self.resting = table["scored"], frozenset(table["resting"])
        self.doubts = {name: Bets(table["doubts"][name]) for name in self.names}


def begins_stretch(scored: int) -> bool:
    """Return whether a stretch of scored examples, in which the same members are awake, begins with this one."""
    return scored % PROBE == 0
