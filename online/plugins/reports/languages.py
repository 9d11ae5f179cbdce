"""The languages of reports, and the words of each."""

from collections.abc import Mapping

from online.evaluation.words import IN_ENGLISH, LanguageWords
from online.plugins.reports.german import GERMAN
from online.schemas.fields import Language

ALL_WORDS = (IN_ENGLISH, LanguageWords("de", GERMAN))
WORDS: Mapping[Language, LanguageWords] = {words.language: words for words in ALL_WORDS}
