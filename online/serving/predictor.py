"""Prediction, the same for every protocol: encode, wait, batch, answer.

request -> encode -> wait for min_offset -> batcher (one snapshot) -> journal -> answer
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from online.errors import BadInput, NotLearnedYet, TooLarge
from online.journal import JournalRow, JournalWriter
from online.models import Answer, Encoder, encoder_options, explore_user_share, spec_of
from online.models.encoders.follow_ups import LATEST, add_previous, needs_previous
from online.models.encoders.rows import VectorEncoder
from online.models.ranker.other_languages import find_other_languages
from online.models.ranker.policies import draw_key
from online.schemas.access.callers import Caller
from online.schemas.predict import PredictRequest
from online.serving.batcher import (
    AwaitedRequest,
    Batcher,
    BatchMetrics,
    InteractiveLoad,
    Limits,
    PendingRequest,
)
from online.serving.parts import AnsweredRequest
from online.serving.prediction_rows import PredictionRecorder, apply_rules, prepare_rows
from online.serving.rates import RateLimits
from online.serving.transactions import Transactions
from online.serving.versions import EncoderConfig, ServedVersion, VersionSelector
from online.settings import Settings
from online.snapshots.labels import CANARY
from online.store.conversations.turns import load_questions
from online.telemetry import Metrics

ANY_VERSION = VersionSelector()
NO_KEY = (None,)


@dataclass(frozen=True, slots=True)
class PredictionResult:
    """The answers to one request, the ids they are recorded under, and the version that gave them.

    lacks_room: they were to be recorded, and the disk has too little free space for it. awaits_store: they are recorded
    in the journal only, because the store does not answer.
    """

    answers: list[Answer]
    ids: list[str]
    served: ServedVersion
    lacks_room: bool = False
    awaits_store: bool = False


class Predictor:
    """Predicts with one model. Every method may raise an OnlineError, which names its HTTP status."""

    def __init__(
        self,
        settings: Settings,
        transactions: Transactions,
        journal: JournalWriter,
        metrics: Metrics,
        clock: Callable[[], float],
        rates: RateLimits,
    ) -> None:
        """clock: monotonic seconds.

        `observers` are called with each request after its answer. `seconds` is where each protocol records how long a request took.
        """
        self.settings, self.transactions = settings, transactions
        self.spec, self.name, self.live = transactions.spec, transactions.name, transactions.live
        self.rates, self.observers = rates, list[Callable[[AnsweredRequest], None]]()
        self.explores = spec_of(self.spec.kind).explores
        self.exploration = ExplorationShares(explore_user_share(self.spec.kind, self.spec.options), clock)
        self.reads_follow_ups = bool(encoder_options(self.spec.kind, self.spec.options)["language"])
        self.load = InteractiveLoad()
        self.recorder = PredictionRecorder(transactions, journal, settings.max_candidates)
        self._answered, self.seconds = (
            metrics.predictions.labels(self.name),
            metrics.prediction_seconds.labels(self.name),
        )
        limits = Limits(settings.max_batch, settings.max_waiting, settings.request_timeout_ms / 1000)
        observer, live = BatchMetrics(metrics, self.name), self.live
        self.batcher = Batcher(lambda: live.current, self.recorder.record, limits, observer, clock, self.load)

    async def predict(
        self, request: PredictRequest, caller: Caller, prefix: str = "", selector: VersionSelector = ANY_VERSION
    ) -> PredictionResult:
        """Answer a request, and record the answers unless it asks not to, or the disk is too full.

        prefix: the ids of the predictions begin with it. Raises what encoding and the batcher
        raise, NotLearnedYet if min_offset is not learned in time, and QuotaExceeded.
        """
        check_size(request.instances, self.settings)
        self.rates.check(caller, instances=len(request.instances))
        if request.conversation is not None and (request.user is None or not request.record):
            raise BadInput("a conversation needs a user and recorded predictions")
        if request.after is not None and request.conversation is None:
            raise BadInput(
                "after: only a question of a conversation follows another one; name the conversation as well"
            )
        if self.reads_follow_ups:
            request = await self._add_previous(request)
        lacks_room = request.record and self.lacks_room
        if lacks_room:
            request = request.model_copy(update={"record": False})
        result = await self.transactions.retry_on_encoder_change(
            lambda config: self._predict(request, config, prefix, selector)
        )
        self._answered.inc(len(result.answers))
        return replace(result, lacks_room=True) if lacks_room else result

    async def _add_previous(self, request: PredictRequest) -> PredictRequest:
        """Return the request with each follow-up beside the question before it, which is stored with it and read with it."""
        earlier = list[str]()
        if request.conversation is not None and any(map(needs_previous, request.instances)):
            model, user, conversation = self.name, request.user, request.conversation
            earlier = await self.transactions.read(
                lambda connection: load_questions(
                    connection, model, str(user), str(conversation), LATEST, request.after
                )
            )
        instances = [add_previous(each, earlier) for each in request.instances]
        return request.model_copy(update={"instances": instances})

    async def _predict(
        self, request: PredictRequest, config: EncoderConfig, prefix: str, selector: VersionSelector
    ) -> PredictionResult:
        """Predict with features of the version's encoder; record features of the store's encoder."""
        pinned = self.live.find(selector, request.user)
        encoder = (pinned or self.live.current).encoder
        with self.load:
            inputs = await encode(encoder, request.instances)
            encode_twice = request.record and config.encoder is not encoder
            features = await encode(config.encoder, request.instances) if encode_twice else inputs
        if request.min_offset is not None:
            await self._wait_until_learned(request.min_offset, request.timeout_ms / 1000, pinned)
        ids = [prefix + self.transactions.new_id() for _ in inputs] if request.record else []
        # where replies are ruled out, the next best one is certain: nothing is drawn
        is_drawn = self.explores and bool(ids) and not request.exclude
        are_other = await self._find_other_languages(request.instances)
        rows = prepare_rows(request, features, ids) if request.record else []
        in_conversation = request.conversation is not None
        with self.exploration.admit(request.user, len(ids) if is_drawn else 0) as admission:
            drawn = ids[: admission.allowed]
            keys = [*map(draw_key, drawn), *[None] * (len(inputs) - len(drawn))]
            pending = AwaitedRequest(inputs, encoder, keys, pinned)
            if not in_conversation:
                pending.record(rows, config.encoder_name, are_other)
            self.batcher.submit(pending)
            served, answers = await pending.result
            admission.count(answers)
        if in_conversation and rows:
            self.recorder.fill_rows(rows, answers, are_other)
            await self.recorder.record_turns(request, rows, config.encoder_name, features, served)
        self.observe(inputs, encoder, keys, ids)
        awaits_store = bool(rows) and not in_conversation and self.is_store_away
        answers = list(apply_rules(answers, request.exclude, are_other))
        return PredictionResult(answers, ids, served, awaits_store=awaits_store)

    async def _find_other_languages(self, instances: Sequence[object]) -> list[bool]:
        """Return whether each instance is in another language than the model's; off the event loop, as it looks words up."""
        if not self.reads_follow_ups:
            return []
        return await asyncio.to_thread(find_other_languages, self.spec.kind, self.spec.options, instances)

    def observe(
        self, inputs: Sequence[bytes], encoder: Encoder, keys: Sequence[int | None], ids: Sequence[str]
    ) -> None:
        """Pass what was answered on to the warm-up of the next version and to the observers."""
        self.live.warm_up.append(inputs[0])
        if self.observers:
            request = AnsweredRequest(ids, inputs, encoder, keys)
            for observe in self.observers:
                observe(request)

    async def _wait_until_learned(self, offset: int, timeout_s: float, pinned: ServedVersion | None) -> None:
        """Wait until an offset is learned. Raises NotLearnedYet; at once for a pinned version, which never learns more."""
        if pinned is None:
            await self.live.wait_until(offset, timeout_s)
        elif pinned.learned_until < offset:
            raise NotLearnedYet(
                f"version {pinned.version} has learned until offset {pinned.learned_until} and is fixed: "
                f"it will never learn offset {offset}; leave out the version"
            )

    @property
    def lacks_room(self) -> bool:
        """Whether the disk has too little free space to record anything."""
        return self.transactions.disk.is_short

    @property
    def is_store_away(self) -> bool:
        """Whether the store does not answer: what is recorded stays in the journal until it does."""
        return self.transactions.store.is_away

    # rows of numbers, without a coroutine

    @property
    def is_plain(self) -> bool:
        """Whether requests that ask for nothing particular need nothing particular: `submit` can answer them."""
        current, labels = self.live.current, self.live.labels
        is_same = current.encoder is self.live.encoder_config.encoder
        is_ordinary = CANARY not in labels and not self.explores and not self.lacks_room
        return is_same and isinstance(current.encoder, VectorEncoder) and is_ordinary

    def pack(self, rows: Sequence[list[float]]) -> list[bytes] | None:
        """Encode rows of finite numbers; None for rows that are not as the settings and the model have them."""
        settings, encoder = self.settings, self.live.current.encoder
        assert isinstance(encoder, VectorEncoder), "is_plain says so"
        if len(rows) > settings.max_instances or sum(map(len, rows)) > settings.max_tensor_elements:
            return None
        return encoder.pack(rows)

    def submit(
        self, pending: PendingRequest, inputs: Sequence[bytes], texts: Sequence[bytes], user: str | None
    ) -> None:
        """Queue packed rows of a user. texts: the JSON of each row; none if they are not recorded. Raises Overloaded."""
        pending.inputs, pending.encoder, pending.pinned = inputs, self.live.current.encoder, None
        pending.keys = NO_KEY if len(inputs) == 1 else [None] * len(inputs)
        rows = [JournalRow(self.transactions.new_id(), user, text, None) for text in texts]
        pending.record(rows, self.live.encoder_config.encoder_name)
        self.batcher.submit(pending)

    def count_answered(self, instances: int, seconds: Sequence[float]) -> None:
        """Count answered instances, and their requests by how long they took."""
        self._answered.inc(instances)
        for each in seconds:
            self.seconds.observe(each)


async def encode(encoder: Encoder, instances: Sequence[object]) -> list[bytes]:
    """Encode instances. Raises BadInput that names the instance."""
    try:
        if encoder.is_slow and not is_quick(encoder, instances):
            return await asyncio.to_thread(encoder.encode, instances)
        return encoder.encode(instances)
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(str(error)) from None


def is_quick(encoder: Encoder, instances: Sequence[object]) -> bool:
    """Return whether a slow encoder takes so little for one short text that a thread would take longer."""
    if len(instances) != 1 or not encoder.quick_chars:
        return False
    text = instances[0].get("text") if isinstance(instances[0], dict) else instances[0]
    return isinstance(text, str) and len(text) <= encoder.quick_chars


def check_size(instances: Sequence[object], settings: Settings) -> None:
    """Raise TooLarge."""
    if len(instances) > settings.max_instances:
        raise TooLarge(f"{len(instances)} instances; one request takes {settings.max_instances} (max_instances)")
    elements = sum(len(each) for each in instances if isinstance(each, (list, dict)))
    if elements > settings.max_tensor_elements:
        most = settings.max_tensor_elements
        raise TooLarge(f"{elements} elements; one request takes {most} (max_tensor_elements)")


# How many of a user's answers may try another reply than the best one: a share of those of the present hour.
#
#     request --admit--> the first n instances may be drawn, the others get the best reply --count--> what was really tried
#
# The bound is kept before the model is called, and what is decided is in the recorded prediction: an answer that could not be drawn has
# the propensity 1. So neither what is learned nor a replay depends on these counts. They are kept in the memory of each process, for the
# present hour only; several workers keep the share each, so together they exceed it by one answer for each worker at most.

WINDOW_S = 3_600
MAX_USERS = 100_000  # in one hour; further ones share one count
ROUNDING = 1e-9  # so that .1 of 30 answers is 3, not 4


@dataclass(slots=True)
class UserCounts:
    """answers: that could be drawn, with those that are being computed. tried: with those that may be."""

    answers: int = 0
    tried: int = 0


class DrawAllowance:
    """A request while it is being answered. allowed: how many of its instances may be drawn, the first ones."""

    def __init__(self, counts: UserCounts, instances: int, share: float) -> None:
        self._counts, self._instances, self._tried = counts, instances, 0
        counts.answers += instances
        left = math.ceil(share * counts.answers - ROUNDING) - counts.tried
        self.allowed = min(max(left, 0), instances)
        counts.tried += self.allowed

    def count(self, answers: Sequence[Answer]) -> None:
        """Count what was tried, once there are answers."""
        self._tried = sum(answer.is_tried for answer in answers)
        self._instances = 0

    def __enter__(self) -> "DrawAllowance":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give back what was not tried, and after an error the answers that were not given."""
        self._counts.tried -= self.allowed - self._tried
        self._counts.answers -= self._instances


class ExplorationShares:
    """The counts of all users of one model. For one event loop."""

    def __init__(self, share: float, clock: Callable[[], float]) -> None:
        """share: in [0, 1]. clock: seconds."""
        self.share, self.clock = share, clock
        self._window = 0
        self._users = dict[str, UserCounts]()

    def admit(self, user: str | None, instances: int) -> DrawAllowance:
        """Begin to answer this many instances. Requests without a user share one count."""
        return DrawAllowance(self._find(user or ""), instances, self.share)

    def _find(self, user: str) -> UserCounts:
        window = int(self.clock() // WINDOW_S)
        if window != self._window:
            self._window, self._users = window, {}
        if user not in self._users and len(self._users) >= MAX_USERS:
            user = ""
        return self._users.setdefault(user, UserCounts())
