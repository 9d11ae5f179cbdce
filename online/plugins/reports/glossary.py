"""Explains the words of a report: beside each figure, and together at its end."""

from dataclasses import dataclass, field

from online.evaluation.words import LanguageWords
from online.plugins.reports.languages import GLOSSARIES


@dataclass(slots=True)
class ReportGlossary:
    """The terms that a page explains, in the order of their first use. count: buttons on the page, whose ids are unique."""

    words: LanguageWords
    used: dict[str, None] = field(default_factory=dict)
    count: int = 0

    def use(self, term: str) -> tuple[str, str, str]:
        """Return an id for the button, the word and its explanation."""
        self.used[term] = None
        self.count += 1
        return f"help-{self.count}", *GLOSSARIES[self.words.language][term]

    def entries(self) -> list[tuple[str, str]]:
        """Return the terms that the report has used, with their explanations, sorted."""
        return sorted((GLOSSARIES[self.words.language][term] for term in self.used), key=lambda entry: entry[0].lower())
