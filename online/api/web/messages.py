"""The sentences of the server's pages, in each language. Plugins add those of their pages. A test checks that no language lacks one."""

from collections.abc import Mapping
from types import MappingProxyType

DEFAULT_LANGUAGE = "en"

ENGLISH = {
    "home": "Go to the start page",
    "status": "Status",
    "details": "Technical details",
}
GERMAN = {
    "home": "Zur Startseite",
    "status": "Status",
    "details": "Technische Einzelheiten",
}
MESSAGES: Mapping[str, Mapping[str, str]] = MappingProxyType({"en": ENGLISH, "de": GERMAN})

# Title and explanation of an error, by its status, or by the name of its class where the status says too little.
ENGLISH_ERRORS = {
    "400": (
        "This request is not valid",
        "The server could not understand it. Check the address, or go back and try again.",
    ),
    "401": ("Please sign in", "This page is only shown to people who are signed in."),
    "403": (
        "You may not open this page",
        "Your account does not have the rights for it. Ask the people who run this service.",
    ),
    "404": ("This page does not exist", "The address may be mistyped, or the page was removed."),
    "405": ("This address cannot be opened like this", "It is meant for programs. Go to the start page instead."),
    "410": ("This page is gone", "It was removed and will not come back."),
    "413": ("That is too large", "The server does not accept this much at once. Send something smaller."),
    "421": ("This is not the right address", "The server does not answer under this name. Check the address."),
    "429": ("Too many requests", "Please wait a moment, then try again."),
    "503": ("Back in a moment", "The server cannot answer just now. Please try again soon."),
    "504": ("That took too long", "The server is busy. Please try again in a moment."),
    "4xx": ("That did not work", "Go back and try again, or go to the start page."),
    "5xx": (
        "Something went wrong",
        "The fault is on our side, and it has been recorded. Please try again in a moment.",
    ),
}
GERMAN_ERRORS = {
    "400": (
        "Diese Anfrage ist ungültig",
        "Der Server konnte sie nicht verstehen. Prüfen Sie die Adresse, oder gehen Sie zurück und versuchen Sie es noch einmal.",
    ),
    "401": ("Bitte melden Sie sich an", "Diese Seite sehen nur angemeldete Personen."),
    "403": (
        "Sie dürfen diese Seite nicht öffnen",
        "Ihr Konto hat dafür nicht die nötigen Rechte. Fragen Sie die Betreiber dieses Dienstes.",
    ),
    "404": (
        "Diese Seite gibt es nicht",
        "Vielleicht enthält die Adresse einen Tippfehler, oder die Seite wurde entfernt.",
    ),
    "405": (
        "So lässt sich diese Adresse nicht öffnen",
        "Sie ist für Programme gedacht. Gehen Sie stattdessen zur Startseite.",
    ),
    "410": ("Diese Seite gibt es nicht mehr", "Sie wurde entfernt und kommt nicht wieder."),
    "413": ("Das ist zu groß", "So viel nimmt der Server nicht auf einmal an. Senden Sie etwas Kleineres."),
    "421": (
        "Das ist nicht die richtige Adresse",
        "Unter diesem Namen antwortet der Server nicht. Prüfen Sie die Adresse.",
    ),
    "429": ("Zu viele Anfragen", "Bitte warten Sie einen Moment und versuchen Sie es dann noch einmal."),
    "503": ("Gleich wieder da", "Der Server kann gerade nicht antworten. Bitte versuchen Sie es bald noch einmal."),
    "504": ("Das hat zu lange gedauert", "Der Server ist ausgelastet. Bitte versuchen Sie es gleich noch einmal."),
    "4xx": (
        "Das hat nicht geklappt",
        "Gehen Sie zurück und versuchen Sie es noch einmal, oder gehen Sie zur Startseite.",
    ),
    "5xx": (
        "Etwas ist schiefgegangen",
        "Der Fehler liegt bei uns und wurde festgehalten. Bitte versuchen Sie es gleich noch einmal.",
    ),
}
ERRORS: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType({"en": ENGLISH_ERRORS, "de": GERMAN_ERRORS})
