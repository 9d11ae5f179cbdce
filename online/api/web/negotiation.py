"""Negotiates content by Accept headers (RFC 9110, section 12.5)."""

from collections.abc import Iterator, Mapping, Sequence

IDENTITY = "identity"  # not compressed


def preferences(header: str) -> dict[str, float]:
    """`gzip;q=0.5, br` -> {"gzip": 0.5, "br": 1.0}, in lower case. A malformed weight counts as 0."""
    return dict(_parse(header))


def _parse(header: str) -> Iterator[tuple[str, float]]:
    for part in header.split(","):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        weights = [each[2:] for each in parameters if each.startswith("q=")]
        if name:
            yield name, _parse_weight(weights[0]) if weights else 1.0


def _parse_weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0


def pick_encoding(accept_encoding: str, available: Sequence[str]) -> str:
    """Return the encoding of an answer. available: the compressed ones there are, the best first; identity is there always."""
    given = preferences(accept_encoding)
    default = given.get("*", 0.0)
    weights = {name: given.get(name, default) for name in available}
    best = max(available, key=lambda name: weights[name], default=IDENTITY)
    is_refused = weights.get(best, 0.0) <= given.get(IDENTITY, 0.0) if IDENTITY in given else not weights.get(best)
    return IDENTITY if is_refused else best


def prefers_html(accept: str) -> bool:
    """Return whether a browser asks for a page: HTML is named, and JSON is not preferred."""
    given = preferences(accept)
    return given.get("text/html", 0.0) > given.get("application/json", 0.0)


def pick_language(accept_language: str, available: Mapping[str, object], default: str) -> str:
    """Return the preferred one of the available languages; `de-CH` counts as `de`."""
    weights = dict[str, float]()
    for name, weight in preferences(accept_language).items():
        language = name.partition("-")[0]
        weights[language] = max(weight, weights.get(language, 0.0))
    best = max((name for name in weights if name in available), key=lambda name: weights[name], default=default)
    return best if weights.get(best) else default
