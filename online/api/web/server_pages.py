"""The small pages that the server renders: errors where a browser navigates, and what plugins add.

They carry the branding, hold no script, and are in the language that the browser prefers.
"""

from collections.abc import Mapping
from pathlib import Path

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from online.api.middleware.browser_rules import POLICY, hash_inline
from online.api.web.branding import LOGO_PATH, Branding
from online.api.web.messages import DEFAULT_LANGUAGE, ERRORS, MESSAGES
from online.api.web.negotiation import pick_language, prefers_html

TEMPLATES = Path(__file__).parent / "templates"
# of app.css
SHIPPED_ACCENTS = {
    "accent_light": "#17694f",
    "accent_dark": "#70d2b1",
    "on_accent_light": "#ffffff",
    "on_accent_dark": "#0b1f18",
}
BASE_POLICY = (
    "default-src 'none'; img-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class ServerPages:
    """Renders the pages."""

    def __init__(self, branding: Branding, static: Path) -> None:
        """static: the folder of the frontend's build, whose font they share."""
        described = branding.describe()
        accents = {name: described[name] or shipped for name, shipped in SHIPPED_ACCENTS.items()}
        logo = LOGO_PATH if branding.logo else "favicon.svg"
        fonts = sorted(static.glob("assets/figtree-latin-wght-*.woff2"))
        font = fonts[0].relative_to(static).as_posix() if fonts else None
        own_logo = branding.logo is not None
        self._branding = {"name": branding.name, "logo": logo, "own_logo": own_logo, "font": font, **accents}
        self._messages = {language: {**messages} for language, messages in MESSAGES.items()}
        self._errors = {language: {**errors} for language, errors in ERRORS.items()}
        self._templates = jinja2.FileSystemLoader(TEMPLATES)
        self._environment = jinja2.Environment(
            loader=self._templates, autoescape=True, trim_blocks=True, lstrip_blocks=True
        )

    def add(
        self,
        templates: Path,
        messages: Mapping[str, Mapping[str, str]],
        errors: Mapping[str, Mapping[str, tuple[str, str]]],
    ) -> None:
        """Add the pages of a plugin: the folder of its templates, and its sentences, each in the shape of messages.py."""
        self._templates.searchpath.append(str(templates))
        for language in self._messages:
            self._messages[language] |= messages.get(language, messages[DEFAULT_LANGUAGE])
            self._errors[language] |= errors.get(language, errors[DEFAULT_LANGUAGE])

    def render(
        self,
        request: Request,
        template: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: object,
    ) -> HTMLResponse:
        """Return a page whose policy allows its own styles and nothing else. t, in the template: the messages of the language."""
        language = choose_language(request)
        own = {**self._branding, "root": root_of(request), "language": language, "t": self._messages[language]}
        page = self._environment.get_template(template).render(own, status=status, **values)
        policy = f"{BASE_POLICY}; style-src {hash_inline(page, 'style')}"
        fixed = {POLICY.decode(): policy, "Content-Language": language, "Vary": "Accept, Accept-Language"}
        return HTMLResponse(page, status, headers={**(headers or {}), **fixed})

    def render_error(self, request: Request, status: int, error: Exception, detail: str) -> HTMLResponse:
        """detail: what the API says about the error. It is shown where the page knows no more than the status."""
        errors = self._errors[choose_language(request)]
        own = type(error).__name__
        names = (own, str(status), f"{status // 100}xx")
        title, explanation = next(errors[name] for name in names if name in errors)
        says_all = own in errors or isinstance(error, HTTPException)
        return self.render(
            request,
            "error.html",
            status,
            {"Cache-Control": "no-store"},
            title=title,
            explanation=explanation,
            detail="" if says_all else detail,
        )


def wants_page(request: Request) -> bool:
    """Return whether a person in a browser is waiting for a page, rather than a program for JSON."""
    return prefers_html(request.headers.get("accept", ""))


def choose_language(request: Request) -> str:
    """Return the language of a server page, from the header Accept-Language."""
    return pick_language(request.headers.get("accept-language", ""), MESSAGES, DEFAULT_LANGUAGE)


def root_of(request: Request) -> str:
    """Return the path prefix of the request, without a slash at its end."""
    return str(request.scope.get("root_path", "")).rstrip("/")
