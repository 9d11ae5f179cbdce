"""Draws the icons of the installed page: python frontend/icons.py. The SVG beside them, favicon.svg, is drawn by hand."""

from pathlib import Path

from PIL import Image, ImageDraw

PUBLIC = Path(__file__).parent / "public"
GREEN, WHITE = "#1b6f5a", "#ffffff"
OVERSAMPLING = 8  # icons are drawn this many times larger, for smooth edges


def bubble(draw: ImageDraw.ImageDraw, unit: float, at: float, skin: str, eyes: str) -> None:
    """Draw the speech bubble of favicon.svg. unit: a 32nd of its width. at: its left and top edge."""

    def box(left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        return at + left * unit, at + top * unit, at + right * unit, at + bottom * unit

    draw.rounded_rectangle(box(2, 4, 30, 24), 4 * unit, skin)
    draw.polygon([(at + x * unit, at + y * unit) for x, y in ((7, 23), (7, 29), (14, 24))], skin)
    for x in (11, 21):
        draw.ellipse(box(x - 2.4, 11.6, x + 2.4, 16.4), eyes)


def icon(size: int, share: float, background: str | None) -> Image.Image:
    """Return an icon. share: width of the bubble relative to the icon. background: a color; None for transparent."""
    whole = size * OVERSAMPLING
    image = Image.new("RGBA", (whole, whole), background or (255, 255, 255, 0))
    skin, eyes = (WHITE, GREEN) if background else (GREEN, WHITE)
    bubble(ImageDraw.Draw(image), share * whole / 32, (1 - share) / 2 * whole, skin, eyes)
    return image.resize((size, size), Image.Resampling.LANCZOS).quantize(64, Image.Quantize.FASTOCTREE)


if __name__ == "__main__":
    icon(192, 1, None).save(PUBLIC / "icon-192.png", optimize=True)
    icon(512, 1, None).save(PUBLIC / "icon-512.png", optimize=True)
    icon(512, 0.62, GREEN).save(PUBLIC / "icon-maskable.png", optimize=True)  # only a circle of 80 % is always visible
    icon(180, 0.72, GREEN).save(PUBLIC / "icon-touch.png", optimize=True)
