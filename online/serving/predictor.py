"""The act itself, behind every door: predict, choose, record; take feedback, take it back.

predict:   encode -> wait for min_offset -> batcher (one snapshot) -> rows committed -> answer
feedback:  items -> events -> one durable transaction (rows + events + new replies) -> bell -> receipts

Whatever writes features makes sure in its transaction that they are of the store's encoder; where that has changed, the
texts are encoded again and the transaction is tried again.
"""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection

from online import outside, quarantine, store
from online.conversations import Turn, add_turns, title_of
from online.errors import BadInput, Conflict, EncoderMoved, NotFound, NotLearnedYet, TooLarge
from online.guard import Guard
from online.models import Answer, Encoder, number_of
from online.models.encoder import Numbers, adapts
from online.models.policies import draw_key
from online.observability import Metrics
from online.schemas import Erased, Event, Fate, FeedbackFate, FeedbackItem, PredictRequest, Receipt
from online.serving.batcher import Batcher, Limits, Rows
from online.serving.live import LiveModel, Made, Served, Which
from online.serving.shadowing import Answered, Shadow
from online.serving.watching import Watch
from online.settings import ModelSettings, Settings
from online.shadow import ShadowRow, add_shadows
from online.stream import append_events, head_of, offsets_of, read_events

T = TypeVar("T")

TURN = "turn"
NUMBER_BYTES = 8  # of a float64
WHICHEVER = Which()
TAKEN_BACK_AT_ONCE = 200  # in one transaction: others write in between
FRESHNESS_KEPT = 10_000  # acknowledged offsets remembered until they are live


@dataclass(frozen=True, slots=True)
class Predicted:
    answers: list[Answer]
    ids: list[str]
    served: Served


class BatchMetrics:
    """What one model's batcher does, as metrics."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.size, self.waited = metrics.batch_instances.labels(model), metrics.wait_seconds.labels(model)
        self.waiting, self.compute = metrics.waiting_instances.labels(model), metrics.compute_seconds.labels(model)

    def gathered(self, size: int, waited_s: float, still_waiting: int) -> None:
        self.size.observe(size)
        self.waited.observe(waited_s)
        self.waiting.set(still_waiting)

    def computed(self, seconds: float) -> None:
        self.compute.observe(seconds)


class People:
    """Whose questions are being worked on. gone: set while nobody's are, for threads that would rather not disturb."""

    def __init__(self) -> None:
        self._count = 0
        self.gone = threading.Event()
        self.gone.set()

    def __enter__(self) -> None:
        self._count += 1
        self.gone.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self.gone.set()


class Predictor:
    """One model's door-independent face. Every method may raise an OnlineError, which names its HTTP status."""

    def __init__(
        self,
        spec: ModelSettings,
        settings: Settings,
        live: LiveModel,
        truth: store.Store,
        metrics: Metrics,
        ring: Callable[[], None],
        new_id: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self.spec, self.settings, self.live, self.store = spec, settings, live, truth
        self.metrics, self.ring, self.new_id, self.clock = metrics, ring, new_id, clock
        self.name, self.adapts = spec.name, adapts(spec.kind, spec.options)
        self.draws = spec.kind == "ranker"  # among what it could answer, by a policy
        self.people = People()
        self._answered = metrics.predictions.labels(spec.name)
        self.acknowledged: deque[tuple[int, str, float]] = deque(maxlen=FRESHNESS_KEPT)  # offset, id, when
        limits = Limits(settings.max_batch, settings.max_waiting, settings.request_timeout_ms / 1000)
        observer = BatchMetrics(metrics, self.name)
        self.batcher = Batcher(lambda: live.current, self._write_predictions, limits, observer, clock)
        self.shadow = Shadow(live, self._write_shadows, metrics.shadows_dropped.labels(self.name))
        self.watch = Watch(live, self._take_back) if spec.guard else None

    # predict

    async def predict(self, request: PredictRequest, prefix: str = "", which: Which = WHICHEVER) -> Predicted:
        """prefix: begins the ids of the predictions."""
        check_size(request.instances, self.settings)
        if request.conversation is not None and (request.user is None or not request.record):
            raise BadInput("a conversation needs its user, and predictions that are recorded")
        predicted = await self.as_made_now(lambda made: self._predict(request, made, prefix, which))
        self._answered.inc(len(predicted.answers))
        return predicted

    async def _predict(self, request: PredictRequest, made: Made, prefix: str, which: Which) -> Predicted:
        """Answered with the features that the version knows, recorded with those that the store has."""
        pinned = self.live.find(replace(which, route=which.route or request.user))
        encoder = (pinned or self.live.current).encoder
        with self.people:
            inputs = await encode(encoder, request.instances)
            twice = request.record and made.encoder is not encoder
            kept = await encode(made.encoder, request.instances) if twice else inputs
        if request.min_offset is not None:
            await self._wait_learned(request.min_offset, request.timeout_ms / 1000, pinned)
        ids = [prefix + self.new_id() for _ in inputs] if request.record else []
        keys: list[int | None] = [*map(draw_key, ids)] if self.draws and ids else [None] * len(inputs)
        recorder = self._recorder(request, kept, ids) if request.record else None
        with self.people:
            served, answers = await self.batcher.ask(inputs, encoder, keys, recorder, made.encoder_name, pinned)
        self.live.warm_up.append(inputs[0])
        if self.watch is not None:
            self.watch.saw(inputs, encoder)
        if ids:
            self.shadow.offer(Answered(ids, inputs, encoder, keys))
        return Predicted(wanted(answers, request), ids, served)

    async def _wait_learned(self, offset: int, timeout_s: float, pinned: Served | None) -> None:
        """Raises NotLearnedYet; at once for a version that is asked for and will never learn."""
        if pinned is None:
            await self.live.wait_until(offset, timeout_s)
        elif pinned.learned_until < offset:
            raise NotLearnedYet(f"version {pinned.version} knows {pinned.learned_until}, and will never know {offset}")

    async def shown_in(self, message_id: str, prediction_id: str) -> None:
        """Remember by which message another page shows a prediction; that page's feedback names the message."""
        work = self.store.submit(
            lambda connection: outside.add_message(connection, self.name, prediction_id, message_id), durable=False
        )
        await asyncio.wrap_future(work)

    async def as_made_now(self, attempt: Callable[[Made], Awaitable[T]]) -> T:
        """What the attempt gives; it is made again where versions are made by another encoder meanwhile."""
        while True:
            try:
                return await attempt(self.live.made)
            except EncoderMoved:
                await self.live.follow()

    def hold_encoder(self, connection: Connection) -> None:
        """What is read of features stays as it is until the transaction ends."""
        if self.adapts:
            store.hold_encoder(connection, self.name)

    def check_encoder(self, connection: Connection, encoders: Iterable[str]) -> None:
        """Raises EncoderMoved where any of these is not the store's."""
        for encoder in encoders if self.adapts else ():
            store.check_encoder(connection, self.name, encoder)

    def _recorder(
        self, request: PredictRequest, inputs: Sequence[bytes], ids: Sequence[str]
    ) -> Callable[[Served, Sequence[Answer]], Rows]:
        def rows(served: Served, answers: Sequence[Answer]) -> Rows:
            created_at = store.now()
            return [
                {
                    "id": id,
                    "model": self.name,
                    "version": served.version,
                    "learned_until": served.learned_until,
                    "user": request.user,
                    "input": as_kept(instance, features),
                    "features": features,
                    "choice": answer.choice,
                    "propensity": answer.propensity,
                    "candidates": orjson.dumps(
                        [[candidate.id, round(candidate.score, 6)] for candidate in answer.candidates]
                    ).decode(),
                    "created_at": created_at,
                    **turn_of(request, instance),
                }
                for id, instance, features, answer in zip(
                    ids, request.instances, inputs, wanted(answers, request), strict=True
                )
            ]

        return rows

    async def _write_predictions(self, rows: Rows, encoders: Set[str]) -> None:
        def write(connection: Connection) -> None:
            self.hold_encoder(connection)
            self.check_encoder(connection, encoders)
            turns = [row for row in rows if TURN in row]
            store.add_predictions(connection, without_turns(rows) if turns else rows)
            if turns:
                add_turns(connection, self.name, turns)

        await asyncio.wrap_future(self.store.submit(write, durable=False))

    def _take_back(self, offset: int, since: int, reason: str) -> None:
        Guard(self.live.snapshots, self.store, self.live.made.recipe).act(offset, since, reason)

    async def _write_shadows(self, rows: Sequence[ShadowRow]) -> None:
        await asyncio.wrap_future(self.store.submit(lambda connection: add_shadows(connection, rows), durable=False))

    # feedback

    async def feedback(self, items: Sequence[FeedbackItem]) -> list[Receipt]:
        """All or nothing: a refusal names the item, and nothing of the request is kept."""
        if len(items) > self.settings.max_instances:
            raise TooLarge(
                f"{len(items)} feedback items; at most {self.settings.max_instances} in one request (max_instances)"
            )
        check_size([item.input for item in items if item.input is not None], self.settings)
        for place, item in enumerate(items):
            self._check_item(place, item)
        named = [item if item.id else item.model_copy(update={"id": self.new_id()}) for item in items]
        receipts = await self.as_made_now(lambda made: self._feedback(named, made))
        acknowledged_at = self.clock()
        self.acknowledged.extend((receipt.offset, receipt.id, acknowledged_at) for receipt in receipts)
        for item in named:
            self.metrics.feedback.labels(self.name, signal_of(item)).inc()
        return receipts

    async def _feedback(self, items: Sequence[FeedbackItem], made: Made) -> list[Receipt]:
        encoded = [await self._own_features(item, made.encoder) for item in items]
        named = {made.encoder_name} if any(any(features) for features in encoded) else set[str]()
        receipts: list[Receipt] = await self.commit(
            lambda connection: self._record_feedback(connection, items, encoded, named)
        )
        return receipts

    async def commit(self, work: Callable[[Connection], Any]) -> Any:
        """Run in a durable transaction, then wake the learner."""
        result = await asyncio.wrap_future(self.store.submit(work))
        self.ring()
        return result

    async def _own_features(self, item: FeedbackItem, encoder: Encoder) -> tuple[bytes | None, bytes | None]:
        """(features of the item's own input, features of its correction), where it has them."""
        own = (await encode(encoder, [item.input]))[0] if item.input is not None else None
        correction = (await encode(encoder, [item.correction]))[0] if item.correction is not None else None
        return own, correction

    def _check_item(self, place: int, item: FeedbackItem) -> None:
        given = [name for name in ("reward", "label", "correction") if getattr(item, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise BadInput(f"feedback {place} must have exactly one of reward, label and correction; it has {found}")
        if (item.prediction_id is None) == (item.input is None):
            raise BadInput(f"feedback {place} must have either a prediction_id or an input of its own")
        if item.input is not None and item.reward is not None:
            raise BadInput(
                f"feedback {place} is a reward without a prediction_id: nobody was answered, so nothing can be rewarded"
            )
        if item.correction is not None and self.spec.kind != "ranker":
            raise BadInput(f"feedback {place} is a correction, but {self.name} is a {self.spec.kind}: send a label")
        if item.label is not None and not item.label.strip():
            raise BadInput(f"feedback {place} has a label without a character")
        if item.label is not None and len(item.label) > self.settings.max_label_chars:
            raise TooLarge(
                f"feedback {place} has a label of {len(item.label)} characters; it may have "
                f"{self.settings.max_label_chars} (max_label_chars)"
            )
        if self.spec.kind == "regressor":
            check_number(place, item)

    def _record_feedback(
        self,
        connection: Connection,
        items: Sequence[FeedbackItem],
        encoded: Sequence[tuple[bytes | None, bytes | None]],
        encoders: Set[str],
    ) -> list[Receipt]:
        """encoders: names of those that `encoded` is of."""
        self.hold_encoder(connection)
        self.check_encoder(connection, encoders)
        known = store.feedback_of(connection, self.name, [item.id or "" for item in items])
        predictions = store.predictions_of(
            connection, self.name, [item.prediction_id for item in items if item.prediction_id]
        )
        receipts = []
        for place, (item, features) in enumerate(zip(items, encoded, strict=True)):
            content = item.model_dump_json(exclude_none=True)
            row = known.get(item.id or "")
            if row is None:
                row = self._record_one(connection, place, item, features, predictions, content)
                known[row.id] = row
            elif row.content != content:
                raise Conflict(f"feedback {place}: the id {item.id!r} was used before for something else")
            status: Fate = "accepted" if row.retracted_offset is None else "retracted"
            receipts.append(Receipt(id=row.id, offset=row.retracted_offset or row.offset, status=status))
        return receipts

    def _record_one(
        self,
        connection: Connection,
        place: int,
        item: FeedbackItem,
        features: tuple[bytes | None, bytes | None],
        predictions: dict[str, store.PredictionRow],
        content: str,
    ) -> store.FeedbackRow:
        prediction = predictions.get(item.prediction_id or "")
        if item.prediction_id is not None and prediction is None:
            raise NotFound(f"feedback {place}: {self.name} has no prediction {item.prediction_id!r}")
        events = self._events(connection, place, item, features, prediction)
        offsets = append_events(connection, self.name, events, new=True)  # as new as their feedback
        for event, offset in zip(events, offsets, strict=True):
            if event.kind == "reply":
                store.add_reply(connection, self.name, event.label, event.text, offset)
        row = store.FeedbackRow(
            model=self.name,
            id=item.id or "",
            offset=offsets[-1],
            content=content,
            prediction_id=item.prediction_id,
            input=None if item.input is None else json.dumps(item.input),
            user=item.user,
            created_at=store.now(),
            retracted_offset=None,
        )
        store.add_feedback(connection, [row.model_dump()])
        return row

    def _events(
        self,
        connection: Connection,
        place: int,
        item: FeedbackItem,
        features: tuple[bytes | None, bytes | None],
        prediction: store.PredictionRow | None,
    ) -> list[Event]:
        """What the learner is told: the feedback itself, behind the reply it brings if that is new."""
        own, correction = features
        asked = prediction.features if prediction is not None else own or b""
        choice = prediction.choice if prediction is not None else None
        id = item.id or ""
        if item.reward is not None:
            if choice is None:
                raise BadInput(
                    f"feedback {place}: prediction {item.prediction_id!r} chose nothing that could be rewarded; "
                    "send what is right"
                )
            return [Event(id, "reward", asked, choice, reward=item.reward, choice=choice)]
        if item.label is not None:
            if self.spec.kind == "ranker" and store.reply_with_id(connection, self.name, item.label) is None:
                raise NotFound(f"feedback {place}: {self.name} has no reply {item.label!r}")
            return [Event(id, "label", asked, item.label, choice=choice)]
        text = store.laid_out(item.correction or "")
        return self._correction(connection, id, text, asked, correction or b"", choice)

    def _correction(
        self, connection: Connection, id: str, text: str, asked: bytes, features: bytes, choice: str | None
    ) -> list[Event]:
        reply = store.reply_with_text(connection, self.name, text)
        if reply is not None:
            again = [] if reply.active else [change_reply(connection, self.name, reply.id, True, f"{id}#restore")]
            return [*again, Event(id, "correction", asked, reply.id, choice=choice)]
        new = f"r{store.reply_count(connection, self.name) + 1}-{id[:40]}"
        return [Event(f"{id}#reply", "reply", features, new, text), Event(id, "correction", asked, new, choice=choice)]

    # what became of it

    async def fate(self, id: str) -> FeedbackFate:
        row, apart = await self.read(lambda connection: self._fate(connection, id))
        if row is None:
            raise NotFound(f"{self.name} has no feedback {id!r}")
        if apart is not None and row.retracted_offset is None and row.offset >= apart.since:
            return shown_fate(row).model_copy(update={"status": "quarantined", "reason": apart.reason})
        return shown_fate(row)

    def _fate(
        self, connection: Connection, id: str
    ) -> tuple[store.FeedbackRow | None, quarantine.QuarantineRow | None]:
        rows = store.feedback_of(connection, self.name, [id])
        return rows.get(id), quarantine.open_of(connection, self.name)

    async def read(self, question: Callable[[Connection], Any]) -> Any:
        """Off the event loop: a store that is slow to answer must not hold up those who do not ask it."""
        return await asyncio.to_thread(self.store.read, question)

    async def retract(self, id: str) -> Receipt:
        """Take one feedback back. Doing so again gives the same receipt."""
        receipt: Receipt = await self.commit(lambda connection: self._record_retraction(connection, id))
        self.acknowledged.append((receipt.offset, receipt.id, self.clock()))
        return receipt

    def _record_retraction(self, connection: Connection, id: str) -> Receipt:
        self.hold_encoder(connection)
        row = store.feedback_of(connection, self.name, [id]).get(id)
        if row is None:
            raise NotFound(f"{self.name} has no feedback {id!r}")
        if row.retracted_offset is None:
            targets = [row.offset, *self._brought_along(connection, row)]
            events = [self._retraction(connection, offset) for offset in targets]
            row.retracted_offset = append_events(connection, self.name, events)[-1]
            store.mark_retracted(connection, self.name, id, row.retracted_offset)
        return Receipt(id=id, offset=row.retracted_offset, status="retracted")

    def _retraction(self, connection: Connection, offset: int) -> Event:
        target = read_events(connection, self.name, offset - 1, 1)[0]
        return store.retraction(target.event, offset)

    async def erase(self, user: str) -> Erased:
        """Take back everything a user said, and blank their name and words. Doing so again finds nothing more."""
        erased: Erased = await self.commit(lambda connection: self._record_erasure(connection, user))
        return erased

    def _record_erasure(self, connection: Connection, user: str) -> Erased:
        ids = store.standing_of(connection, self.name, user)
        offset = max((self._record_retraction(connection, id).offset for id in ids), default=0)
        feedback, predictions = store.erase_user(connection, self.name, user)
        return Erased(feedback=feedback, predictions=predictions, offset=offset)

    async def end_quarantine(self, outcome: quarantine.Outcome) -> quarantine.QuarantineRow:
        """End the one that is open. What is dropped is taken back bit by bit: whatever cuts that short, it goes on from there.

        Raises NotFound.
        """
        ended: quarantine.QuarantineRow | None = None
        while ended is None:
            ended = await self.commit(lambda connection: self._end_quarantine(connection, outcome))
        return ended

    def _end_quarantine(self, connection: Connection, outcome: quarantine.Outcome) -> quarantine.QuarantineRow | None:
        """None while there is more to take back."""
        row = quarantine.open_of(connection, self.name)
        if row is None:
            raise NotFound(f"nothing of {self.name} is in quarantine")
        until = head_of(connection, self.name)
        standing = store.standing_between(connection, self.name, row.since, until) if outcome == "dropped" else []
        for id in standing[:TAKEN_BACK_AT_ONCE]:
            self._record_retraction(connection, id)
        if len(standing) > TAKEN_BACK_AT_ONCE:
            return None
        row.until, row.outcome, row.ended_at = until, outcome, store.now()
        quarantine.end(connection, row, until, outcome, row.ended_at)
        return row

    def _brought_along(self, connection: Connection, row: store.FeedbackRow) -> list[int]:
        """Offsets of what goes with a feedback: the restoring of its reply, and the reply once nobody stands by it."""
        reply = read_events(connection, self.name, row.offset - 1, 1)[0].event.label
        restored = offsets_of(connection, self.name, [f"{row.id}#restore"])
        if restored:
            store.set_reply_active(connection, self.name, reply, False)
        return [*restored.values(), *self._reply_nobody_stands_by(connection, row, reply)]

    def _reply_nobody_stands_by(self, connection: Connection, row: store.FeedbackRow, reply: str) -> list[int]:
        """The offset of the reply, if feedback brought it, that feedback is taken back, and nothing else is about it."""
        known = store.reply_with_id(connection, self.name, reply) if self.spec.kind == "ranker" else None
        if known is None:
            return []
        bringer = read_events(connection, self.name, known.offset - 1, 1)[0].event.id.removesuffix("#reply")
        brought = store.feedback_of(connection, self.name, [bringer]).get(bringer)
        gone = brought is not None and (brought.id == row.id or brought.retracted_offset is not None)
        if not gone or store.reply_is_used(connection, self.name, reply, besides=row.id):
            return []
        store.drop_reply(connection, self.name, reply)
        return [known.offset]


def wanted(answers: Sequence[Answer], request: PredictRequest) -> list[Answer]:
    return [answer.without(request.besides) for answer in answers] if request.besides else list(answers)


def turn_of(request: PredictRequest, instance: Any) -> dict[str, Any]:
    """What a row says beside the prediction itself, where there is anything to say."""
    if request.conversation is None and not request.besides:
        return {}
    return {TURN: Turn(request.conversation, title_of(instance), tuple(request.besides))}


def without_turns(rows: Rows) -> Rows:
    return [{name: value for name, value in row.items() if name != TURN} for row in rows]


async def encode(encoder: Encoder, instances: Sequence[Any]) -> list[bytes]:
    """Raises BadInput that names the instance."""
    try:
        if encoder.epoch.startswith("minilm"):  # milliseconds: off the event loop
            return await asyncio.to_thread(encoder.encode, instances)
        return encoder.encode(instances)
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(str(error)) from None


def as_kept(instance: Any, features: bytes) -> str:
    """An instance as JSON. Of numbers: as they came, or the fast way, for they were found finite when they were encoded; of
    anything else the letters beyond ASCII are escaped, as those are who search for it.
    """
    if type(instance) is Numbers:
        return instance.text
    numbers = type(instance) is list and len(features) == NUMBER_BYTES * len(instance)
    try:
        return orjson.dumps(instance).decode() if numbers else json.dumps(instance)
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(instance)


def check_size(instances: Sequence[Any], settings: Settings) -> None:
    """Raises TooLarge."""
    if len(instances) > settings.max_instances:
        raise TooLarge(f"{len(instances)} instances; one request takes {settings.max_instances} (max_instances)")
    elements = sum(len(each) for each in instances if isinstance(each, (list, dict)))
    if elements > settings.max_tensor_elements:
        most = settings.max_tensor_elements
        raise TooLarge(f"{elements} elements; one request takes {most} (max_tensor_elements)")


def change_reply(connection: Connection, model: str, reply: str, active: bool, id: str) -> Event:
    """The event that restores or retires a reply, which is so in the store already."""
    store.set_reply_active(connection, model, reply, active)
    return Event(id, "restore" if active else "retire", label=reply)


def check_number(place: int, item: FeedbackItem) -> None:
    """Raises BadInput for what no regressor can learn."""
    if item.reward is not None:
        raise BadInput(
            f"feedback {place} is a reward: that says how good a number was, not what was right; send a label"
        )
    try:
        number_of(item.label or "")
    except ValueError as error:
        raise BadInput(f"feedback {place}: {error}") from None


def shown(kind: str, each: Answer) -> dict[str, Any]:
    """A prediction as the kind of model shows it."""
    if kind == "regressor":
        low, high = each.interval or (None, None)
        return {"value": None if each.choice is None else float(each.choice), "low": low, "high": high}
    if kind != "ranker":
        return {"label": each.choice, "probabilities": {candidate.id: candidate.score for candidate in each.candidates}}
    candidates = [
        {"id": candidate.id, "text": candidate.text, "score": candidate.score} for candidate in each.candidates
    ]
    chosen = next(({"id": c.id, "text": c.text} for c in each.candidates if c.id == each.choice), None)
    return {
        "reply": chosen,
        "score": each.score,
        "propensity": each.propensity,
        "candidates": candidates,
        "abstained": each.abstained,
    }


def shown_fate(row: store.FeedbackRow) -> FeedbackFate:
    return FeedbackFate(
        id=row.id,
        status=row.status,
        offset=row.retracted_offset or row.offset,
        version=None if row.version is None else str(row.version),
        reason=row.refusal,
        freshness_ms=elapsed_ms(row.created_at, row.learned_at),
    )


def signal_of(item: FeedbackItem) -> str:
    return next(name for name in ("reward", "label", "correction") if getattr(item, name) is not None)


def elapsed_ms(start: str, end: str | None) -> float | None:
    if end is None:
        return None
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000, 1)
