"""The verdict on a replay in the words of a language: sentences for the page, the terminal and the JSON of the results."""

from collections.abc import Sequence
from dataclasses import dataclass

from online.evaluation.caveats import Remark
from online.evaluation.replay.replay_report import ReplayResult
from online.evaluation.verdict import Level, ReplayVerdict, judge_results
from online.evaluation.words import IN_ENGLISH, LanguageWords


@dataclass(frozen=True, slots=True)
class VerdictText:
    """The verdict on a replay in words, as in `ReplayVerdict`. headline: the sentence to read first, the most urgent warning or the sentence."""

    level: Level
    sentence: str
    warnings: list[str]
    next: str
    failures: list[str]

    @property
    def headline(self) -> str:
        """The most urgent sentence."""
        return self.warnings[0] if self.warnings else self.sentence

    @property
    def rest(self) -> list[str]:
        """What follows the headline."""
        return [each for each in (*self.warnings, self.sentence, *self.failures) if each != self.headline]


def conclude(
    results: Sequence[ReplayResult],
    interrupted: bool = False,
    words: LanguageWords = IN_ENGLISH,
    names_options: bool = True,
) -> VerdictText:
    """Conclude from a replay. names_options: whether the advice may name options of the command line."""
    found = judge_results(results, interrupted, names_options)
    warnings, next = ([say_all(remark, words) for remark in each] for each in (found.warnings, found.next))
    failures = [words.say(reason) for reason in found.failures]
    return VerdictText(found.level, word_result(found, words), warnings, " ".join(next), failures)


def word_result(found: ReplayVerdict, words: LanguageWords) -> str:
    """Return how good the best model is, and how it compares, as one sentence."""
    said = words.say(found.figure)
    if found.rival is not None:
        said += f"{'; ' if found.figure.code == 'is_off' else ', '}{words.say(found.rival)}"
    return f"{said}; {words.say(found.guesser)}." if found.guesser is not None else f"{said}."


def say_all(remark: Remark, words: LanguageWords) -> str:
    """Return the sentences of a remark."""
    return " ".join(map(words.say, remark))
