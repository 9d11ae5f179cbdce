"""Reads a short question that leaves out what it is about together with the question before it.

    "How much does it cost to print a page?"    "And in colour?"
        --> "How much does it cost to print a page? And in colour?"
    "Do you have books in Polish?"              "And in Ukrainian?"         the phrase with the same preposition is replaced
        --> "Do you have books in Ukrainian?"
    "Do you lend DVDs?"                         "What about video games?"   what follows the frame of the question is replaced
        --> "Do you lend video games?"

Whether a question leaves something out is decided by its own words alone, so that every other question is read as if
it stood alone, and the same pair of questions is always read in the same way.

    it begins with a connective        And in colour?  What about a scanner?  Even guide dogs?
    ... or is a phrase alone           For how long?  From what age?
    it has no word of content          How much is it?  Do I have to book?
    a quantity lacks its noun          How many as a teacher?
    it points back                     Which coin do they take?  Can I do that by phone?  Is there a lift as well?
"""

import re
from collections.abc import Sequence

MAX_WORDS = 7  # a longer question says what it is about
MAX_PHRASE_WORDS = 4
MAX_PREVIOUS_CHARS = 300
LATEST = 6  # questions that are read to find what the last of them is about

WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
CONNECTIVE = re.compile(r"(?:(?:ok|okay|so)[\s,]+)?(?:and|or|but|what about|how about|even|also|same for|only)\b[\s,]*")
QUANTITY = re.compile(r"how (?:many|much|long|often|far|old)\b(?: (?:as|for|with|without|in|on|at|per|from)\b|$)")
EXPLETIVE = re.compile(r"\bit\b.* to \w+")  # "it" stands for what follows: "is it free to join"
CLOCK = re.compile(r"what(?:'s| is)?(?: the)? (?:time|hour|year|date)\b")  # "what time is it" points at nothing before
ADDITIONS = ("too", "as well", "instead", "either", "again")
PREPOSITION_WORDS = "for from in on at with without by until till since per about after before during to"
OPENER_WORDS = """
    what when where which who whose why how do does did can could may might must should shall will would is are was were
    has have am what's where's when's who's how's
"""
POINTER_WORDS = "it that they them those these one ones there's its their"
ADDRESS_WORDS = "you your yours you're u me my"
# together with those above, words that say nothing about a subject
EMPTY_WORDS = """
    a an the i we he she i'm it's that's be been being to of as so if not no any some more less much many long often far
    ahead old late early soon there time times day days week weeks month months year years hour hours minute minutes date
    price cost costs charge fee free pay age ages need needs get take takes keep open opened close closed closes last
    lasts start starts begin begins end ends possible allowed enough then than each every here also only exactly really
    please again too well else other others another same
"""
# with the words that open a question, the frame in which another subject can be put
FRAME_WORDS = """
    i you we he she they there any about keep take have lend borrow find recommend suggest offer sell get bring read use
    donate see eat drink hire rent need want stream teach show
"""
DETERMINER_WORDS = "a an the some any my your his her our their another something anything somebody someone"

PREPOSITIONS, OPENERS = frozenset(PREPOSITION_WORDS.split()), frozenset(OPENER_WORDS.split())
POINTERS, ADDRESSED = frozenset(POINTER_WORDS.split()), frozenset(ADDRESS_WORDS.split())
DETERMINERS = frozenset(DETERMINER_WORDS.split())
FRAME = OPENERS | DETERMINERS | frozenset(FRAME_WORDS.split())
EMPTY = PREPOSITIONS | OPENERS | POINTERS | ADDRESSED | frozenset(EMPTY_WORDS.split())


def is_follow_up(text: str) -> bool:
    """Return whether a question leaves out what it is about."""
    lowered = " ".join(text.lower().replace("’", "'").split())
    words = WORD.findall(lowered)
    if not words or len(words) > MAX_WORDS:
        return False
    rest = WORD.findall(CONNECTIVE.sub("", lowered, count=1)) if CONNECTIVE.match(lowered) else words
    if len(rest) < len(words):
        return not _is_complete(rest)
    if words[0] in PREPOSITIONS:
        return len(words) <= MAX_PHRASE_WORDS
    return words[0] in OPENERS and _leaves_out(lowered, words)


def _is_complete(words: Sequence[str]) -> bool:
    """Return whether what follows a connective is a question of its own."""
    is_question = bool(words) and words[0] in OPENERS and len(words) > 3
    return is_question and not _leaves_out(" ".join(words), words)


def _leaves_out(text: str, words: Sequence[str]) -> bool:
    """Return whether a question points back, or has no word of content."""
    content = [word for word in WORD.findall(text.replace("to book", "")) if word not in EMPTY]
    if not ADDRESSED.isdisjoint(words) and POINTERS.isdisjoint(words):
        return False  # "how are you", "what can you do"
    if CLOCK.match(text) and not content[1:]:
        return False
    if QUANTITY.match(text) or not content:
        return True
    points_back = not POINTERS.isdisjoint(words) and EXPLETIVE.search(text) is None
    return len(content) == 1 and (points_back or text.rstrip(" ?!.").endswith(ADDITIONS))


def join(previous: str, text: str) -> str:
    """Return a follow-up as it is read. previous: the question before it, as it was read."""
    if len(previous) > MAX_PREVIOUS_CHARS:
        return text
    return put_into(previous, text) or f"{previous} {text}"


def put_into(previous: str, text: str) -> str | None:
    """Return the question before with what the follow-up names in place of what it was about; None if neither has a place."""
    connective = CONNECTIVE.match(text.lower())
    named = text[connective.end() if connective else 0 :].strip(" ?!.").split()
    asked = previous.strip(" ?!.").split()
    lowered = [word.lower().strip(",.") for word in asked]
    if not named:
        return None
    first = named[0].lower()
    if first in PREPOSITIONS:
        place = len(asked) - 1 - lowered[::-1].index(first) if first in lowered else 0
        return " ".join([*asked[:place], first, *named[1:]]) + "?" if place else None
    place = next((at for at, word in enumerate(lowered) if word not in FRAME), len(asked))
    if connective is None or place < 2 or place == len(asked):
        return None
    if first in DETERMINERS and lowered[place - 1] in DETERMINERS:
        place -= 1
    return " ".join([*asked[:place], *named]) + "?"


def read_text(instance: object) -> str | None:
    """Return the text of an instance as it is read: a follow-up together with its member `previous`. None if there is no text.

    previous: the question before it, or the questions before it in order.
    """
    text, earlier = split_instance(instance)
    return None if text is None else read_last([*earlier, text])


def read_last(questions: Sequence[str]) -> str:
    """Return the last of a user's questions, as it is read after the others."""
    *earlier, last = questions[-LATEST:]
    return join(read_last(earlier), last) if earlier and is_follow_up(last) else last


def needs_previous(instance: object) -> bool:
    """Return whether an instance is a follow-up that comes without the questions before it."""
    return isinstance(instance, str) and is_follow_up(instance)


def add_previous(instance: object, earlier: Sequence[str] = ()) -> object:
    """Return the instance as it is stored: a follow-up as an object with the question before it, as that was read.

    Every other question is stored alone, and so is one after a question that is too long to be read with it.
    earlier: the user's questions before, in order, for an instance that comes without them. The same question before
    it, for which another reply was requested, is no question before it.
    """
    text, own = split_instance(instance)
    if text is None or (isinstance(instance, dict) and "previous" not in instance):
        return instance
    others = [each for each in own or earlier if each != text]
    previous = read_last(others) if others and is_follow_up(text) else ""
    return {"text": text, "previous": previous} if 0 < len(previous) <= MAX_PREVIOUS_CHARS else text


def split_instance(instance: object) -> tuple[str | None, list[str]]:
    """Return the text of an instance, and the questions before it that it names."""
    text = instance.get("text") if isinstance(instance, dict) else instance
    previous = instance.get("previous") if isinstance(instance, dict) else None
    earlier = previous if isinstance(previous, list) else [previous]
    named = [each for each in earlier if isinstance(each, str) and each.strip()]
    return (text if isinstance(text, str) and text.strip() else None), named
