"""The branding of the pages: whose service this is, from the settings `page_*`.

settings --load_branding--> Branding --> <script type="application/json" id="page-settings"> in index.html
                                     --> manifest.webmanifest, and the pages that the server renders
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from online.errors import SetupError
from online.models import spec_of
from online.schemas.fields import Language
from online.schemas.json_values import JSONObject
from online.settings import PageTexts, Settings

LOGO_PATH = "page-logo"
MAX_LOGO_BYTES = 200_000
PNG = b"\x89PNG\r\n\x1a\n"
SVG = re.compile(rb"<svg[\s>]")
SVG_BEGIN_BYTES = 4_096  # within which the root element of an SVG is expected, after comments
SHIPPED_COLOR = "#1b6f5a"  # of the shipped icons

# what is shown with data/repertoire.jsonl
STARTER_NAME = "Harbour Street Library"
STARTER_GREETING = "Hello! How can I help?"
STARTER_INTRO = "This is an example library. Rate a reply or correct it, and the answers change within moments."
REVIEWED_INTRO = (
    "This is an example library. Ratings change the answers within moments; new replies are checked by a person first."
)
STARTER_LANGUAGE: Language = "en"
STARTER_GERMAN = PageTexts(  # its questions stay in English, which is the language that it understands
    greeting="Hallo! Wie kann ich helfen?",
    intro="Dies ist eine Beispielbibliothek, die Englisch spricht. Bewerten oder verbessern Sie eine Antwort, und die Antworten "
    "ändern sich sofort.",
)
REVIEWED_GERMAN_INTRO = (
    "Dies ist eine Beispielbibliothek, die Englisch spricht. Bewertungen ändern die Antworten sofort; neue Antworten prüft "
    "zuerst ein Mensch."
)
STARTER_SUGGESTIONS = ("When are you open?", "Can I print from my phone?", "Can I borrow a ukulele?")


@dataclass(frozen=True, slots=True)
class Logo:
    """The file of the configured logo. width: of a PNG, in pixels; None for an SVG, which has any size."""

    content: bytes
    media_type: str
    width: int | None


@dataclass(frozen=True, slots=True)
class Branding:
    """The branding of the pages: name, texts, colours and logo.

    greeting: empty for that of the pages, which is in the visitor's language. color: None for the shipped colors.
    language: of the greeting, the intro and the suggestions; None: not known. translations: of these.
    """

    name: str
    greeting: str
    intro: str
    color: str | None
    suggestions: tuple[str, ...]
    logo: Logo | None
    language: Language | None = None
    translations: Mapping[Language, PageTexts] = field(default_factory=dict)

    def describe(self) -> JSONObject:
        """Return the settings of the pages as they read them. Without a configured color, all colors are null."""
        own = {"name": self.name, "logo": LOGO_PATH if self.logo else None, "greeting": self.greeting}
        texts = {**own, "intro": self.intro, "color": self.color, "suggestions": self.suggestions}
        translations = {name: each.model_dump(exclude_none=True) for name, each in self.translations.items()}
        return texts | {"language": self.language, "translations": translations} | self._describe_colors()

    def _describe_colors(self) -> dict[str, str | None]:
        modes = {"light": LIGHT, "dark": DARK}
        accents = {f"accent_{name}": self.color and derive_accent(self.color, each) for name, each in modes.items()}
        return accents | {f"on_accent_{name}": self.color and each.ink for name, each in modes.items()}

    def hash(self) -> str:
        """Identifies the branding: another one has another hash."""
        return hashlib.sha256(orjson.dumps(self.describe()) + (self.logo.content if self.logo else b"")).hexdigest()[
            :16
        ]


def load_branding(settings: Settings) -> Branding:
    """Return the branding of the settings. Raises SetupError for a logo that cannot be served."""
    is_starter = serves_starter(settings)
    is_reviewed = settings.public_teaching == "review"
    intro = "" if not is_starter else REVIEWED_INTRO if is_reviewed else STARTER_INTRO
    suggestions = STARTER_SUGGESTIONS if is_starter else ()
    return Branding(
        name=(settings.page_name or "").strip() or (STARTER_NAME if is_starter else "online"),
        greeting=(settings.page_greeting or "").strip() or (STARTER_GREETING if is_starter else ""),
        intro=intro if settings.page_intro is None else settings.page_intro.strip(),
        color=settings.page_color and settings.page_color.lower(),
        suggestions=suggestions if settings.page_suggestions is None else settings.page_suggestions,
        logo=load_logo(settings.page_logo) if settings.page_logo else None,
        language=settings.page_language or (STARTER_LANGUAGE if is_starter and not has_own_texts(settings) else None),
        translations=settings.page_translations | (translate_starter(settings) if is_starter else {}),
    )


def has_own_texts(settings: Settings) -> bool:
    """Return whether the settings replace a text of the page."""
    texts = (settings.page_greeting, settings.page_intro, settings.page_suggestions)
    return any(each is not None for each in texts)


def translate_starter(settings: Settings) -> dict[Language, PageTexts]:
    """Return what the starter says in German, without what is configured: a configured text is not the starter's any more."""
    given = settings.page_translations.get("de", PageTexts())
    shipped = STARTER_GERMAN.model_dump(exclude_none=True)
    if settings.public_teaching == "review":
        shipped["intro"] = REVIEWED_GERMAN_INTRO
    kept = {name: text for name, text in shipped.items() if getattr(settings, f"page_{name}") is None}
    return {"de": PageTexts.model_validate(kept | given.model_dump(exclude_none=True))}


def serves_starter(settings: Settings) -> bool:
    """Return whether a model begins with the starter repertoire."""
    return settings.repertoire is None and any(spec_of(model.kind).has_repertoire for model in settings.models)


def load_logo(path: Path) -> Logo:
    """Return the logo with its media type. Raises SetupError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SetupError(f"page_logo: {path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_LOGO_BYTES:
        raise SetupError(
            f"page_logo: {path} has {len(content):,} bytes; use a file of at most {MAX_LOGO_BYTES:,} bytes"
        )
    if content.startswith(PNG) and len(content) > 24:
        return Logo(content, "image/png", int.from_bytes(content[16:20], "big"))
    if SVG.search(content[:SVG_BEGIN_BYTES]):
        return Logo(content, "image/svg+xml", None)
    raise SetupError(f"page_logo: {path} is neither a PNG nor an SVG file")


# The colors that the pages derive from one configured color, such that texts can be read in light and in dark mode.
#
# page_color --mixed with black until 4.5:1--> accent of light mode
#            --mixed with white until 4.5:1--> accent of dark mode

Rgb = tuple[float, float, float]  # sRGB, each from 0 to 1

MIN_CONTRAST = 4.5  # WCAG 2.2, level AA, of texts
STEPS = 100
BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class ModeColors:
    """The surroundings of an accent in one mode. The stylesheet has the same colors.

    ink: the text on the accent. soft: the largest share of the accent in its own soft background.
    """

    backgrounds: tuple[str, ...]
    ink: str
    soft: float


LIGHT = ModeColors(backgrounds=("#ffffff", "#f6f7f5"), ink="#ffffff", soft=0.16)
DARK = ModeColors(backgrounds=("#18201c", "#101513"), ink="#0b1f18", soft=0.22)


def derive_accent(color: str, surfaces: ModeColors) -> str:
    """Return the nearest mixture of the color with black or white that can be read on every surface of the mode."""
    toward = BLACK if luminance(parse(surfaces.ink)) > 0.5 else WHITE
    mixtures = (mix(parse(color), toward, step / STEPS) for step in range(STEPS + 1))
    return write(next(each for each in mixtures if is_readable(each, surfaces)))


def is_readable(accent: Rgb, surfaces: ModeColors) -> bool:
    """Return whether the accent, as it is written, has enough contrast with all that it stands beside."""
    rounded = parse(write(accent))
    backgrounds = [parse(each) for each in surfaces.backgrounds]
    soft = [mix(each, accent, surfaces.soft) for each in backgrounds]
    return all(contrast(rounded, each) >= MIN_CONTRAST for each in (*backgrounds, *soft, parse(surfaces.ink)))


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio of WCAG, from 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: Rgb) -> float:
    """Return the relative luminance of WCAG."""
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def mix(one: Rgb, other: Rgb, share: float) -> Rgb:
    """share: of the other color."""
    red, green, blue = (a + (b - a) * share for a, b in zip(one, other, strict=True))
    return red, green, blue


def parse(color: str) -> Rgb:
    """#rrggbb -> its parts."""
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def write(color: Rgb) -> str:
    """Return a colour as #rrggbb."""
    return "#" + "".join(f"{round(255 * each):02x}" for each in color)
