"""The report page of a replay: it is self-contained, and shows the same figures as the table."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Span
from online.evaluation.replay.runs import replay_all
from online.evaluation.reports.plots import wilson_interval
from online.evaluation.reports.report_page import render_page
from online.evaluation.sources.opening import open_source
from tests.evaluation.conftest import Driven
from tests.evaluation.replaying import KNN, LINEAR, ignore_progress, write_blobs
from tests.support import run_online


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    wrong = CandidateSpec("knn", {"no": 1}, "<wrong>")
    results, _ = replay_all(open_source(str(write_blobs(folder))), [KNN, LINEAR, wrong], Span(), 0.0, ignore_progress)
    return render_page(results, "<blobs & co>", interrupted=False)


def test_the_page_loads_nothing_and_has_no_script(page: str) -> None:
    assert not re.findall(r"<(?:script|link|img|iframe)\b|@import|(?:src|href)=\"(?!#)", page)
    addresses = set(re.findall(r"https?://[^\s\"<)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # XML namespaces


def test_the_page_shows_the_figures_of_the_table_and_escapes_names(page: str) -> None:
    for text in ("&lt;blobs &amp; co&gt;", "600 examples", "linear is", "majority", "Log-loss", "&lt;wrong&gt;: "):
        assert text in page
    assert "<blobs" not in page and "<wrong>" not in page
    for title in ("Overall", "Probabilities", "Classes (knn)", "Learning curve", "Calibration", "Learned state"):
        assert f"<h2>{title}</h2>" in page
    assert page.count("<svg") == 2 and page.count("<details>") == 2


def test_ids_inside_the_plots_are_unique(page: str) -> None:
    first, second = (set(re.findall(r'id="([^"]+)"', svg)) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    generic = re.compile(r"^(figure|axes|matplotlib\.axis|xtick|ytick|line2d|patch|text|legend|FillBetween)\w*")
    assert not {name for name in first & second if not generic.match(name)}


def test_the_page_warns_of_a_model_far_behind_a_baseline_and_names_the_columns_that_were_left_out(
    tmp_path: Path,
) -> None:
    majority = CandidateSpec("majority", {}, "<m>", every=10, baseline=True)
    results, _ = replay_all(open_source(str(write_blobs(tmp_path))), [majority], Span(), 0.0, ignore_progress)
    (result,) = results
    assert result.report is not None
    page = render_page([replace(result, report=replace(result.report, left_out=["a", "b"]))], "blobs", False)
    (warning,) = re.findall(r'<p class="warning" role="note">(.*?)</p>', page)
    assert re.match(r"&lt;m&gt; is \d\d\.\d points behind a logistic model", warning)
    assert "(--model best_of)" in warning and "without the columns a, b" in page and "<td>logistic</td>" in page


def test_the_log_of_a_service_shows_its_versions_feedback_and_freshness(driven: Driven, tmp_path: Path) -> None:
    log, _ = driven["vec"]
    process = run_online(
        "replay", str(log), "--model", "classifier", "--report", str(tmp_path / "report.html"), "--json"
    )
    assert process.returncode == 0, process.stderr
    text = (tmp_path / "report.html").read_text()
    for title in ("Learning curve", "Versions", "Calibration", "Feedback", "Freshness"):
        assert f"<h2>{title}</h2>" in text
    result = json.loads(process.stdout)["results"][0]
    assert f"{result['asked']:,} of {result['asked']:,} answers as they were served" in text


def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    process = run_online("replay", "river:Phishing", "--model", "knn", "--report", str(tmp_path / "no" / "r.html"))
    assert process.returncode == 2 and "the report cannot be written" in process.stderr


def test_wilsons_interval_has_its_known_values() -> None:
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson_interval(0, 5)[0] == 0 and wilson_interval(5, 5)[1] == 1
