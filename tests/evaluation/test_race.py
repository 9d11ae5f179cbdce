"""Several models side by side, spans of a log, and what is written down about them."""

import csv
import io
import json
import os
import random
import signal
from pathlib import Path

import pytest
from rich.console import Console

from online.errors import BadInput
from online.evaluation.contenders import contenders
from online.evaluation.formats import Bad
from online.evaluation.log import Asked
from online.evaluation.race import Played, Race, Result, raced
from online.evaluation.replay import Contender, Features, Replay, Span
from online.evaluation.sources import Source, open_source
from online.evaluation.table import as_json, show, write_csv
from tests.support import run_online


def blobs(folder: Path, count: int = 600, spread: float = 0.5) -> Path:
    """Three labels in the plane, of which the third lies between the others."""
    draw, path = random.Random(0), folder / "blobs.jsonl"
    with open(path, "w") as file:
        for _ in range(count):
            label = draw.randrange(3)
            place = [label + draw.gauss(0, spread), draw.gauss(0, spread)]
            file.write(json.dumps({"input": place, "label": label}) + "\n")
    return path


KNN = Contender("knn", {}, "knn", every=10)
LINEAR = Contender("logistic", {}, "linear", every=10)


def nothing(share: float, examples: int) -> None:
    pass


Pair = tuple[Source, list[Result]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Two models that ran side by side, and over what."""
    source = open_source(str(blobs(tmp_path_factory.mktemp("race"))))
    return source, raced(source, [KNN, LINEAR], Span(), 0.0, nothing)[0]


def test_side_by_side_each_model_comes_to_what_it_comes_to_alone(pair: Pair) -> None:
    for result in pair[1]:
        alone = Replay(pair[0], result.contender)
        alone.run()
        assert result.report is not None
        assert result.report.figures == alone.report().figures
        assert result.report.state_sha256 == alone.report().state_sha256


def test_a_duel_counts_every_pair_and_its_difference_is_that_of_the_accuracies(pair: Pair) -> None:
    first, second = (result.report.figures["accuracy"] or 0 for result in pair[1] if result.report)
    duel = pair[1][1].duel
    assert pair[1][0].duel is None and duel is not None
    assert duel["pairs"] == 600
    assert duel["difference"] == pytest.approx(second - first, abs=1e-5)
    assert duel["low"] <= duel["difference"] <= duel["high"]


def test_a_model_that_is_much_better_is_proven_to_be(tmp_path: Path) -> None:
    late = Contender("knn", {}, "learns too late", every=300)
    results, _ = raced(open_source(str(blobs(tmp_path))), [late, KNN], Span(), 0.0, nothing)
    duel = results[1].duel
    assert duel is not None and duel["verdict"] == "better" and duel["decided_at"] < 600


def test_a_model_that_cannot_read_the_source_fails_alone(tmp_path: Path) -> None:
    wrong = Contender("classifier", {"head": "no such head"}, "wrong")
    results, _ = raced(open_source(str(blobs(tmp_path))), [KNN, wrong], Span(), 0.0, nothing)
    assert results[0].report is not None and results[0].report.examples == 600
    assert results[1].report is None and "no such head" in str(results[1].failure)


def test_a_model_whose_process_is_killed_fails_alone(tmp_path: Path) -> None:
    race = Race(open_source(str(blobs(tmp_path))), [KNN, LINEAR])
    race.runners[1].process.kill()
    race.run()
    results = race.results()
    assert results[0].report is not None and results[0].report.examples == 600
    assert results[1].failure == f"its process ended with {-signal.SIGKILL}"


def test_texts_are_encoded_once_and_give_what_each_alone_gives(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    words = {
        "time": ["when do you open", "opening hours", "closed on monday"],
        "place": ["where are you", "your address"],
    }
    lines = [{"input": text, "label": label} for label, texts in words.items() for text in texts] * 3
    path.write_text("\n".join(map(json.dumps, lines)))
    source = open_source(str(path))
    together, _ = raced(source, [Contender("classifier", {}, "one"), Contender("knn", {}, "two")], Span(), 0.0, nothing)
    for result in together:
        alone = Replay(source, result.contender)
        alone.run()
        assert result.report is not None and result.report.state_sha256 == alone.report().state_sha256


# spans


def test_up_to_an_offset_is_the_same_as_a_shorter_log(tmp_path: Path) -> None:
    path = blobs(tmp_path)
    shorter = tmp_path / "shorter.jsonl"
    shorter.write_text("".join(path.read_text().splitlines(keepends=True)[:200]))
    part, whole = Replay(open_source(str(path)), KNN, Span(end=200)), Replay(open_source(str(shorter)), KNN)
    part.run()
    whole.run()
    assert part.report().figures == whole.report().figures
    assert part.report().state_sha256 == whole.report().state_sha256


def test_from_an_offset_on_is_scored_beside_a_copy_frozen_there(tmp_path: Path) -> None:
    path = tmp_path / "turned.jsonl"
    rows = [{"input": [n % 2], "label": (n % 2) ^ (n >= 300)} for n in range(600)]  # the labels change places half-way
    path.write_text("\n".join(map(json.dumps, rows)))
    replay = Replay(open_source(str(path)), Contender("knn"), Span(start=200))
    replay.run()
    figures = replay.report().figures
    assert figures["judged"] == 400
    assert figures["frozen_accuracy"] == 100 / 400  # right until the labels change
    assert (figures["accuracy"] or 0) > 0.4


def test_a_copy_is_frozen_exactly_where_scoring_begins_however_much_is_learned_together(tmp_path: Path) -> None:
    source = open_source(str(blobs(tmp_path)))
    for every in (1, 150):
        replay = Replay(source, Contender("knn", every=every), Span(start=200))
        before = Replay(source, Contender("knn"), Span(end=200))
        replay.run()
        before.run()
        probes = [line.features or b"" for line in features_of(replay)]
        assert replay.frozen is not None
        assert replay.frozen.predict(probes) == before.pupil.model.predict(probes)


def features_of(replay: Replay) -> list[Asked]:
    lines = Features(replay.encoder).of(list(replay.source.lines())[:100], Bad(1.0))
    return [line for line in lines if isinstance(line, Asked)]


# what is asked for


def test_a_grid_is_every_combination(tmp_path: Path) -> None:
    file = tmp_path / "candidates.toml"
    file.write_text(
        '[[candidate]]\nkind = "classifier"\nname = "ridge"\noptions = { head = "rp_ridge" }\n'
        'grid = { random_features = [64, 128], seed = [1, 2] }\n[[candidate]]\nkind = "knn"\nevery = 5\n'
    )
    found = contenders(["river:estimator=arf"], {}, file, Contender("", every=3))
    assert [each.name for each in found] == [
        "river:estimator=arf",
        *(f"ridge random_features={features} seed={seed}" for features in (64, 128) for seed in (1, 2)),
        "knn",
    ]
    assert found[1].options == {"head": "rp_ridge", "random_features": 64, "seed": 1}
    assert [each.every for each in found] == [3, 3, 3, 3, 3, 5]


@pytest.mark.parametrize(
    ("models", "text", "words"),
    [
        ([], None, "say which model with --model"),
        (["nothing"], None, "unknown model kind 'nothing'"),
        (["knn", "knn"], None, "two of the models are called 'knn'"),
        (["knn:k"], None, "--model takes NAME=VALUE, not 'k'"),
        ([], "candidate = 3", "candidates.toml: candidate"),
        ([], '[[candidate]]\nkind = "knn"\nspeed = 9', "candidates.toml: candidate.0.speed: Extra inputs"),
        ([], "[[candidate", "candidates.toml cannot be read"),
    ],
)
def test_what_names_no_models_is_refused(tmp_path: Path, models: list[str], text: str | None, words: str) -> None:
    file = tmp_path / "candidates.toml"
    file.write_text(text or "")
    with pytest.raises(BadInput, match=words):
        contenders(models, {}, file if text is not None else None, Contender(""))


# what comes out


def test_the_table_shows_the_models_the_baselines_and_who_is_better(pair: Pair) -> None:
    console = Console(record=True, width=80, file=io.StringIO())
    show(pair[1], False, console)
    shown = console.export_text()
    for words in ("600 examples", "majority", "no change", "log-loss", "linear is undecided against knn", "state "):
        assert words in shown


def test_the_curve_holds_every_example_of_every_model(pair: Pair, tmp_path: Path) -> None:
    write_csv([Played("blobs", pair[1])], tmp_path / "curve.csv")
    rows = list(csv.DictReader((tmp_path / "curve.csv").open()))
    assert {row["log"] for row in rows} == {"blobs"}
    assert {row["name"] for row in rows} == {"knn", "linear"}
    for result in pair[1]:
        assert result.report is not None
        mine = [row for row in rows if row["name"] == result.report.name]
        right = sum(int(row["count"]) * float(row["model"]) for row in mine)
        assert sum(int(row["count"]) for row in mine) == 600
        assert right / 600 == pytest.approx(result.report.figures["accuracy"], abs=1e-5)


def test_the_json_tells_everything_but_the_curves(pair: Pair) -> None:
    told = json.loads(json.dumps(as_json([Played("blobs", pair[1])])))
    assert [result["name"] for result in told["results"]] == ["knn", "linear"]
    assert told["results"][1]["against_champion"]["verdict"] == "undecided"
    assert "curve" not in told["results"][0]["details"] and told["results"][0]["details"]["labels"]["0"]["recall"] > 0


@pytest.mark.parametrize("models", [[KNN], [KNN, LINEAR]])
def test_ctrl_c_gives_what_is_known_so_far(tmp_path: Path, models: list[Contender]) -> None:
    def interrupt(share: float, examples: int) -> None:
        if share > 0.3:
            raise KeyboardInterrupt

    results, interrupted = raced(open_source(str(blobs(tmp_path, count=3_000))), models, Span(), 0.0, interrupt)
    assert interrupted
    assert all(result.report is not None and 0 < result.report.examples < 3_000 for result in results)


def test_a_delay_can_be_asked_for(tmp_path: Path) -> None:
    done = run_online("replay", str(blobs(tmp_path, 100)), "--model", "knn", "--delay", "48", "--json")
    assert (
        json.loads(done.stdout)["results"][0]["figures"]["answered"] == 0.51
    )  # 49 were asked before anything was told


# several logs


def test_several_logs_are_replayed_one_after_another_each_with_its_table(tmp_path: Path) -> None:
    first, second = blobs(tmp_path, 100), tmp_path / "second.jsonl"
    second.write_text("".join(first.read_text().splitlines(keepends=True)[:40]))
    done = run_online("replay", str(first), str(second), "--model", "knn", "--json")
    told = json.loads(done.stdout)
    assert [(each["log"], each["examples"]) for each in told["results"]] == [(str(first), 100), (str(second), 40)]
    shown = run_online("replay", str(first), str(second), "--model", "knn", env={**os.environ, "COLUMNS": "200"}).stdout
    assert shown.index(str(first)) < shown.index("100 examples") < shown.index(str(second)) < shown.index("40 examples")


def test_of_several_logs_one_that_cannot_be_replayed_fails_alone(tmp_path: Path) -> None:
    good, bad = blobs(tmp_path, 50), tmp_path / "bad.jsonl"
    bad.write_text(good.read_text() + '{"input": [1.0, 2.0]}\n')
    done = run_online("replay", str(bad), str(good), "--model", "knn", "--json")
    results = json.loads(done.stdout)["results"]
    assert done.returncode == 1
    assert "bad.jsonl, line 51: expected" in results[0]["failure"] and results[1]["examples"] == 50


@pytest.mark.parametrize(
    ("arguments", "words"), [(("blobs.jsonl",), "given twice"), (("river:Phishing", "--report", "r.html"), "one log")]
)
def test_several_logs_that_cannot_be_meant_are_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    blobs(tmp_path, 10)
    done = run_online("replay", "blobs.jsonl", *arguments, "--model", "knn", cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr
