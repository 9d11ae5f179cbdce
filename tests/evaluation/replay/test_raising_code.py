"""Code of an operator that raises while it answers or learns: a replay fails with its first traceback, or says so first."""

from pathlib import Path
from typing import Any

import pytest

from online.errors import BadInput
from online.evaluation.conclusion import conclude
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay, ScoredSpan
from online.evaluation.replay.replay_report import LogResults, ReplayResult
from online.evaluation.replay.runs import replay_all
from online.evaluation.replay_files import results_as_json
from online.evaluation.replay_table import describe_report
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.models.own_kinds import admit
from online.plugins.reports.languages import WORDS
from tests.evaluation.replaying import run_replay
from tests.models.nearest_mean import NearestMean
from tests.support import run_online

OWN, NEAREST_MEAN, LABEL = (
    "tests.models.own_estimators",
    "tests.models.nearest_mean:NearestMean",
    ReadOptions(label="label"),
)
WRITTEN = "AttributeError: nobody has written this part"


def write_table(folder: Path, count: int = 200) -> Path:
    """Write rows whose label follows from x, a number from 0 to 9. Labels are numbers, for models of both kinds."""
    rows = "".join(f"{n % 10},{int(n % 10 > 4)}\n" for n in range(count))
    path = folder / "rows.csv"
    path.write_text(f"x,label\n{rows}")
    return path


def own(kind: str, factory: str = "raises", **params: Any) -> CandidateSpec:
    scale = {} if factory == "raises" else {"input": "table"}
    options = {"estimator": f"{OWN}:{factory}", "params": params, "scale": False, **scale}
    return CandidateSpec(kind, options, "mine", every=10)


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (own("river", answers_from=0), "mine raised an error for each of 190 answers"),
        (own("river_regressor", answers_from=0), "mine raised an error for each of 190 answers"),
        (own("sklearn", "raises_always"), "mine raised an error for each of 190 answers"),
        (own("river", learns_from=0), "mine raised an error at each of 200 examples"),
        (own("river_regressor", learns_from=0), "mine raised an error at each of 200 examples"),
    ],
    ids=lambda each: f"{each.kind} {each.options['params']}" if isinstance(each, CandidateSpec) else "",
)
def test_code_that_always_raises_fails_the_replay_with_its_first_traceback(
    tmp_path: Path, candidate: CandidateSpec, message: str
) -> None:
    with pytest.raises(BadInput) as failed:
        run_replay(write_table(tmp_path), candidate, LABEL)
    said = str(failed.value)
    assert said.startswith(message) and said.endswith(WRITTEN)
    assert 'own_estimators.py", line ' in said and "online/models" not in said


def test_the_command_fails_and_shows_the_traceback(tmp_path: Path) -> None:
    model = f'river:estimator={OWN}:raises,params={{"answers_from":0}},scale=false'
    process = run_online("replay", str(write_table(tmp_path)), "--label", "label", "--model", model, "--json")
    assert process.returncode == 2 and process.stdout == ""
    assert "raised an error for each of" in process.stderr and WRITTEN in process.stderr


def test_of_several_models_the_one_that_raises_fails_alone(tmp_path: Path) -> None:
    source = open_source(str(write_table(tmp_path)), LABEL)
    candidates = [CandidateSpec("majority", name="majority"), own("river", answers_from=0)]
    other, failed = replay_all(source, candidates, ScoredSpan(), 0.0, lambda share, examples: None)[0]
    assert other.report is not None and other.failure is None
    assert failed.report is None and failed.failure is not None and failed.failure.endswith(WRITTEN)


@pytest.mark.parametrize(("what", "said"), [("predict", "answered"), ("learn", "learned")])
def test_a_kind_of_ones_own_that_raises_fails_the_replay_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, said: str
) -> None:
    def fail(self: Any, *given: Any, **named: Any) -> Any:
        raise AttributeError("nobody has written this part")

    admit(NEAREST_MEAN)
    monkeypatch.setattr(NearestMean, what, fail)
    with pytest.raises(BadInput, match=f"raised an error while it {said}, near example 1") as failed:
        run_replay(write_table(tmp_path), CandidateSpec(NEAREST_MEAN, name="mine"), LABEL)
    assert str(failed.value).endswith(WRITTEN)


def replay_some(folder: Path, **params: float) -> Replay:
    """Replay 500 rows, of which the code raises at those of one number of ten."""
    given: dict[str, Any] = {**params}
    return run_replay(write_table(folder, 500), own("river", **given), LABEL)


@pytest.mark.parametrize(
    ("params", "answers", "examples"), [({"answers_from": 9}, 49, 0), ({"learns_from": 9}, 0, 50)], ids=str
)
def test_code_that_raises_at_some_rows_is_the_first_thing_that_the_verdict_says(
    tmp_path: Path, params: dict[str, float], answers: int, examples: int
) -> None:
    report = replay_some(tmp_path, **params).report()
    assert (report.errors["answers"], report.errors["examples"]) == (answers, examples)
    assert report.errors["first"].endswith(WRITTEN) and report.bad == 0
    results = [ReplayResult(own("river"), report, None, None)]
    verdict = conclude(results)
    assert verdict.level == "attention" and verdict.headline.startswith("The code of mine raised errors, for ")
    assert verdict.headline.endswith(f"The first was: {WRITTEN}") and verdict.next.startswith("Correct the code")
    assert conclude(results, words=WORDS["de"]).headline.startswith("Der Code von mine hat Fehler ausgelöst, bei ")
    written = results_as_json([LogResults("rows.csv", results)])["results"][0]
    assert written["errors"] == report.errors and verdict.headline in written["warnings"]
    assert any(WRITTEN in line for line in describe_report(report, named=False))


def test_code_that_never_raises_is_not_spoken_of(tmp_path: Path) -> None:
    report = replay_some(tmp_path).report()
    assert report.errors == {}
    [written] = results_as_json([LogResults("rows.csv", [ReplayResult(own("river"), report, None, None)])])["results"]
    assert "errors" not in written


def test_examples_past_a_limit_are_spoken_of_with_the_option_that_raises_it(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("x,label\n" + "".join(f"{n % 50},class {n % 50}\n" for n in range(1_000)))
    report = run_replay(path, CandidateSpec("classifier", {"input": "table", "max_labels": 10}, "ours"), LABEL).report()
    results = [ReplayResult(CandidateSpec("classifier", name="ours"), report, None, None)]
    english, german = conclude(results), conclude(results, words=WORDS["de"])
    assert sum(report.refused.values()) == 800 and english.level == "attention"
    assert english.headline.startswith("800 examples were judged and not learned by ours, 80.0 % of all: ")
    assert english.next.startswith("Raise the option `max_labels` of ours, and replay again.")
    assert german.headline.startswith("800 Beispiele wurden beurteilt und von ours nicht gelernt, 80,0 % von allen")
    assert german.next.startswith("Erhöhen Sie die Option `max_labels` von ours")
    on_a_page = conclude(results, names_options=False).next
    assert on_a_page.startswith("See why these examples were not learned")
