"""What a replay computes, said in a few lines: answer, score, learn, one line after the other. The fast replay must equal it.

The naive replay learns again without an event that is retracted, instead of subtracting it, and knows neither batches nor rows.
"""

import base64
import json
import random
from pathlib import Path

import numpy as np
import pytest

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.line_features import LineFeatures
from online.evaluation.replay.model_setup import ModelSetup
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.log_format import LoggedPrediction, build_header
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import Source
from online.learning.training_state import build_example
from online.models import Answer, Example, Model, create, input_options
from online.schemas.events import Event
from online.settings import ModelSettings

COUNT = 150
Losses = list[tuple[int, float | None]]
VECTOR = {"input": "vector", "size": 3}
TABLE = {"input": "table"}


def replay_naively(source: Source, candidate: CandidateSpec) -> tuple[Losses, str]:
    """The losses by offset, and the fingerprint at the end."""
    setup = ModelSetup(source, candidate)
    features, model = LineFeatures(setup.create_encoder()), create(candidate.kind, setup.options)
    learned, answers, losses = dict[int, Example](), dict[str, Answer](), Losses()
    for line in source.lines():
        (line,) = features.of([line], BadLines())
        if isinstance(line, LoggedPrediction):
            (answers[line.id],) = model.predict([line.features or b""])
            continue
        entry = line.complete()
        if entry.target is not None:
            del learned[entry.target.offset]
            model = learn_in_order(create(candidate.kind, setup.options), [*learned.values()])
        else:
            losses.append((entry.offset, measure(answers[line.prediction_id or ""], entry)))
            learned[entry.offset] = build_example(entry)
            model.learn([learned[entry.offset]])
    return losses, model.fingerprint()


def measure(answer: Answer, event: Event) -> float | None:
    """Return how far a number is from the right one, or 1 for a wrong class; None where the event does not judge the answer."""
    if not event.label.isalpha():
        return None if answer.choice is None else abs(float(answer.choice) - float(event.label))
    if event.reward < 0.5:
        return 1.0 if answer.choice == event.label else None
    return float(answer.choice != event.label)


def learn_in_order(model: Model, examples: list[Example]) -> Model:
    for example in examples:
        model.learn([example])
    return model


def write_log(path: Path, kind: str, options: dict[str, object], has_retractions: bool) -> Path:
    """Write the log of a service: a fifth of the feedback comes later than other predictions, and some is taken back."""
    rng = random.Random(3)
    spec = ModelSettings.model_validate({"name": "m", "kind": kind, "options": options})
    lines, due, given = list[object](), list[tuple[int, Event, str]](), list[tuple[int, Event]]()
    for turn in range(COUNT):
        place = rng.randrange(3)
        features = encode(kind, options, place, rng)
        lines.append(render_prediction(f"p{turn}", features))
        event = give_feedback(f"f{turn}", kind, place, features, rng)
        due.append((turn + (rng.randrange(2, 20) if rng.random() < 0.2 else 0), event, f"p{turn}"))
        for at, told, about in sorted(due, key=lambda each: each[0]):
            if at <= turn:
                given.append((len(given) + 1, told))
                lines.append(render_event(*given[-1], about))
        due = [each for each in due if each[0] > turn]
        if has_retractions and turn % 25 == 24:
            offset, event = given[rng.randrange(len(given) - 1)]
            if event.target is None and event.id not in {
                told.id.removesuffix("#retraction") for _, told in given if told.target
            }:
                retraction = Event(f"{event.id}#retraction", "retraction", event.features, target=event.at(offset))
                given.append((len(given) + 1, retraction))
                lines.append(render_event(*given[-1], None))
    left = {about for _, _, about in due}
    for line in lines:
        if isinstance(line, dict) and "prediction" in line:
            line["prediction"]["feedback_count"] = int(line["prediction"]["id"] not in left)
    epoch = create(kind, options).feature_epoch()
    header = build_header(spec, options, epoch, COUNT, len(given))
    path.write_text("\n".join(map(json.dumps, [header, *lines])))
    return path


def encode(kind: str, options: dict[str, object], place: int, rng: random.Random) -> bytes:
    point = [place + rng.gauss(0, 0.6) for _ in range(3)]
    if input_options(kind, options)["input"] == "table":
        return json.dumps({"a": point[0], "b": point[1]}, sort_keys=True, separators=(",", ":")).encode()
    return np.array(point).tobytes()


def give_feedback(id: str, kind: str, place: int, features: bytes, rng: random.Random) -> Event:
    if kind == "regressor":
        return Event(id, "label", features, repr(10.0 * place + rng.random()))
    if kind != "river" and rng.random() < 0.2:
        return Event(id, "reward", features, "abc"[(place + 1) % 3], reward=0.0)
    return Event(id, "label", features, "abc"[place])


def render_prediction(id: str, features: bytes) -> dict[str, dict[str, object]]:
    answered: dict[str, object] = {
        "version": 0,
        "learned_until": 0,
        "choice": None,
        "propensity": 1.0,
        "candidates": [],
    }
    encoded = base64.b64encode(features).decode()
    origin = {"user": None, "created_at": "2026-01-01T00:00:00+00:00"}
    return {"prediction": {"id": id, "input": None, "features": encoded, "feedback_count": 1, **answered, **origin}}


def render_event(offset: int, event: Event, about: str | None) -> dict[str, dict[str, object]]:
    origin = {"user": None, "created_at": "2026-01-01T00:00:00+00:00"}
    own = {"prediction_id": about} if about else {"input": None, "features": base64.b64encode(event.features).decode()}
    return {"event": {"offset": offset, **json.loads(event.body()), **own, **origin}}


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("classifier", {**VECTOR, "scale": 4.0}),
        ("classifier", TABLE),
        ("regressor", {**VECTOR, "target_scale": 64.0, "scale": 16.0}),
        ("knn", TABLE),
        ("logistic", TABLE),
        ("river", {"key": "5e" * 32}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)),
)
@pytest.mark.parametrize("every", [1, 32], ids=["each", "batches"])
def test_a_replay_equals_answering_scoring_and_learning_line_by_line(
    tmp_path: Path, kind: str, options: dict[str, object], every: int
) -> None:
    """With batches the answers are of earlier states, but what is learned is the same."""
    source = open_source(str(write_log(tmp_path / "log.jsonl", kind, options, has_retractions=True)))
    candidate = CandidateSpec(kind, options, every=every)
    replay = Replay(source, candidate)
    losses = [*replay.losses()]
    expected, fingerprint = replay_naively(source, candidate)
    report = replay.report()
    assert report.state_sha256 == fingerprint
    assert [offset for offset, _ in losses] == [offset for offset, _ in expected] and len(losses) > 100
    if every == 1:
        assert [loss for _, loss in losses] == pytest.approx([loss for _, loss in expected], abs=1e-9)
        judged = [loss for _, loss in expected if loss is not None]
        figure = report.figures["mae"] if kind == "regressor" else 1 - (report.figures["accuracy"] or 0)
        assert figure == pytest.approx(sum(judged) / len(judged), abs=1e-5)
