"""The page of a replay: everything is inside it, it says what the table says, and it opens on a phone."""

import json
import re
from pathlib import Path

import pytest

from online.evaluation.race import raced
from online.evaluation.replay import Contender, Span
from online.evaluation.report import page, wilson
from online.evaluation.sources import open_source
from tests.evaluation.conftest import Driven
from tests.evaluation.test_race import KNN, LINEAR, blobs, nothing
from tests.support import run_online


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    wrong = Contender("knn", {"no": 1}, "<wrong>")
    results, _ = raced(open_source(str(blobs(folder))), [KNN, LINEAR, wrong], Span(), 0.0, nothing)
    return page(results, "<blobs & co>", interrupted=False)


def test_nothing_is_fetched_and_nothing_runs(made: str) -> None:
    assert not re.findall(r"<(?:script|link|img|iframe)\b|@import|(?:src|href)=\"(?!#)", made)
    addresses = set(re.findall(r"https?://[^\s\"<)]+", made))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, not places


def test_it_says_what_the_table_says_and_escapes_what_was_given(made: str) -> None:
    for words in ("&lt;blobs &amp; co&gt;", "600 examples", "linear is", "majority", "Log-loss", "&lt;wrong&gt;: "):
        assert words in made
    assert "<blobs" not in made and "<wrong>" not in made
    for title in ("In all", "Chances", "Labels (knn)", "Learning curve", "Calibration", "What was learned"):
        assert f"<h2>{title}</h2>" in made
    assert made.count("<svg") == 2 and made.count("<details>") == 2


def test_names_inside_the_plots_do_not_meet(made: str) -> None:
    first, second = (set(re.findall(r'id="([^"]+)"', svg)) for svg in re.findall(r"<svg.*?</svg>", made, re.DOTALL))
    generic = re.compile(r"^(figure|axes|matplotlib\.axis|xtick|ytick|line2d|patch|text|legend|FillBetween)\w*")
    assert not {name for name in first & second if not generic.match(name)}


def test_the_log_of_a_service_shows_its_versions_feedback_and_freshness(driven: Driven, tmp_path: Path) -> None:
    log, _ = driven["vec"]
    done = run_online("replay", str(log), "--model", "classifier", "--report", str(tmp_path / "report.html"), "--json")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.html").read_text()
    for title in ("Learning curve", "Versions", "Calibration", "Feedback", "Freshness"):
        assert f"<h2>{title}</h2>" in text
    told = json.loads(done.stdout)["results"][0]
    assert f"{told['asked']:,} of {told['asked']:,} answers as they were served" in text


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    done = run_online("replay", "river:Phishing", "--model", "knn", "--report", str(tmp_path / "no" / "r.html"))
    assert done.returncode == 2 and "the report cannot be written" in done.stderr


def test_wilsons_interval_is_known() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 5)[0] == 0 and wilson(5, 5)[1] == 1
