"""Another language than English is recognised by its words."""

import pytest

from online.models.ranker.other_languages import is_other_language


@pytest.mark.parametrize(
    "text",
    [
        "Wann macht ihr morgen auf?",
        "Je cherche un livre pour mon fils",
        "¿Puedo devolver el libro mañana?",
        "Quanto costa la tessera?",
        "Gdzie mogę oddać książki?",
        "Var kan jag skriva ut ett papper?",
        "Где находится библиотека?",
        "開館時間は何時ですか",
        "merci",
        "привет",
    ],
)
def test_another_language_is_recognised(text: str) -> None:
    assert is_other_language(text)


@pytest.mark.parametrize(
    "text",
    [
        "When do you open?",
        "wat tiem are the storys for todlers",
        "van timetable",
        "Is there a café with crème brûlée near the library?",
        "teach yourself French book with audio",
        "libary",
        "hiya",
        "👍",
        "",
    ],
)
def test_english_is_not_another_language(text: str) -> None:
    assert not is_other_language(text)
