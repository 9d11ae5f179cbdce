"""A question in another language gets no reply, unless one was taught or is written in that language."""

from dataclasses import replace

from online.models import Answer, Candidate
from online.models.ranker.other_languages import find_other_languages, withhold_untaught

GERMAN, ENGLISH = "Wann macht ihr morgen auf?", "When do you open?"
LIKELY = Answer("hours", (Candidate("hours", 0.7, "We open at nine."),), 0.7)
TAUGHT = replace(LIKELY, candidates=(Candidate("hours", 0.95, "We open at nine."),), score=0.95)
IN_GERMAN = replace(LIKELY, candidates=(Candidate("hours", 0.7, "Wir öffnen um neun Uhr."),))


def test_only_a_model_that_chats_in_a_language_looks_for_others() -> None:
    assert find_other_languages("ranker", {}, [GERMAN, ENGLISH, {"text": GERMAN}, 5]) == [True, False, True, False]
    assert find_other_languages("ranker", {"language": "any"}, [GERMAN]) == []
    assert find_other_languages("classifier", {}, [GERMAN]) == []


def test_a_question_in_another_language_gets_no_reply() -> None:
    german, english = withhold_untaught([LIKELY, LIKELY], [True, False])
    assert german == Answer(None, (), abstained=True)
    assert english == LIKELY


def test_a_reply_that_was_taught_for_it_is_given() -> None:
    assert withhold_untaught([TAUGHT], [True]) == [TAUGHT]


def test_a_reply_in_another_language_is_given() -> None:
    assert withhold_untaught([IN_GERMAN], [True]) == [IN_GERMAN]


def test_an_abstention_stays_one() -> None:
    nothing = Answer(None, (), abstained=True)
    assert withhold_untaught([nothing], [True]) == [nothing]
