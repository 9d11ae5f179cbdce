"""The branding of the pages: its defaults, its validation, its colors and its logo."""

import itertools
import json
import re
from pathlib import Path

import pytest

from online.api.web.branding import (
    DARK,
    LIGHT,
    MAX_LOGO_BYTES,
    PNG,
    Branding,
    ModeColors,
    contrast,
    derive_accent,
    load_branding,
    parse,
)
from online.api.web.rendered_files import settings_block, shorten
from online.errors import SetupError
from online.settings import ModelSettings, Settings, load

VEC = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2})
SVG = b'<?xml version="1.0"?><!-- a mark --><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def branding_of(**settings: object) -> Branding:
    return load_branding(Settings.model_validate(settings))


def test_the_starter_says_whose_library_it_is() -> None:
    branding = branding_of()
    assert (branding.name, branding.greeting) == ("Harbour Street Library", "Hello! How can I help?")
    assert "example library" in branding.intro and len(branding.suggestions) == 3


def test_every_question_that_the_starter_suggests_is_an_example_of_a_reply() -> None:
    """So that a stranger's thumb does not decide what it gets."""
    lines = (Path(__file__).parents[3] / "data" / "repertoire.jsonl").read_text().splitlines()
    examples = {example for line in lines for example in json.loads(line)["examples"]}
    assert set(branding_of().suggestions) <= examples


@pytest.mark.parametrize("settings", [{"repertoire": "mine.jsonl"}, {"models": [VEC]}])
def test_a_service_with_replies_of_its_own_is_neutral(settings: dict[str, object]) -> None:
    branding = branding_of(**settings)
    assert (branding.name, branding.greeting, branding.intro, branding.suggestions) == ("online", "", "", ())


def test_what_is_configured_replaces_the_defaults_also_by_nothing() -> None:
    branding = branding_of(page_name=" Bot ", page_greeting="Ahoy!", page_intro="", page_suggestions=[" Why? "])
    assert (branding.name, branding.greeting, branding.intro) == ("Bot", "Ahoy!", "")
    assert branding.suggestions == ("Why?",)
    assert branding_of(page_suggestions=[]).suggestions == ()


def test_the_texts_of_the_chat_page_are_configured_for_each_language(tmp_path: Path) -> None:
    (tmp_path / "online.toml").write_text(
        'page_greeting = "Welcome!"\npage_language = "en"\n[page_translations.de]\ngreeting = "Willkommen!"\n'
        'suggestions = ["Was kostet der Eintritt?"]\n[[models]]\nname = "vec"\nkind = "classifier"\n'
        'options = { input = "vector", size = 2 }'
    )
    described = load_branding(load(tmp_path / "online.toml")).describe()
    assert described["greeting"] == "Welcome!" and described["language"] == "en"
    german = {"greeting": "Willkommen!", "suggestions": ("Was kostet der Eintritt?",)}
    assert described["translations"] == {"de": german}


def test_the_starter_greets_in_german_and_says_that_it_speaks_english() -> None:
    starter = branding_of().describe()
    assert starter["language"] == "en" and starter["translations"]["de"].keys() == {"greeting", "intro"}
    assert "die Englisch spricht" in starter["translations"]["de"]["intro"]
    reviewed = branding_of(public_teaching="review").describe()["translations"]["de"]
    assert "prüft zuerst ein Mensch" in reviewed["intro"]
    named = branding_of(page_greeting="Ahoy!", page_translations={"de": {"suggestions": []}}).describe()
    assert named["translations"]["de"].keys() == {"intro", "suggestions"}  # the greeting is not the starter's
    assert named["language"] is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f'page_name = "{41 * "x"}"', "page_name: .* at most 40 characters"),
        ('page_name = ""', "page_name: .* at least 1 character"),
        ('page_name = "two\\nlines"', "page_name: "),
        (f'page_greeting = "{201 * "x"}"', "page_greeting: .* at most 200 characters"),
        (f'page_intro = "{301 * "x"}"', "page_intro: .* at most 300 characters"),
        ('page_color = "green"', "page_color: 'green' .*such as #1b6f5a"),
        ('page_color = "#1b6"', "page_color: '#1b6' "),
        (f'page_suggestions = ["{121 * "x"}"]', "page_suggestions.0: .* at most 120 characters"),
        ("[page_translations.fr]", "page_translations.fr"),
        ('page_language = "fr"', "page_language: 'fr' "),
        ('[page_translations.de]\nintroduction = "x"', "page_translations.de: unknown setting 'introduction'.*"),
        (
            f'[page_translations.de]\ngreeting = "{201 * "x"}"',
            "page_translations.de.greeting: .* at most 200 characters",
        ),
        ('page_suggestions = ["a", "b", "c", "d", "e", "f", "g"]', "page_suggestions: .* at most 6 items"),
    ],
)
def test_an_invalid_setting_is_refused_with_its_name_and_its_limit(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "online.toml").write_text(line)
    with pytest.raises(ValueError, match=words):
        load(tmp_path / "online.toml")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "logo.svg cannot be read: No such file"),
        (b"GIF89a", "neither a PNG nor an SVG"),
        (b"<html></html>", "neither a PNG nor an SVG"),
        (SVG + b" " * MAX_LOGO_BYTES, r"has 200,\d+ bytes; use a file of at most 200,000 bytes"),
    ],
)
def test_a_logo_that_cannot_be_served_is_refused_at_the_start(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "logo.svg"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SetupError, match=f"page_logo: .*{words}"):
        branding_of(page_logo=path)


def test_the_type_of_a_logo_follows_from_its_content(tmp_path: Path) -> None:
    path = tmp_path / "logo.bin"
    path.write_bytes(SVG)
    assert (logo := branding_of(page_logo=path).logo) and (logo.media_type, logo.width) == ("image/svg+xml", None)
    path.write_bytes(PNG + bytes(8) + (192).to_bytes(4, "big") + bytes(9))
    assert (logo := branding_of(page_logo=path).logo) and (logo.media_type, logo.width) == ("image/png", 192)


@pytest.mark.parametrize("surfaces", [LIGHT, DARK])
def test_every_color_becomes_an_accent_that_can_be_read(surfaces: ModeColors) -> None:
    for red, green, blue in itertools.product(range(0, 256, 51), repeat=3):
        accent = derive_accent(f"#{red:02x}{green:02x}{blue:02x}", surfaces)
        for other in (*surfaces.backgrounds, surfaces.ink):
            assert contrast(parse(accent), parse(other)) >= 4.5


def test_a_color_that_can_be_read_already_stays_as_it_is() -> None:
    assert derive_accent("#0000aa", LIGHT) == "#0000aa" and derive_accent("#ffcc00", DARK) == "#ffcc00"


def test_the_contrast_is_that_of_wcag() -> None:
    assert contrast(parse("#000000"), parse("#ffffff")) == pytest.approx(21)
    assert contrast(parse("#777777"), parse("#ffffff")) == pytest.approx(4.48, abs=0.01)


def test_the_stylesheet_has_the_colors_that_accents_are_checked_against() -> None:
    sheet = (Path(__file__).parents[3] / "frontend" / "src" / "app.css").read_text()
    for name, at in (("--surface", 0), ("--background", 1)):
        light, dark = re.findall(rf"{name}: light-dark\((#\w+), (#\w+)\)", sheet)[0]
        assert (light, dark) == (LIGHT.backgrounds[at], DARK.backgrounds[at])
    assert re.findall(r"--on-accent-(?:light|dark): (#\w+)", sheet) == [LIGHT.ink, DARK.ink]


def test_the_block_of_the_page_cannot_be_ended_by_a_text() -> None:
    name = "</script><!--&x"
    block = settings_block(branding_of(page_name=name, page_color="#FFCC00"))
    assert block.count("<") == 2 and "&" not in block
    content = json.loads(block.partition(">")[2].removesuffix("</script>"))
    assert content["name"] == name and content["color"] == "#ffcc00" and content["accent_light"] == "#786000"
    assert set(content) == {
        *("name", "logo", "greeting", "intro", "suggestions", "language", "translations", "color"),
        *("accent_light", "accent_dark", "on_accent_light", "on_accent_dark"),
    }


def test_a_change_of_anything_changes_the_hash(tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_bytes(SVG)
    changes: tuple[dict[str, object], ...] = (
        {},
        {"page_name": "Bot"},
        {"page_color": "#123456"},
        {"page_logo": tmp_path / "logo.svg"},
    )
    assert len({branding_of(**each).hash() for each in changes}) == 4


@pytest.mark.parametrize(
    ("name", "short"),
    [("Bot", "Bot"), ("Harbour Street Library", "Harbour"), ("Donaudampfschifffahrt", "Donaudampfsc")],
)
def test_a_home_screen_shows_the_first_words_of_a_name(name: str, short: str) -> None:
    assert shorten(name) == short
