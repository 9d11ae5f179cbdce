"""Origins of pages: how browsers write them, and those whose pages may show the widget.

Browsers send no cookie of this service from a page of another site. So the widget keeps a signed token in the storage of
the page's origin, and sends it in a header:

    X-Visitor-Token: <visitor id>.<signature>      the signature covers the origin: a page of another one cannot use the token
"""

from urllib.parse import urlsplit

from online.settings import Settings

VISITOR_TOKEN = "x-visitor-token"


def origin_of(url: str) -> str:
    """Return the origin of a URL as browsers send it: in lower case, and without the usual port of its scheme."""
    parts = urlsplit(url.lower())
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    return f"{parts.scheme}://{parts.netloc.removesuffix(usual)}"


def widget_origins(settings: Settings) -> frozenset[str]:
    """Return the origins whose pages may show the widget. The service's own pages need no permission."""
    own = [settings.public_url] if settings.public_url else []
    return frozenset(map(origin_of, settings.widget_origins)) - frozenset(map(origin_of, own))


def limited_origins(settings: Settings) -> frozenset[str]:
    """Return those of them that may use nothing else: `cors_origins` opens the whole API to its origins."""
    return widget_origins(settings) - frozenset(map(origin_of, settings.cors_origins))
