"""Several models replayed in parallel, spans of a log, and the files with the results."""

import csv
import io
import json
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from online.errors import BadInput
from online.evaluation.replay.candidate_files import collect_candidates
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.line_features import LineFeatures
from online.evaluation.replay.model_setup import check_candidates
from online.evaluation.replay.parallel import ParallelReplay
from online.evaluation.replay.replay import Replay, ScoredSpan
from online.evaluation.replay.replay_report import LogResults, ReplayResult
from online.evaluation.replay.runs import describe_time_left, replay_all
from online.evaluation.replay_files import results_as_json, write_curves
from online.evaluation.replay_table import print_log_results
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.log_format import LoggedPrediction
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions, Source
from tests.evaluation.replaying import KNN, LINEAR, ignore_progress, write_blobs
from tests.support import run_online

TwoResults = tuple[Source, list[ReplayResult]]


@pytest.fixture(scope="module")
def two_results(tmp_path_factory: pytest.TempPathFactory) -> TwoResults:
    """A source, and the results of two models replayed over it."""
    source = open_source(str(write_blobs(tmp_path_factory.mktemp("race"))))
    return source, replay_all(source, [KNN, LINEAR], ScoredSpan(), 0.0, ignore_progress)[0]


def test_models_replayed_in_parallel_end_as_they_do_alone(two_results: TwoResults) -> None:
    for result in two_results[1]:
        alone = Replay(two_results[0], result.candidate)
        alone.run()
        assert result.report is not None
        assert result.report.figures == alone.report().figures
        assert result.report.state_sha256 == alone.report().state_sha256


def test_a_comparison_counts_every_pair_and_its_difference_is_that_of_the_accuracies(two_results: TwoResults) -> None:
    first, second = (result.report.figures["accuracy"] or 0 for result in two_results[1] if result.report)
    comparison = two_results[1][1].comparison
    assert two_results[1][0].comparison is None and comparison is not None
    assert comparison["pairs"] == 600
    assert comparison["difference"] == pytest.approx(second - first, abs=1e-5)
    assert comparison["low"] <= comparison["difference"] <= comparison["high"]


def test_a_much_better_model_gets_the_verdict_better(tmp_path: Path) -> None:
    late = CandidateSpec("knn", {}, "learns too late", every=300)
    results, _ = replay_all(open_source(str(write_blobs(tmp_path))), [late, KNN], ScoredSpan(), 0.0, ignore_progress)
    comparison = results[1].comparison
    assert comparison is not None and comparison["verdict"] == "better" and comparison["decided_at"] < 600


def test_a_model_that_cannot_read_the_source_fails_alone(tmp_path: Path) -> None:
    wrong = CandidateSpec("classifier", {"head": "no such head"}, "wrong")
    results, _ = replay_all(open_source(str(write_blobs(tmp_path))), [KNN, wrong], ScoredSpan(), 0.0, ignore_progress)
    assert results[0].report is not None and results[0].report.examples == 600
    assert results[1].report is None and "no such head" in str(results[1].failure)


def test_every_model_that_cannot_be_made_is_named_before_anything_runs(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text('[[candidate]]\nkind = "classifier"\nname = "grid"\ngrid = { head = ["slda", "none", "rigde"] }\n')
    bad = ("--model", "river:estimator=tree.Oak", "--model", "knn:colour=3")
    process = run_online(
        "replay", str(write_blobs(tmp_path, 10)), "--model", "knn", *bad, "--candidates", str(grid), cwd=tmp_path
    )
    assert process.returncode == 2 and not process.stdout
    assert "4 of 6 models cannot be made, and nothing was replayed" in process.stderr
    for words in ("river has no 'tree.Oak'", "unknown option 'colour'", "grid head=none:", "grid head=rigde:"):
        assert words in process.stderr


def test_a_model_that_fits_some_of_the_logs_is_not_refused(tmp_path: Path) -> None:
    sources = [open_source(str(write_blobs(tmp_path, 10))), open_source("river:TrumpApproval")]
    check_candidates(sources, [KNN, CandidateSpec("regressor")])
    with pytest.raises(BadInput, match="holds numbers to predict"):
        check_candidates(sources[1:], [KNN])


def test_the_rate_of_a_model_is_of_its_own_time(tmp_path: Path) -> None:
    """The time between two feeds, as when it waits for slower models, does not count."""
    replay = Replay(open_source(str(write_blobs(tmp_path, 256))), KNN)
    now = iter(range(1_000_000))
    replay.clock = lambda: float(next(now))
    replay.run()
    assert replay.model_seconds == 2 * 26  # an answer and a lesson for each ten examples, a second each
    assert replay.report().examples_per_second == round(256 / 52, 1)


@pytest.mark.parametrize(
    ("seconds", "share", "more", "words"),
    [
        (5.0, 0.0, 0, ""),
        (5.0, 0.5, 0, ", 5 s left"),
        (60.0, 0.5, 1, ", 3 min 00 s left"),
        (3_600.0, 0.4, 0, ", 1 h 30 min left"),
    ],
)
def test_the_time_left_is_told(seconds: float, share: float, more: int, words: str) -> None:
    assert describe_time_left(seconds, share, more) == words


def test_a_model_whose_process_is_killed_fails_alone(tmp_path: Path) -> None:
    replay = ParallelReplay(open_source(str(write_blobs(tmp_path))), [KNN, LINEAR])
    replay.runners[1].process.kill()
    replay.run()
    results = replay.results()
    assert results[0].report is not None and results[0].report.examples == 600
    assert results[1].failure == f"its process ended with {-signal.SIGKILL}"


def test_texts_are_encoded_once_with_the_same_results(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    texts_by_label = {
        "time": ["when do you open", "opening hours", "closed on monday"],
        "place": ["where are you", "your address"],
    }
    lines = [{"input": text, "label": label} for label, texts in texts_by_label.items() for text in texts] * 3
    path.write_text("\n".join(map(json.dumps, lines)))
    source = open_source(str(path))
    together, _ = replay_all(
        source,
        [CandidateSpec("classifier", {}, "one"), CandidateSpec("knn", {}, "two")],
        ScoredSpan(),
        0.0,
        ignore_progress,
    )
    for result in together:
        alone = Replay(source, result.candidate)
        alone.run()
        assert result.report is not None and result.report.state_sha256 == alone.report().state_sha256


# spans


def test_a_replay_up_to_an_offset_equals_that_of_a_shorter_log(tmp_path: Path) -> None:
    path = write_blobs(tmp_path)
    shorter = tmp_path / "shorter.jsonl"
    shorter.write_text("".join(path.read_text().splitlines(keepends=True)[:200]))
    spanned, shortened = (
        Replay(open_source(str(path)), KNN, ScoredSpan(end=200)),
        Replay(open_source(str(shorter)), KNN),
    )
    spanned.run()
    shortened.run()
    assert spanned.report().figures == shortened.report().figures
    assert spanned.report().state_sha256 == shortened.report().state_sha256


def test_a_replay_from_an_offset_is_compared_with_a_copy_frozen_there(tmp_path: Path) -> None:
    path = tmp_path / "turned.jsonl"
    rows = [{"input": [n % 2], "label": (n % 2) ^ (n >= 300)} for n in range(600)]  # the labels are swapped half-way
    path.write_text("\n".join(map(json.dumps, rows)))
    replay = Replay(open_source(str(path)), CandidateSpec("knn"), ScoredSpan(start=200))
    replay.run()
    figures = replay.report().figures
    assert figures["judged"] == 400
    assert figures["frozen_accuracy"] == 100 / 400  # right until the labels change
    assert (figures["accuracy"] or 0) > 0.4


def test_a_copy_is_frozen_exactly_where_scoring_begins_for_any_batch_size(tmp_path: Path) -> None:
    source = open_source(str(write_blobs(tmp_path)))
    for every in (1, 150):
        replay = Replay(source, CandidateSpec("knn", every=every), ScoredSpan(start=200))
        before = Replay(source, CandidateSpec("knn"), ScoredSpan(end=200))
        replay.run()
        before.run()
        probes = [line.features or b"" for line in encode_lines(replay)]
        assert replay.frozen is not None
        assert replay.frozen.predict(probes) == before.training.model.predict(probes)


def encode_lines(replay: Replay) -> list[LoggedPrediction]:
    lines = LineFeatures(replay.encoder).of(list(replay.source.lines())[:100], BadLines(1.0))
    return [line for line in lines if isinstance(line, LoggedPrediction)]


# candidates and flags


def test_a_grid_gives_every_combination(tmp_path: Path) -> None:
    file = tmp_path / "candidates.toml"
    file.write_text(
        '[[candidate]]\nkind = "classifier"\nname = "ridge"\noptions = { head = "rp_ridge" }\n'
        'grid = { random_features = [64, 128], seed = [1, 2] }\n[[candidate]]\nkind = "knn"\nevery = 5\n'
    )
    candidates = collect_candidates(["river:estimator=arf"], {}, file, CandidateSpec("", every=3))
    assert [each.name for each in candidates] == [
        "river:estimator=arf",
        *(f"ridge random_features={features} seed={seed}" for features in (64, 128) for seed in (1, 2)),
        "knn",
    ]
    assert candidates[1].options == {"head": "rp_ridge", "random_features": 64, "seed": 1}
    assert [each.every for each in candidates] == [3, 3, 3, 3, 3, 5]


@pytest.mark.parametrize(
    ("models", "text", "message"),
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
def test_invalid_model_arguments_and_files_are_refused(
    tmp_path: Path, models: list[str], text: str | None, message: str
) -> None:
    file = tmp_path / "candidates.toml"
    file.write_text(text or "")
    with pytest.raises(BadInput, match=message):
        collect_candidates(models, {}, file if text is not None else None, CandidateSpec(""))


# code of the operator


def test_a_class_of_ones_own_is_named_by_its_path_and_compared_in_its_own_process(tmp_path: Path) -> None:
    log = tmp_path / "rows.csv"
    log.write_text("x,y,side\n" + "".join(f"{n % 7},{n % 3},{'ab'[n % 7 > 3]}\n" for n in range(300)))
    path = "tests.models.nearest_mean:NearestMean"
    models = [f"{path}:", 'river:estimator=tests.models.own_estimators:pipeline,params={"l2":0.01}']
    like = CandidateSpec("", from_operator=True)
    candidates = collect_candidates(models, {}, None, like)
    assert [(each.kind, dict(each.options)) for each in candidates] == [
        (path, {}),
        ("river", {"estimator": "tests.models.own_estimators:pipeline", "params": {"l2": 0.01}}),
    ]
    replay = ParallelReplay(open_source(str(log), ReadOptions(label="side")), candidates)
    replay.run()
    results = replay.results()
    assert [each.failure for each in results] == [None, None]
    assert all(each.report is not None and (each.report.figures["accuracy"] or 0.0) > 0.8 for each in results)


def test_a_class_is_imported_for_the_operator_alone() -> None:
    with pytest.raises(BadInput, match="unknown model kind 'json:JSONDecoder'"):
        collect_candidates(["json:JSONDecoder"], {}, None, CandidateSpec(""))
    with pytest.raises(BadInput, match="json:JSONDecoder must say its task"):
        collect_candidates(["json:JSONDecoder"], {}, None, CandidateSpec("", from_operator=True))


def test_a_log_that_names_code_runs_it_only_if_the_operator_names_it_too(tmp_path: Path) -> None:
    trap, log = tmp_path / "sprung", tmp_path / "sent.jsonl"
    header = {"format": "online-log/3", "model": "m", "kind": "river", "drift": "watch", "feature_epoch": "table"}
    mkdir = {"estimator": "os:mkdir", "params": {"path": str(trap)}}
    own = CandidateSpec("river", {"estimator": "tests.models.own_estimators:pipeline"}, from_operator=True)
    for options in (mkdir, {"challenger": {"options": mkdir}}):
        log.write_text(json.dumps({**header, "options": options}) + "\n")
        source = open_source(str(log))
        with pytest.raises(BadInput, match="learned with the code os:mkdir, and a log cannot decide what runs here"):
            check_candidates([source], [CandidateSpec("river", from_operator=True)])
    assert not trap.exists()
    log.write_text(json.dumps({**header, "options": {"estimator": own.options["estimator"]}}) + "\n")
    check_candidates([open_source(str(log))], [own])


# output


def test_the_table_shows_models_baselines_and_comparisons(two_results: TwoResults) -> None:
    console = Console(record=True, width=80, file=io.StringIO())
    print_log_results(two_results[1], False, console)
    output = console.export_text()
    for message in ("600 examples", "majority", "no change", "log-loss", "linear is undecided against knn", "state "):
        assert message in output


def test_the_curve_contains_every_example_of_every_model(two_results: TwoResults, tmp_path: Path) -> None:
    write_curves([LogResults("blobs", two_results[1])], tmp_path / "curve.csv")
    rows = list(csv.DictReader((tmp_path / "curve.csv").open()))
    assert {row["log"] for row in rows} == {"blobs"}
    assert {row["name"] for row in rows} == {"knn", "linear"}
    for result in two_results[1]:
        assert result.report is not None
        rows_of_model = [row for row in rows if row["name"] == result.report.name]
        right = sum(int(row["count"]) * float(row["model"]) for row in rows_of_model)
        assert sum(int(row["count"]) for row in rows_of_model) == 600
        assert right / 600 == pytest.approx(result.report.figures["accuracy"], abs=1e-5)


def test_the_json_contains_everything_but_the_curves(two_results: TwoResults) -> None:
    report = json.loads(json.dumps(results_as_json([LogResults("blobs", two_results[1])])))
    assert [result["name"] for result in report["results"]] == ["knn", "linear"]
    assert report["results"][1]["against_champion"]["verdict"] == "undecided"
    assert (
        "curve" not in report["results"][0]["details"] and report["results"][0]["details"]["labels"]["0"]["recall"] > 0
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("models", [[KNN], [KNN, LINEAR]])
def test_ctrl_c_returns_the_results_so_far(tmp_path: Path, models: list[CandidateSpec]) -> None:
    def interrupt(share: float, examples: int) -> None:
        if share > 0.3:
            raise KeyboardInterrupt

    results, interrupted = replay_all(
        open_source(str(write_blobs(tmp_path, count=3_000))), models, ScoredSpan(), 0.0, interrupt
    )
    assert interrupted
    assert all(result.report is not None and 0 < result.report.examples < 3_000 for result in results)


def test_labels_can_be_delayed(tmp_path: Path) -> None:
    process = run_online("replay", str(write_blobs(tmp_path, 100)), "--model", "knn", "--delay", "48", "--json")
    assert (
        json.loads(process.stdout)["results"][0]["figures"]["answered"] == 0.51
    )  # 49 were predicted before the first label was learned


# several logs


def test_several_logs_are_replayed_in_turn_each_with_its_table(tmp_path: Path) -> None:
    first, second = write_blobs(tmp_path, 100), tmp_path / "second.jsonl"
    second.write_text("".join(first.read_text().splitlines(keepends=True)[:40]))
    process = run_online("replay", str(first), str(second), "--model", "knn", "--json")
    report = json.loads(process.stdout)
    assert [(each["log"], each["examples"]) for each in report["results"]] == [(str(first), 100), (str(second), 40)]
    output = run_online(
        "replay", str(first), str(second), "--model", "knn", env={**os.environ, "COLUMNS": "200"}
    ).stdout
    assert (
        output.index(str(first))
        < output.index("100 examples")
        < output.index(str(second))
        < output.index("40 examples")
    )


def test_one_invalid_log_of_several_fails_alone(tmp_path: Path) -> None:
    good, bad = write_blobs(tmp_path, 50), tmp_path / "bad.jsonl"
    bad.write_text(good.read_text() + '{"input": [1.0, 2.0]}\n')
    process = run_online("replay", str(bad), str(good), "--model", "knn", "--json")
    results = json.loads(process.stdout)["results"]
    assert process.returncode == 1
    assert "bad.jsonl, line 51: expected" in results[0]["failure"] and results[1]["examples"] == 50


@pytest.mark.parametrize(
    ("arguments", "message"), [(("blobs.jsonl",), "given twice"), (("river:Phishing", "--report", "r.html"), "one log")]
)
def test_invalid_combinations_of_several_logs_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    write_blobs(tmp_path, 10)
    process = run_online("replay", "blobs.jsonl", *arguments, "--model", "knn", cwd=tmp_path)
    assert process.returncode == 2 and message in process.stderr
