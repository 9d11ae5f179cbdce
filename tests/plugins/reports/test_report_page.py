"""The report page of a replay: it is self-contained, and shows the same figures as the table."""

import base64
import json
import random
import re
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from pathlib import Path
from string import Formatter

import pytest

from online.evaluation.conclusion import conclude
from online.evaluation.english import ENGLISH
from online.evaluation.noticed_fall import list_begins
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.replay_report import ReplayReport, ReplayResult
from online.evaluation.replay.runs import replay_all
from online.evaluation.replay_table import (
    BASELINES,
    CLASS_COLUMNS,
    NUMBER_COLUMNS,
    PROBABILITY_COLUMNS,
    TASK_COLUMNS,
)
from online.evaluation.sources.opening import open_source
from online.evaluation.words import IN_ENGLISH, LanguageWords
from online.models import Answer
from online.plugins.reports.findings import read_finding
from online.plugins.reports.glossary import GLOSSARIES
from online.plugins.reports.languages import ALL_WORDS, WORDS
from online.plugins.reports.report_page import build_key_figures, render_page
from online.schemas.events import Event, EventKind
from online.scoring.class_score import ClassScore
from online.scoring.drift_changes import Alarm
from online.scoring.falls import find_past_fall
from online.scoring.intervals import wilson_interval
from online.scoring.score import JudgedOutcomes, PendingOutcome
from tests.evaluation.driven import Driven
from tests.evaluation.replaying import KNN, LINEAR, ignore_progress, write_blobs
from tests.evaluation.test_conclusion import Answers, answer, score_answers
from tests.support import run_online, skip_or_fail

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[ReplayResult]:
    folder = tmp_path_factory.mktemp("report")
    wrong = CandidateSpec("knn", {"no": 1}, "<wrong>")
    results, _ = replay_all(
        open_source(str(write_blobs(folder))), [KNN, LINEAR, wrong], ScoredSpan(), 0.0, ignore_progress
    )
    return results


@pytest.fixture(scope="module")
def page(results: list[ReplayResult]) -> str:
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
    assert page.count("<svg") == 4 and page.count("<details>") == 2


def test_the_newest_answers_have_no_figure_where_they_are_all_answers(page: str) -> None:
    assert not re.search("last (<[^>]+>)?1,000", page.lower())


def test_ids_inside_the_plots_are_unique(page: str) -> None:
    drawings = [set(re.findall(r'id="([^"]+)"', svg)) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    generic = re.compile(r"^(figure|axes|matplotlib\.axis|xtick|ytick|line2d|patch|text|legend|FillBetween)\w*")
    for first, second in combinations(drawings, 2):
        assert not {name for name in first & second if not generic.match(name)}


def test_the_page_warns_of_a_model_far_behind_a_baseline_and_names_the_columns_that_were_left_out(
    tmp_path: Path,
) -> None:
    majority = CandidateSpec("majority", {}, "<m>", every=10, baseline=True)
    results, _ = replay_all(open_source(str(write_blobs(tmp_path))), [majority], ScoredSpan(), 0.0, ignore_progress)
    (result,) = results
    assert result.report is not None
    page = render_page([replace(result, report=replace(result.report, left_out=["a", "b"]))], "blobs", False)
    (warning,) = re.findall(r'<p class="(?:sentence )?warning" role="note">(.*?)</p>', page)
    assert re.match(r"&lt;m&gt; is \d\d\.\d points behind a logistic model", warning)
    assert (
        "--model" not in page
        and "without the columns a, b" in page
        and re.search(r'<th scope="row">logistic <span class="whole">baseline<span class="help">', page)
    )


def test_the_verdict_stands_first_and_in_the_head_where_a_service_reads_it(page: str, tmp_path: Path) -> None:
    body = page[page.index("<body>") :]
    assert body.index('class="verdict') < body.index("<dl") < body.index("<main>")
    path = tmp_path / "page.html"
    path.write_text(page)
    finding = read_finding(path)
    assert finding is not None and finding.level == "attention"  # one of the models failed
    assert re.match(r"\w+ is right in \d\d\.\d\u00a0% of 600 answers", finding.sentence) and finding.language == "en"


def test_no_language_lacks_a_sentence_a_value_or_a_word() -> None:
    for table in (words.table for words in ALL_WORDS):
        assert table.keys() == ENGLISH.keys()
        for key, text in table.items():
            assert fields_of(text) == fields_of(ENGLISH[key]), key
    for glossary in GLOSSARIES.values():
        assert glossary.keys() == GLOSSARIES["en"].keys()


def fields_of(text: str) -> list[tuple[str, str | None]]:
    """The placeholders of a sentence, each with the format of its number; one with a noun counts once."""
    fields = [(name, spec) for _, name, spec, _ in Formatter().parse(text) if name is not None]
    return sorted(
        (name, "noun" if "|" in (spec or "") else spec) for name, spec in fields if not str(spec).startswith("!")
    )


def test_numbers_are_as_the_readers_of_a_language_write_them() -> None:
    english, german = ALL_WORDS
    assert english.number(12345.678, ",.1f") == "12,345.7" and german.number(12345.678, ",.1f") == "12.345,7"
    assert german.number(0.123, ".1%") == "12,3\u00a0%" and german.figure(None, ".1%") == "–"
    assert english("unusable", count=1) == "1 line could not be used"
    assert german("unusable", count=1234) == "1.234 Zeilen waren unbrauchbar"
    assert german("and_more", names="a.b,c", count=1234) == "a.b,c und 1.234 weitere"  # a name stays as it is
    at = datetime(2026, 11, 24, 9, 5, 1)
    assert (english.moment(at), german.moment(at)) == ("2026-11-24 09:05:01", "24.11.2026 09:05:01")


def test_a_page_in_german_has_the_figures_of_the_english_one_in_german_words(
    results: list[ReplayResult], page: str, tmp_path: Path
) -> None:
    german = render_page(results, "<blobs & co>", interrupted=False, words=WORDS["de"])
    path = tmp_path / "page.de.html"
    path.write_text(german)
    finding = read_finding(path)
    assert finding is not None and finding.level == "attention" and finding.language == "de"
    assert re.match(r"\w+ liegt bei \d\d,\d\u00a0% von 600 Antworten richtig", finding.sentence)
    assert '<html lang="de">' in german
    for text in ("Was jetzt zu tun ist:", "<h2>Lernkurve</h2>", "<h2>Wahrscheinlichkeiten</h2>", "das Häufigste"):
        assert text in german
    shown, english = read_numbers(german), read_numbers(page)
    assert shown == english and len(shown) > 100
    tables = re.sub(r"<style>.*?</style>|<svg.*?</svg>|<[^>]+>", " ", german, flags=re.DOTALL)
    assert not re.search(r"\b(the|answers|accuracy|examples|class)\b", tables)


def read_numbers(page: str) -> list[float]:
    """The numbers in the cells of the tables, whatever the language."""
    cells = re.findall(r"<td[^>]*>([-+\d.,]+)\s?%?<", page)
    decimal = "," if '<html lang="de">' in page else "."
    thousands = "." if decimal == "," else ","
    return [float(cell.replace(thousands, "").replace(decimal, ".")) for cell in cells if cell != "–"]


def test_each_figure_is_explained_by_a_button_without_a_script_and_in_the_glossary(page: str) -> None:
    buttons = re.findall(
        r'popovertarget="(help-\d+)" aria-label="What does (.+?) mean\?" aria-describedby="(.+?)"', page
    )
    assert len(buttons) > 15 and all(target == described for target, _, described in buttons)
    assert len({target for target, _, _ in buttons}) == len(buttons)
    entries = set(re.findall("<dt>(.*?)</dt><dd>", page[page.index('id="glossary"') :]))
    assert {word for _, word, _ in buttons} <= entries
    heads = re.findall("<thead>.*?</thead>", page[page.index("<h2>Overall") : page.index("<h2>Confusion")])
    assert all("popovertarget" in head for head in re.findall('<th scope="col">.*?</th>', heads[0])[1:])


def test_every_column_of_the_tables_has_its_word_in_the_glossary() -> None:
    columns = (*CLASS_COLUMNS, *PROBABILITY_COLUMNS, *TASK_COLUMNS, *NUMBER_COLUMNS)
    for words in ALL_WORDS:
        assert {key for key, _ in columns} | {*BASELINES} <= GLOSSARIES[words.language].keys()
        assert all(words(f"column.{key}") for key, _ in columns) and all(words(f"row.{name}") for name in BASELINES)


def test_plots_have_only_colours_that_follow_the_scheme(page: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert "var(--ink)" in svg and not re.findall(r"(?:fill|stroke): ?#\w+", svg)


def test_hostile_names_of_classes_are_text_in_the_matrix(tmp_path: Path) -> None:
    names = ['<script>alert("1")</script>', "a' onmouseover='x", '"><img src=x>']
    log = tmp_path / "log.jsonl"
    lines = [{"input": [n % 3, n % 5], "label": names[(n + n // 7) % 3]} for n in range(200)]
    log.write_text("\n".join(map(json.dumps, lines)))
    results, _ = replay_all(open_source(str(log)), [KNN], ScoredSpan(), 0.0, ignore_progress)
    page = render_page(results, "log", False)
    assert "<script" not in page and "<img" not in page and "' onmouseover" not in page
    assert page.count("&lt;script&gt;") > 3 and '<table class="matrix">' in page
    report = results[0].report
    assert report is not None and report.details.confusion is not None
    total = sum(map(sum, report.details.confusion.rows))
    cells = re.findall(r'<td class="(?:right|wrong|plain|zero)" style="--share: \d+"[^>]*>([\d,]+)', page)
    assert sum(int(cell.replace(",", "")) for cell in cells) == total == 200


@pytest.mark.parametrize("words", ALL_WORDS, ids=lambda words: words.language)
def test_figures_of_answers_that_are_right_by_construction_are_left_out(words: LanguageWords) -> None:
    liked = score_answers_of(ClassScore(), [("abc"[n % 3], "abc"[n % 3]) for n in range(160)], "reward")
    report = ReplayReport(
        "chat", "knn", 160, 160, 160, None, liked.figures(), 1.0, "", [], 0, liked.details(), leads=liked.leads()
    )  # fmt: skip
    page = render_page([ReplayResult(CandidateSpec("knn", name="chat"), report, None, None)], "log", False, words=words)
    body = page[page.index("<main>") : page.index('id="glossary"')]
    heads = re.findall("<h2>(.*?)</h2>", body)
    for key in ("table.probabilities", "plot.calibration"):
        assert words(key) not in heads
    for key in ("confusion", "table.classes"):
        assert words(key, name="chat") not in heads
    (row,) = re.findall(r'<tr><th scope="row">chat</th>(.*?)</tr>', body)
    assert re.findall("<td>(.*?)</td>", row)[-2:] == ["–", "–"]  # both kappas
    assert words("by_construction") in body
    compared = score_answers_of(ClassScore(), [("abc"[n % 3], "abc"[n % 3]) for n in range(160)], "label")
    others = replace(report, figures=compared.figures(), details=compared.details(), leads=compared.leads())
    page = render_page([ReplayResult(CandidateSpec("knn", name="chat"), others, None, None)], "log", False, words=words)
    assert f"<h2>{words('confusion', name='chat')}</h2>" in page and words("by_construction") not in page


@pytest.mark.parametrize("words", ALL_WORDS, ids=lambda words: words.language)
def test_a_log_of_ratings_and_fewer_labels_leaves_out_what_is_right_by_construction(words: LanguageWords) -> None:
    """Thumbs down are missing from the known right answers, so a kappa of those would stand far above the accuracy."""
    score = ClassScore()
    score_answers(score, [("abc"[n % 3], "abc"[n % 3]) for n in range(160)], "reward")
    score_answers(score, answer(100, 0.9), "label")
    figures = {**score.figures(), "judged": 300}  # 40 had a thumb down
    report = ReplayReport(
        "chat", "knn", 300, 300, 300, None, figures, 1.0, "", [], 0, score.details(), leads=score.leads()
    )  # fmt: skip
    results = [ReplayResult(CandidateSpec("knn", name="chat"), report, None, None)]
    page = render_page(results, "log", False, words=words)
    overall = page[(start := page.index(f"<h2>{words('table.overall')}")) : page.index("</table>", start)]
    assert overall.index(words("by_construction")) < overall.index("<thead>")  # before the first figure
    assert re.findall("<td>(.*?)</td>", re.findall(r'row">chat</th>(.*?)</tr>', overall)[0])[-2:] == ["–", "–"]
    assert words("confusion", name="chat") not in page and words("not_comparable") in page


def decline() -> ReplayReport:
    """A service whose answers decline slowly after 50 labels, with the alarm that was raised, and a learner beside it."""
    rights = random.Random(2)
    score = ClassScore()
    for offset in range(1, 1_051):
        share = 0.96 if offset <= 650 else 0.96 - 0.26 * (offset - 650) / 400
        right = rights.choice("ab")
        given = right if rights.random() < share else "ab".replace(right, "")
        judged, served = JudgedOutcomes(), Answer(given, ()) if offset > 50 else None
        judged.append(Event("", "label", label=right), PendingOutcome(Answer(given, ()), 1, {}, served=served), offset)
        score.add_all(judged)
    alarms = [Alarm(850, "loss", None, None, 627, 0.0382, 0.156, 0.1178, 223)]
    return ReplayReport("slow", "knn", 1_050, 1_050, 1_050, 1_000, score.figures(), 1.0, "", alarms, 0, score.details())


@pytest.mark.parametrize("words", ALL_WORDS, ids=lambda words: words.language)
def test_a_fall_and_its_alarm_have_one_begin_and_the_figure_of_now_is_that_of_the_answers_since(
    words: LanguageWords,
) -> None:
    report = decline()
    results = [ReplayResult(CandidateSpec("knn", name="slow"), report, None, None)]
    found = find_past_fall(report.details.curve)
    assert found is not None and 650 < found.fall.since < 850  # the alarm saw it begin earlier
    verdict = conclude(results, words=words)
    assert (
        all("627" in text for text in (verdict.headline, verdict.next))
        and str(found.fall.since) not in verdict.headline
    )
    assert words("next.served_answer", answer=577) in verdict.next
    page = render_page(results, "log", False, words=words)
    table = page[page.index(f"<h2>{words('table.alarms')}") :]
    cells = re.findall("<td>(.*?)</td>", table[: table.index("</table>")])
    change = f"{words.number(0.0382, '.0%')} → {words.number(0.156, '.0%')}"
    assert cells == ["850", "627", words("alarm.wrong"), words("alarm.in.loss"), change]
    now = next(each for each in build_key_figures([report], words) if each.note == words("key.windowed_note"))
    assert (
        now.value == words.number(found.now.mean, ".1%")
        and words.number(100 * found.fall.after.mean, ".1f") in verdict.headline
    )
    assert now.basis == words("basis.newest", count=found.now.count) and found.now.count < 1_000


def test_a_fall_of_what_was_served_begins_where_the_learning_page_has_it_though_labels_came_in_between() -> None:
    """The detectors observe only answers that were served. Labels that came with their input are no such answers."""
    score = ClassScore()
    for offset in range(1, 3_201):
        is_wrong, is_served = 1_099 <= offset <= 1_100 or offset > 3_100, offset <= 1_100 or offset > 3_100
        given = Answer("b" if is_wrong else "a", ())
        judged, served = JudgedOutcomes(), given if is_served else None
        judged.append(Event("", "label", label="a"), PendingOutcome(given, 1, {}, served=served), offset)
        score.add_all(judged)
    alarms = [Alarm(3_110, "loss", None, None, 1_099, 0.05, 0.92, 0.87, 12)]
    report = ReplayReport(
        "vec", "knn", 3_200, 3_200, 3_200, 1_200, score.figures(), 1.0, "", alarms, 0, score.details()
    )
    verdict = conclude([ReplayResult(CandidateSpec("knn", name="vec"), report, None, None)])
    assert "beginning at event 1,099." in verdict.headline and list_begins(report) == [1_099]


def test_an_alarm_of_another_change_keeps_its_begin_and_is_not_promised_to_explain_the_fall() -> None:
    report = replace(decline(), drift=[Alarm(90, "class", "a", None, 70, 0.1, 0.6, 0.5, 20)])
    verdict = conclude([ReplayResult(CandidateSpec("knn", name="slow"), report, None, None)])
    assert "below are of other changes" in verdict.next and list_begins(report) == [70]


def test_a_logistic_model_that_was_chosen_has_no_second_row_as_a_baseline(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"input": [n % 9, n % 4], "label": "ab"[n % 9 > 3]}) for n in range(60)))
    chosen = [CandidateSpec(kind, name=kind, baseline=True) for kind in ("knn", "logistic")]
    for candidates, is_beside in ((chosen, False), (chosen[:1], True)):
        found, _ = replay_all(open_source(str(log)), candidates, ScoredSpan(), 0.0, ignore_progress)
        page = render_page(found, "log", False)
        assert ("logistic baseline" in page) == is_beside


def score_answers_of(score: ClassScore, answers: Answers, kind: EventKind) -> ClassScore:
    score_answers(score, answers, kind)
    return score


def test_a_report_on_numbers_shows_errors_and_predictions_instead_of_classes(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        "\n".join(json.dumps({"input": [n % 9, n % 4], "label": n % 9 + n % 4 / 2 + 0.1}) for n in range(300))
    )
    regressor = CandidateSpec("regressor", every=10)
    results, _ = replay_all(open_source(str(log)), [regressor], ScoredSpan(), 0.0, ignore_progress)
    page = render_page(results, "log", False)
    for title in ("Predicted against true (regressor)", "Errors (regressor)"):
        assert f"<h2>{title}</h2>" in page
    assert "regressor is off by" in page and "Confusion" not in page and page.count("<svg") == 6


@pytest.mark.parametrize(("known", "is_shown"), [(500, True), (200, False)])
def test_figures_of_the_known_answers_alone_say_so_or_are_left_out(
    results: list[ReplayResult], known: int, is_shown: bool
) -> None:
    """With thumbs down alone the right class is not known: those that are known look too good."""
    judged = [result for result in results if result.report is not None]
    changed = list[ReplayResult]()
    for result in judged:
        assert result.report is not None
        figures = {**result.report.figures, "judged": int(600 * 600 / known)}
        changed.append(replace(result, report=replace(result.report, figures=figures)))
    page = render_page(changed, "log", False)
    found = re.findall(r"<h2>(Confusion matrix[^<]*)</h2>", page)
    assert bool(found) == is_shown == bool(re.search(r"<h2>Classes", page))
    assert is_shown == ("of 600 of the 720 judged answers, without wrong ones with only a thumb down" in page)
    caveat = page.index("so these figures look better than the model is")
    assert page.count("so these figures look better") == 1 and page.index("<h2>Overall") < caveat < page.index("kappa<")


def test_each_figure_at_the_top_and_each_section_of_figures_says_which_answers_it_is_of(
    results: list[ReplayResult],
) -> None:
    """The accuracy is of all judged answers, the kappa beside it of those alone of which the right one is known."""
    changed = list[ReplayResult]()
    for result in results:
        if result.report is None:
            continue
        figures = {**result.report.figures, "judged": 720}
        changed.append(replace(result, report=replace(result.report, figures=figures)))
    page = render_page(changed, "log", False)
    boxes = re.findall(r"<div><dt>.*?</div>", page[page.index("<dl") : page.index("</dl>")], re.DOTALL)
    shares = [box for box in boxes if re.search(r'class="value">[\d.]+\s%', box)]
    assert len(shares) == 2 and all(re.search(r'<dd class="basis">of \d+ (of the 720 )?judged', box) for box in shares)
    assert re.search(
        r"of 600 of the 720 judged answers, without most with a thumb down; \w+ has \d\d\.\d\s% there", shares[1]
    )
    overall = page[(start := page.index("<h2>Overall")) : page.index("</table>", start)]
    assert re.search(r"<td>720</td><td>[\d.]+\s%</td>", overall)  # the accuracy is of so many
    assert re.search(r"<td>0\.\d+<small>of 600</small></td>", overall)  # the kappa
    assert re.search(r"majority<span.*?</th><td>600</td><td>[\d.]+\s%", overall, re.DOTALL)
    for title in ("Confusion matrix", "Classes", "Calibration"):
        head = page[(start := page.index(f"<h2>{title}")) : page.index("<div class=", page.index("</h2>", start))]
        assert re.search(
            r'<p class="basis">of (600|59\d) of the 720 judged answers, without wrong ones with only a thumb down</p>',
            head,
        ), title


def test_the_page_holds_the_font_of_the_other_pages(page: str) -> None:
    (font,) = re.findall(r"url\(\"data:font/woff2;base64,([\w+/=]+)\"\)", page)
    content = base64.b64decode(font)
    assert content[:4] == b"wOF2" and len(content) < 30_000
    shipped = ROOT / "frontend/node_modules/@fontsource-variable/figtree/files/figtree-latin-wght-normal.woff2"
    if not shipped.exists():
        skip_or_fail("the page's packages are not installed: make page")
    assert content == shipped.read_bytes()


@pytest.mark.parametrize(
    ("seconds", "english", "german"),
    [
        (0.0824, "82.4 ms", "82,4 ms"),
        (0.9999, "1 s", "1 s"),
        (8.23, "8.2 s", "8,2 s"),
        (59.8, "1 min", "1 min"),
        (200.4, "3 min 20 s", "3 min 20 s"),
        (3_599.7, "1 h", "1 h"),
        (8_123, "2 h 15 min", "2 h 15 min"),
        (90_000, "1 d 1 h", "1 d 1 h"),
        (1e8, "1,157 d 10 h", "1.157 d 10 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, english: str, german: str) -> None:
    assert [words.duration(seconds).replace("\u00a0", " ") for words in ALL_WORDS] == [english, german]


def test_a_number_and_its_percent_sign_stay_in_one_line(page: str) -> None:
    shown = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert not re.search(r"\d ?%", re.sub(r"style=\"[^\"]*\"", "", shown))


def test_the_command_prints_the_verdict_at_its_end(tmp_path: Path) -> None:
    log = str(write_blobs(tmp_path, 200))
    text = " ".join(run_online("replay", log, "--model", "knn").stdout.split())
    assert re.search(r"state \w+ 0 drift alarms .*knn is right in \d\d\.\d % of 200 answers .*\. \S.*\.$", text)
    process = run_online("replay", log, "--model", "knn", "--json")
    (verdict,) = json.loads(process.stdout)["verdicts"]
    assert verdict["log"] == log and verdict["level"] in ("good", "attention") and verdict["next"]


@pytest.mark.long
def test_the_log_of_a_service_shows_its_versions_feedback_and_freshness(driven: Driven, tmp_path: Path) -> None:
    log, _ = driven["vec"]
    process = run_online(
        "replay", str(log), "--model", "classifier", "--report", str(tmp_path / "report.html"), "--json"
    )
    assert process.returncode == 0, process.stderr
    text = (tmp_path / "report.html").read_text()
    for title in ("Learning curve", "Versions", "Feedback", "Freshness"):
        assert f"<h2>{title}</h2>" in text
    assert "<h2>Calibration</h2>" not in text and IN_ENGLISH("by_construction") in text  # its feedback is mostly thumbs
    result = json.loads(process.stdout)["results"][0]
    assert f"{result['asked']:,} of {result['asked']:,} answers as they were served" in text


def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    process = run_online("replay", "river:Phishing", "--model", "knn", "--report", str(tmp_path / "no" / "r.html"))
    assert process.returncode == 2 and "the report cannot be written" in process.stderr


def test_wilsons_interval_has_its_known_values() -> None:
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson_interval(0, 5)[0] == 0 and wilson_interval(5, 5)[1] == 1
