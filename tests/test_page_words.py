"""The page has words, in each of its languages, for every code that the service sends: why a log is refused, what a verdict rests on."""

import re
from pathlib import Path
from typing import get_args

from online.evaluation.sources.bad_lines import LINE_PROBLEMS
from online.plugins.monitoring.verdict_words import SENTENCES
from online.schemas.fields import CauseCode

ROOT = Path(__file__).parent.parent
FRONTEND = ROOT / "frontend" / "src" / "lib"


def find_causes() -> set[str]:
    """The codes with which the code refuses logs."""
    sources = (path.read_text() for path in (ROOT / "online").rglob("*.py"))
    return {code for source in sources for code in re.findall(r"""because\(\s*"([a-z_]+)\"""", source)}


def test_each_problem_of_a_line_has_words() -> None:
    missing = []
    for language in ("en", "de"):
        words = (FRONTEND / "messages" / language / "reports.ts").read_text()
        refused = words.partition("  refused: {")[2].partition("    lineTooLong:")[0]
        missing += [(language, problem) for problem in LINE_PROBLEMS if f"      {problem}:" not in refused]
    assert missing == []


def test_each_code_is_declared_and_has_words() -> None:
    causes, worded = find_causes(), (FRONTEND / "ui" / "causes.ts").read_text()
    assert len(causes) > 10
    assert causes - {*get_args(CauseCode)} == set()
    assert [code for code in get_args(CauseCode) if f"case '{code}':" not in worded] == []


def test_each_reason_of_a_verdict_has_words_on_the_page_and_in_the_api() -> None:
    judged = (ROOT / "online" / "scoring" / "verdict.py").read_text()
    pairs = re.findall(r'Reason\("([a-z_]+)"(?: if [a-z_.]+ else "([a-z_]+)")?', judged)
    codes = {code for pair in pairs for code in pair if code}
    assert len(codes) > 20 and codes == {*SENTENCES}
    worded = (FRONTEND / "learning" / "verdict.ts").read_text()
    assert [code for code in codes if f"case '{code}':" not in worded] == []
