"""Files that are written when the service starts, because they depend on its settings.

index.html            title, colors, icon, and the settings of the pages as a JSON block
sw.js                 the version of the branding, so that browsers replace a stored page with an old one
manifest.webmanifest  name, colors and icons of the installed page
"""

import gzip
import hashlib
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

import orjson
from fastapi import Request, Response

from online.api.web.branding import LOGO_PATH, SHIPPED_COLOR, Branding
from online.api.web.negotiation import IDENTITY, pick_encoding

MIN_COMPRESSED_BYTES = 500  # a smaller file is one packet anyway
REVALIDATE = {"Cache-Control": "no-cache"}
SHORT_NAME_CHARS = 12  # what a home screen shows of a name
MIN_ICON_WIDTH = 144  # below which browsers do not install a page
TITLE = re.compile(r"<title>.*?</title>", re.DOTALL)
LIGHT_THEME = re.compile(r'(<meta\s+name="theme-color"\s+content=")[^"]*("\s+media="\(prefers-color-scheme: light\)")')
DESCRIPTION = re.compile(r'(<meta\s+name="description"\s+content=")[^"]*(")')
ICON = re.compile(r'<link[^>]*\brel="icon"[^>]*>')
TOUCH_ICON = re.compile(r'<link[^>]*\brel="apple-touch-icon"[^>]*>')


class RenderedFile:
    """The content of one answer, compressed once, with an ETag for each encoding."""

    def __init__(self, content: bytes, media_type: str, headers: Mapping[str, str] = REVALIDATE) -> None:
        self.media_type, self.headers = media_type, {**headers, "Vary": "Accept-Encoding"}
        self.contents = {IDENTITY: content}
        if len(content) >= MIN_COMPRESSED_BYTES and not media_type.startswith("image/png"):
            self.contents["gzip"] = gzip.compress(content, 9, mtime=0)
        self.tag = hashlib.sha256(content).hexdigest()[:16]

    def respond(self, request: Request) -> Response:
        """Answer with the file in the best coding that the client accepts, or 304 if the client has it."""
        available = [name for name in self.contents if name != IDENTITY]
        encoding = pick_encoding(request.headers.get("accept-encoding", ""), available)
        tag = f'"{self.tag}"' if encoding == IDENTITY else f'"{self.tag}-{encoding}"'
        headers = {**self.headers, "ETag": tag}
        if matches(request.headers.get("if-none-match", ""), tag):
            return Response(status_code=304, headers=headers)
        if encoding != IDENTITY:
            headers["Content-Encoding"] = encoding
        return Response(self.contents[encoding], headers=headers, media_type=self.media_type)


def matches(if_none_match: str, tag: str) -> bool:
    """Return whether a conditional request names this tag. A proxy may have made it weak."""
    return tag in (each.strip().removeprefix("W/") for each in if_none_match.split(","))


class RenderedBuild:
    """A file of the frontend's build, rendered again where a newer build has replaced it."""

    def __init__(self, path: Path, branding: Branding) -> None:
        self.path, self.branding = path, branding
        self._rendered: tuple[int, RenderedFile] | None = None

    def render(self) -> RenderedFile | None:
        """Return None where there is no build."""
        try:
            written = self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        if self._rendered is None or self._rendered[0] != written:
            self._rendered = written, RENDERERS[self.path.name](self.path.read_text(), self.branding)
        return self._rendered[1]


def render_index(page: str, branding: Branding) -> RenderedFile:
    """Return index.html with the branding's title, description and colours."""
    page = TITLE.sub(lambda _: f"<title>{escape(branding.name)}</title>", page, count=1)
    description = escape(branding.intro or f"{branding.name}: a chat that learns from your ratings and corrections.")
    page = DESCRIPTION.sub(lambda found: found[1] + description + found[2], page, count=1)
    if color := branding.describe()["accent_light"]:
        page = LIGHT_THEME.sub(lambda found: found[1] + color + found[2], page, count=1)
    if branding.logo:
        icon = f'href="./{LOGO_PATH}" type="{branding.logo.media_type}">'
        page = ICON.sub(f'<link rel="icon" {icon}', page, count=1)
        if branding.logo.media_type == "image/png":
            page = TOUCH_ICON.sub(f'<link rel="apple-touch-icon" {icon}', page, count=1)
    head, end, rest = page.partition("</head>")
    return RenderedFile(f"{head}{settings_block(branding)}\n  {end}{rest}".encode(), "text/html")


def settings_block(branding: Branding) -> str:
    """Return the settings of the pages as JSON within HTML. A browser does not run it, so no policy has to allow it."""
    return f'<script type="application/json" id="page-settings">{escape_json(branding.describe())}</script>'


def escape_json(content: object) -> str:
    """Return JSON that ends no element it stands in: `<`, `>` and `&` are written as escapes."""
    text = orjson.dumps(content).decode()
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def render_worker(worker: str, branding: Branding) -> RenderedFile:
    """Return the service worker with the hash of the branding, so that a change of it reaches offline pages."""
    files = [LOGO_PATH] if branding.logo else []
    page = orjson.dumps({"version": branding.hash(), "files": files}).decode()
    return RenderedFile(f"self.BRANDING={page};\n{worker}".encode(), "text/javascript")


def render_manifest(manifest: str, branding: Branding) -> RenderedFile:
    """Return all addresses in it are relative, so that they stay below the path prefix of a proxy."""
    content = orjson.loads(manifest)
    content |= {"name": branding.name, "short_name": shorten(branding.name)}
    content["theme_color"] = branding.color or SHIPPED_COLOR
    if branding.intro:
        content["description"] = branding.intro
    if branding.logo:
        content["icons"] = list_icons(branding, content["icons"])
    return RenderedFile(orjson.dumps(content, option=orjson.OPT_INDENT_2), "application/manifest+json")


def list_icons(branding: Branding, shipped: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the logo as an icon; beside a small one the shipped icons, without which the page could not be installed."""
    assert branding.logo is not None, "it is called where there is a logo"
    width = branding.logo.width
    logo = {
        "src": LOGO_PATH,
        "sizes": "any" if width is None else f"{width}x{width}",
        "type": branding.logo.media_type,
    }
    return [logo] if width is None or width >= MIN_ICON_WIDTH else [logo, *shipped]


def shorten(name: str) -> str:
    """Return the first words of a name, as many as a home screen shows."""
    short = name
    while len(short) > SHORT_NAME_CHARS and " " in short:
        short = short.rpartition(" ")[0].rstrip(" ,:;-–—")
    return short[:SHORT_NAME_CHARS].rstrip()


def render_icon(icon: str, branding: Branding) -> RenderedFile:
    """Return the icon in the configured colour."""
    return RenderedFile(icon.replace(SHIPPED_COLOR, branding.color or SHIPPED_COLOR).encode(), "image/svg+xml")


RENDERERS = {
    "index.html": render_index,
    "sw.js": render_worker,
    "manifest.webmanifest": render_manifest,
    "favicon.svg": render_icon,
}
