"""Draws the icons of the installed page: python frontend/icons.py. The SVG beside them, favicon.svg, is drawn by hand."""

from pathlib import Path

from PIL import Image, ImageDraw

PUBLIC = Path(__file__).parent / "public"
GREEN, WHITE = "#1b6f5a", "#ffffff"
FINE = 8  # drawn so many times larger, for smooth edges


def bubble(draw: ImageDraw.ImageDraw, unit: float, at: float, skin: str, eyes: str) -> None:
    """The one of favicon.svg: unit is a 32nd of its width, at where it begins."""

    def box(left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        return at + left * unit, at + top * unit, at + right * unit, at + bottom * unit

    draw.rounded_rectangle(box(2, 4, 30, 24), 4 * unit, skin)
    draw.polygon([(at + x * unit, at + y * unit) for x, y in ((7, 23), (7, 29), (14, 24))], skin)
    for x in (11, 21):
        draw.ellipse(box(x - 2.4, 11.6, x + 2.4, 16.4), eyes)


def icon(size: int, share: float, ground: str | None) -> Image.Image:
    """share: of the width that the bubble takes. ground: what it stands on; None: nothing."""
    whole = size * FINE
    image = Image.new("RGBA", (whole, whole), ground or (255, 255, 255, 0))
    skin, eyes = (WHITE, GREEN) if ground else (GREEN, WHITE)
    bubble(ImageDraw.Draw(image), share * whole / 32, (1 - share) / 2 * whole, skin, eyes)
    return image.resize((size, size), Image.Resampling.LANCZOS).quantize(64, Image.Quantize.FASTOCTREE)


if __name__ == "__main__":
    icon(192, 1, None).save(PUBLIC / "icon-192.png", optimize=True)
    icon(512, 1, None).save(PUBLIC / "icon-512.png", optimize=True)
    icon(512, 0.62, GREEN).save(PUBLIC / "icon-maskable.png", optimize=True)  # a circle of 80 % is sure to be seen
    icon(180, 0.72, GREEN).save(PUBLIC / "icon-touch.png", optimize=True)
