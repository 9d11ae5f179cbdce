"""The colors that the pages derive from one configured color, such that texts can be read in light and in dark mode.

page_color --mixed with black until 4.5:1--> accent of light mode
           --mixed with white until 4.5:1--> accent of dark mode
"""

from dataclasses import dataclass

Rgb = tuple[float, float, float]  # sRGB, each from 0 to 1

MIN_CONTRAST = 4.5  # WCAG 2.2, level AA, of texts
STEPS = 100
BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class ModeColors:
    """What an accent stands beside in one mode. The stylesheet has the same colors.

    ink: the text on the accent. soft: the largest share of the accent in its own soft background.
    """

    backgrounds: tuple[str, ...]
    ink: str
    soft: float


LIGHT = ModeColors(backgrounds=("#ffffff", "#f6f7f5"), ink="#ffffff", soft=0.16)
DARK = ModeColors(backgrounds=("#18201c", "#101513"), ink="#0b1f18", soft=0.22)


def derive_accent(color: str, surfaces: ModeColors) -> str:
    """The nearest mixture of the color with black or white that can be read on every surface of the mode."""
    toward = BLACK if luminance(parse(surfaces.ink)) > 0.5 else WHITE
    mixtures = (mix(parse(color), toward, step / STEPS) for step in range(STEPS + 1))
    return write(next(each for each in mixtures if is_readable(each, surfaces)))


def is_readable(accent: Rgb, surfaces: ModeColors) -> bool:
    """Whether the accent, as it is written, has enough contrast with all that it stands beside."""
    rounded = parse(write(accent))
    backgrounds = [parse(each) for each in surfaces.backgrounds]
    soft = [mix(each, accent, surfaces.soft) for each in backgrounds]
    return all(contrast(rounded, each) >= MIN_CONTRAST for each in (*backgrounds, *soft, parse(surfaces.ink)))


def contrast(one: Rgb, other: Rgb) -> float:
    """The contrast ratio of WCAG, from 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: Rgb) -> float:
    """The relative luminance of WCAG."""
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
    return "#" + "".join(f"{round(255 * each):02x}" for each in color)
