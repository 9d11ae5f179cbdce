"""Reads the lines of our own log: what each of them says, and whether it stands where it should.

    line --parse_object--> object --LineParser--> LoggedPrediction, LoggedEvent --LogOrder--> the lines that count

A line that cannot be used goes to `BadLines`, which names and counts it. A line that repeats an earlier one counts once.
What the offsets and the header show to be missing is counted there, too. No other module reads a log.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

import orjson

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines, LogGaps
from online.evaluation.sources.log_fields import LineFields
from online.evaluation.sources.log_format import (
    FORMER_NAMES,
    LOG_FORMAT,
    FormerNames,
    Line,
    LoggedEvent,
    LoggedPrediction,
    Names,
    parse_json,
    rename,
)
from online.io.instants import InstantColumn
from online.io.json_names import are_names_single, parse_for_names
from online.models import BadExample, encoder_options, find_kind
from online.models.encoders.text import TEXT_WIDTH
from online.models.example_checks import check_features
from online.schemas.events import Event, EventKind, Scope
from online.schemas.json_values import JSON
from online.settings import Drift

KINDS_OF_EVENTS, SCOPES = get_args(EventKind), get_args(Scope)
FORMAT_PREFIX = "online-log/"
DIGEST_BYTES = 8  # of the contents of a line
# the keys in which two exports may differ about the same prediction or event
CHANGING = ("feedback_count", "offset", "learned_at", "refusal")
BYTE_ORDER_MARK = "\ufeff"

CheckFeatures = Callable[[bytes], None]


# the header


def is_header(value: Mapping[str, object]) -> bool:
    """Return whether a line is the header of our own format."""
    return str(value.get("format", "")).startswith(FORMAT_PREFIX)


def is_log_line(value: Mapping[str, object]) -> bool:
    """Return whether an object is a prediction or an event of a log."""
    return any(
        isinstance(line := rename(value, names.line).get(name), dict) and key in line
        for names in FORMER_NAMES.values()
        for name, key in (("prediction", "learned_until"), ("event", "offset"))
    )


def parse_header(first: str, name: str) -> dict[str, object]:
    """Parse the first line of a log; `format` stays as the file says it, and the other keys have their names of today.

    Raises BadInput for a log of another release, or that names no model.
    """
    head = parse_json(first, name, 1)
    if not is_header(head):
        refused = BadInput(f"{name} has no header of {LOG_FORMAT} in its first line: export the log again")
        raise refused.because("log_lines_invalid", line=1, problem="no_header", count=1)
    format = head["format"]
    if format not in FORMER_NAMES:
        known = " and ".join(FORMER_NAMES)
        raise BadInput(f"{name} is an {format}; this release reads {known}: export it again").because(
            "log_of_other_release"
        )
    names = FORMER_NAMES[format].header
    head = rename(head, names)
    try:
        check_header_fields(LineFields(head, written=names))
    except ValueError as error:
        refused = BadInput(f"{name}, line 1 is no header of {format}: {error}; export the log again")
        raise refused.because("log_lines_invalid", line=1, problem="bad_header", count=1) from None
    return head


def check_header_fields(head: LineFields) -> None:
    """Raise ValueError that says what is wrong."""
    kind = head.text("kind")
    if not isinstance(head.value("options"), dict):
        raise head.refuse("options", "an object")
    try:
        encoder_options(kind, head.fields["options"])
    except (ValueError, TypeError) as error:
        raise ValueError(f"its 'options' cannot be used: {error}") from None
    if head.fields.get("drift", "watch") not in get_args(Drift):
        raise head.refuse("drift", f"one of {', '.join(get_args(Drift))}")
    for name in ("prediction_count", "event_count", "contents_from"):
        head.whole(name) if name in head.fields else None


def find_features_check(header: Mapping[str, JSON]) -> CheckFeatures:
    """Return what raises BadExample for features that the log's own model cannot read; nothing for a kind unknown here."""
    if not header or (kind := find_kind(header["kind"])) is None:
        return lambda features: None
    reads = encoder_options(header["kind"], header["options"])
    input, size = reads["input"], reads["size"]
    if kind.encoder:  # it adds to the features of the text; its learner checks what
        return lambda features: check_features(features[:TEXT_WIDTH], input, size)
    if input == "vector" and not size:
        return lambda features: check_features(features, input, len(features) // 8)
    return lambda features: check_features(features, input, size)


# a line


@dataclass(slots=True)
class LineParser:
    """Parses the lines of one log.

    name: name of the log. format: the version of the format, from the header. times: for each sort of line, the readers of
    its instants.
    """

    name: str
    check: CheckFeatures = lambda features: None
    format: str = LOG_FORMAT
    times: dict[str, dict[str, InstantColumn]] = field(default_factory=lambda: {"prediction": {}, "event": {}})

    def parse(self, value: Mapping[str, JSON], number: int) -> Line:
        """Return what a translated object says. Raises BadInput with the name of the log and the number of the line."""
        where = f"{self.name}, line {number} is"
        if ("prediction" in value) == ("event" in value):
            written = LineFields(value, written=self.names.line)
            keys = ", ".join(map(written.quote, list(value)[:3])) or "nothing"
            what = (
                "both a prediction and an event" if "event" in value else f"neither a prediction nor an event: {keys}"
            )
            raise refuse(
                f"{where} {what}; a newer release or another program may have written it", number, "unknown_line"
            )
        try:
            if "prediction" in value:
                return self._parse_prediction(self._open(value, "prediction", self.names.prediction))
            return self._parse_event(self._open(value, "event", self.names.event))
        except UnknownKind as error:
            raise refuse(f"{where} {error}", number, "unknown_line") from None
        except ValueError as error:
            raise refuse(f"{where} not a line of {self.format}: {error}", number, "wrong_field") from None

    @property
    def names(self) -> FormerNames:
        """The names of fields in the format of this log."""
        return FORMER_NAMES[self.format]

    def _open(self, value: Mapping[str, JSON], name: str, written: Names) -> LineFields:
        if not isinstance(value[name], dict):
            raise LineFields(value, written=self.names.line).refuse(name, "an object")
        return LineFields(value[name], self.times[name], written)

    def _parse_prediction(self, line: LineFields) -> LoggedPrediction:
        return LoggedPrediction(
            id=line.text("id", may_be_empty=False),
            instance=line.value("input"),
            features=self._read_features(line),
            feedback_count=line.whole("feedback_count"),
            version=line.whole("version"),
            learned_until=line.whole("learned_until"),
            choice=line.text_or_null("choice"),
            propensity=line.number("propensity"),
            candidates=line.scores("candidates"),
            user=line.text_or_null("user"),
            at=line.instant("created_at"),
            exclude=line.texts("exclude"),
        )

    def _parse_event(self, line: LineFields) -> LoggedEvent:
        features = line.bytes("features") if "features" in line.fields else b""
        prediction_id, event = line.optional_text("prediction_id"), parse_event(line, features)
        if prediction_id is None and event.is_feedback:
            if not features:
                names = f"it names no prediction ({line.quote('prediction_id')})"
                raise ValueError(f"{names}, and has no 'features' of its own")
            self._check(features)
        return LoggedEvent(
            event.at(line.whole("offset", 1)),
            prediction_id,
            line.fields.get("input"),
            user=line.optional_text("user"),
            at=line.optional_instant("created_at"),
            refused=line.optional_text("refusal"),
            learned_at=line.optional_instant("learned_at"),
            was_answered="answer" in line.fields,
            answer=line.optional_text("answer"),
        )

    def _read_features(self, line: LineFields) -> bytes:
        features = line.bytes("features")
        if features or line.fields["input"] is None:
            self._check(features)
        return features

    def _check(self, features: bytes) -> None:
        try:
            self.check(features)
        except BadExample as error:
            raise ValueError(f"it has {error}") from None


class UnknownKind(ValueError):
    """An event of a kind that this release does not know."""


class ContradictoryLine(ValueError):
    """A line with the id of an earlier one, and with other contents."""


def parse_event(line: LineFields, features: bytes) -> Event:
    """Return the event of a line, or of the body of a retraction's target. Raises ValueError."""
    kind, scope = line.value("kind"), line.fields.get("scope", "")
    if kind not in KINDS_OF_EVENTS:
        raise UnknownKind(
            f"an event of an unknown kind, {kind!r}; a newer release or another program may have written it"
        )
    if scope not in SCOPES:
        raise ValueError(f"it has the scope {scope!r}; it may be reply or question")
    target = None if line.value("target") is None else parse_target(line, features)
    if kind == "retraction" and target is None:
        raise ValueError("it retracts nothing: its 'target' is null")
    return Event(
        id=line.text("id", may_be_empty=False),
        kind=kind,
        features=features,
        label=line.text("label"),
        text=line.text("text"),
        reward=line.share("reward"),
        choice=line.text_or_null("choice"),
        target=target,
        holder=line.whole("holder") if "holder" in line.fields else 0,
        scope=scope,
        control=line.text("control") if "control" in line.fields else "",
        signal=line.text("signal") if "signal" in line.fields else "",
    )


def parse_target(line: LineFields, features: bytes) -> Event:
    """Return the event that a retraction takes back, whose body is JSON in a text."""
    if not isinstance(line.fields["target"], dict):
        raise line.refuse("target", "an object")
    target = LineFields(line.fields["target"], line.times)
    try:
        body = json.loads(target.text("event"))
        if not isinstance(body, dict):
            raise target.refuse("event", "an event")
        return parse_event(LineFields(body, line.times), features).at(target.whole("offset", 1))
    except RecursionError:
        raise ValueError("its 'target' is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"its 'target' is no event: {error}") from None


def refuse(cause: str, line: int, problem: str) -> BadInput:
    """Return the error for a line that cannot be used."""
    return BadInput(cause).because("log_lines_invalid", line=line, problem=problem, count=1)


# all lines


@dataclass(slots=True)
class LogOrder:
    """Checks that each line is new, and that each event follows the one before it.

    contents: a digest of what the line of each id says. last: the offset of the last event. About 160 bytes a line.
    """

    gaps: LogGaps
    contents: dict[int, int] = field(default_factory=dict)
    last: int = 0
    predictions: int = 0

    def is_new(self, line: Line, value: Mapping[str, JSON]) -> bool:
        """Return False for a line that repeats an earlier one. Raises ValueError for one that cannot stand there."""
        name, id = ("event", line.event.id) if isinstance(line, LoggedEvent) else ("prediction", line.id)
        said = {key: each for key, each in value[name].items() if key not in CHANGING}
        key, contents = digest(f"{name} {id}".encode()), digest(orjson.dumps(said, option=orjson.OPT_SORT_KEYS))
        before = self.contents.get(key)
        if before not in (None, contents):
            raise ContradictoryLine(f"gives the {name} {id!r} again, with other contents; the first one counts")
        if isinstance(line, LoggedEvent):
            self._pass(line.event.offset, before is None)
        elif before is None:
            self.predictions += 1
        self.contents[key] = contents
        self.gaps.repeated += before is not None
        return before is None

    def _pass(self, offset: int, is_new: bool) -> None:
        """Note the offset of an event. Raises ValueError for an event that is not known and does not stand in order."""
        if offset > self.last:
            self.gaps.miss(self.last + 1, offset)
            self.last = offset
        elif is_new:
            if offset == self.last:
                raise ContradictoryLine(f"has the offset {offset:,}, as another event before it; the first one counts")
            raise ValueError(
                f"has the offset {offset:,} behind {self.last:,}: events stand in the order of their offsets"
            )

    def end(self, header: Mapping[str, JSON], unusable: int) -> None:
        """Note what the header counts and the log lacks. unusable: lines that could not be used."""
        self.gaps.miss(self.last + 1, header.get("event_count", 0) + 1)
        self.gaps.predictions = max(0, header.get("prediction_count", 0) - self.predictions - unusable)


def digest(contents: bytes) -> int:
    """Return a short digest of a line, by which a repeated id is compared."""
    return int.from_bytes(hashlib.blake2b(contents, digest_size=DIGEST_BYTES).digest())


def read_log(file: Iterable[str], name: str, header: Mapping[str, JSON], bad: BadLines) -> Iterator[tuple[int, Line]]:
    """Yield the lines of a log that count, each with its number. bad: counts the others, and what is missing.

    A second header ends the log: what follows is another one, and its offsets begin again.
    """
    parser = LineParser(name, find_features_check(header), header.get("format", LOG_FORMAT))
    order = LogOrder(bad.gaps)
    numbered = ((number, text.removeprefix(BYTE_ORDER_MARK)) for number, text in enumerate(file, 1))
    filled = (each for each in numbered if each[1].strip())
    next(filled, None)  # the header
    for number, text in filled:
        try:
            value = parse_object(text, name, number)
            if is_header(value):
                rest = 1 + sum(1 for _ in filled)
                begins = f"{name}, line {number} begins another log, which is not read: give each log by itself"
                bad.add(begins, number, "other_log", rest)
                break
            value = parser.names.translate(value)
            line = parser.parse(value, number)
            if is_new(order, line, value, f"{name}, line {number}", number):
                yield number, line
        except BadInput as error:
            bad.add(str(error), number, str(error.figures.get("problem", "other")))
    order.end(header, bad.count)


def is_new(order: LogOrder, line: Line, value: Mapping[str, object], where: str, number: int) -> bool:
    """Return whether a line is new. Raises BadInput if it contradicts an earlier line or is out of order."""
    try:
        return order.is_new(line, value)
    except ValueError as error:
        problem = "contradiction" if isinstance(error, ContradictoryLine) else "out_of_order"
        raise refuse(f"{where} {error}", number, problem) from None


def parse_object(text: str, name: str, number: int) -> dict[str, object]:
    """Parse a line. Raises BadInput for one that is no object, is cut off, or has a name twice."""
    try:
        value = parse_json(text, name, number)
    except BadInput:
        if text.endswith(("\n", "\r")):
            raise
        raise refuse(
            f"{name}, line {number} is cut off: the file ends in the middle of it", number, "cut_off"
        ) from None
    inner = [
        each for outer in value.values() if isinstance(outer, dict) for each in outer.values() if isinstance(each, dict)
    ]
    raw = text.encode()
    if not are_names_single(raw, [value, *inner]) and (twice := parse_for_names(raw)):
        raise refuse(f"{name}, line {number} has the name {twice!r} twice; leave out one of them", number, "not_json")
    return value
