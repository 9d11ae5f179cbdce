"""The sentences of the page of a feedback URL, and of its errors, in each language. A test checks that no language lacks one."""

from collections.abc import Mapping
from types import MappingProxyType

ENGLISH = {
    "heading": "How was this answer?",
    "thanks": "Thank you!",
    "question": "Question",
    "input": "Input",
    "drawing": "A drawing",
    "answer": "Answer",
    "erased_question": "The question was deleted.",
    "erased_answer": "This answer was deleted.",
    "no_answer": "There was no answer.",
    "up": "Helpful",
    "down": "Not helpful",
    "why": "Why? (optional)",
    "send": "Send",
    "take_back": "Take it back",
    "correct_open": "Suggest a better answer",
    "correct": "What should it have said?",
    "number": "Which number is right?",
    "which_class": "Which answer is right?",
    "other_class": "Another answer",
    "said_helped": "You said that the answer helped.",
    "said_did_not_help": "You said that the answer did not help.",
    "said_corrected": "You said that the right answer is: “{}”",
    "held": "Somebody will read it before the answers change.",
    "taken_back": "Your feedback was taken back.",
    "invalid": "That could not be saved. Please check what you wrote.",
    "empty": "Please write an answer first.",
    "too_long": "Too long: {} of {} characters.",
}
GERMAN = {
    "heading": "Wie war diese Antwort?",
    "thanks": "Vielen Dank!",
    "question": "Frage",
    "input": "Eingabe",
    "drawing": "Eine Zeichnung",
    "answer": "Antwort",
    "erased_question": "Die Frage wurde gelöscht.",
    "erased_answer": "Diese Antwort wurde gelöscht.",
    "no_answer": "Es gab keine Antwort.",
    "up": "Hilfreich",
    "down": "Nicht hilfreich",
    "why": "Warum? (freiwillig)",
    "send": "Senden",
    "take_back": "Zurücknehmen",
    "correct_open": "Eine bessere Antwort vorschlagen",
    "correct": "Wie hätte die Antwort lauten sollen?",
    "number": "Welche Zahl ist richtig?",
    "which_class": "Welche Antwort ist richtig?",
    "other_class": "Eine andere Antwort",
    "said_helped": "Sie fanden die Antwort hilfreich.",
    "said_did_not_help": "Sie fanden die Antwort nicht hilfreich.",
    "said_corrected": "Nach Ihrer Angabe ist die richtige Antwort: „{}“",
    "held": "Ein Mensch liest sie, bevor sich die Antworten ändern.",
    "taken_back": "Ihre Rückmeldung wurde zurückgenommen.",
    "invalid": "Das konnte nicht gespeichert werden. Bitte prüfen Sie Ihre Eingabe.",
    "empty": "Bitte schreiben Sie zuerst eine Antwort.",
    "too_long": "Zu lang: {} von {} Zeichen.",
}
MESSAGES: Mapping[str, Mapping[str, str]] = MappingProxyType({"en": ENGLISH, "de": GERMAN})

# Title and explanation of an error, by the name of its class.
ENGLISH_ERRORS = {
    "LinkExpired": (
        "This link has expired",
        "Links for feedback work for a limited time. Ask the question again to get a new one.",
    ),
    "LinkInvalid": (
        "This link is not valid",
        "It may have been cut off when it was copied. Open it again from the original message.",
    ),
    "PredictionErased": ("There is nothing left to rate", "The question and its answer were deleted."),
}
GERMAN_ERRORS = {
    "LinkExpired": (
        "Dieser Link ist abgelaufen",
        "Links für Rückmeldungen gelten nur eine Zeit lang. Stellen Sie die Frage noch einmal, um einen neuen zu bekommen.",
    ),
    "LinkInvalid": (
        "Dieser Link ist ungültig",
        "Vielleicht wurde er beim Kopieren abgeschnitten. Öffnen Sie ihn noch einmal aus der ursprünglichen Nachricht.",
    ),
    "PredictionErased": ("Hier gibt es nichts mehr zu bewerten", "Die Frage und ihre Antwort wurden gelöscht."),
}
ERRORS: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType({"en": ENGLISH_ERRORS, "de": GERMAN_ERRORS})
