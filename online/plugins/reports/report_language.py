"""The language of a report: the one that the request names, else the one that the browser prefers."""

from typing import Annotated

from fastapi import Depends, Query, Request

from online.api.web.negotiation import pick_language
from online.plugins.reports.languages import WORDS
from online.schemas.fields import Language

VARY = {"Vary": "Accept-Language"}


async def choose_language(
    request: Request,
    language: Annotated[
        Language | None,
        Query(
            description="The language of the report and of what it found. Default: as Accept-Language says, else en."
        ),
    ] = None,
) -> Language:
    if language is not None:
        return language
    languages = {str(each): each for each in WORDS}
    return languages[pick_language(request.headers.get("accept-language", ""), languages, "en")]


LanguageDep = Annotated[Language, Depends(choose_language)]


def describe_language(language: Language) -> dict[str, str]:
    """Return the headers of a document in a language that was chosen."""
    return {"Content-Language": language, **VARY}
