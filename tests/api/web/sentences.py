"""The check of the sentences of server pages: of the core, and of a plugin."""

from collections.abc import Mapping


def check_languages(
    messages: Mapping[str, Mapping[str, str]], errors: Mapping[str, Mapping[str, tuple[str, str]]]
) -> None:
    """Fail if a language lacks a sentence, or a gap in one."""
    assert messages.keys() == errors.keys()
    for language in messages:
        assert count_gaps(messages[language]) == count_gaps(messages["en"])
        assert set(errors[language]) == set(errors["en"])
        assert all(title and explanation.endswith(".") for title, explanation in errors[language].values())


def count_gaps(texts: Mapping[str, str]) -> dict[str, int]:
    return {name: text.count("{}") for name, text in texts.items()}
