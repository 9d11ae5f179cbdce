"""The languages of reports: the words of each, and its explanations of terms."""

from collections.abc import Mapping

from online.evaluation.words import IN_ENGLISH, LanguageWords
from online.plugins.reports.english_glossary import ENGLISH_GLOSSARY
from online.plugins.reports.german import GERMAN
from online.plugins.reports.german_glossary import GERMAN_GLOSSARY
from online.schemas.fields import Language

ALL_WORDS = (IN_ENGLISH, LanguageWords("de", GERMAN))
WORDS: Mapping[Language, LanguageWords] = {words.language: words for words in ALL_WORDS}
GLOSSARIES: Mapping[Language, Mapping[str, tuple[str, str]]] = {  # term: (word, explanation)
    "en": ENGLISH_GLOSSARY,
    "de": GERMAN_GLOSSARY,
}
