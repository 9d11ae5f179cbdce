"""Withholds a reply to a question in another language than the repertoire's, unless one was taught.

    question, answer --is_other_language--> the answer, or an abstention

The sentence encoder reads English. For a question in another language, similarity finds some reply, but rarely the right one.
A reply is given where the best candidate is written in another language too, or is almost certain, as after a correction of
this question or of one like it.
"""

import re
from collections.abc import Sequence

from online.models.contract import Answer, Options
from online.models.encoders.follow_ups import read_text
from online.models.encoders.spelling import MOST_UNKNOWN, SPELLING
from online.models.kinds import encoder_options

CERTAIN = 0.95  # chance: on the questions for tuning, other languages reached 0.82


def find_other_languages(kind: str, options: Options, instances: Sequence[object]) -> list[bool]:
    """Return whether each instance is in another language than the model's; no list for a model that does not chat in one."""
    if not encoder_options(kind, options)["language"]:
        return []
    texts = map(read_text, instances)
    return [text is not None and is_other_language(text) for text in texts]


def withhold_untaught(answers: Sequence[Answer], are_other: Sequence[bool]) -> list[Answer]:
    """Return the answers, without replies to questions in other languages. are_other: one per answer, or empty."""
    if not any(are_other):
        return list(answers)
    return [withhold(answer) if is_other else answer for answer, is_other in zip(answers, are_other, strict=True)]


def withhold(answer: Answer) -> Answer:
    """Return the answer to a question in another language: an abstention, unless its best reply suits that language."""
    best = answer.candidates[0] if answer.candidates else None
    if best is None or best.score >= CERTAIN or is_other_language(best.text or ""):
        return answer
    return Answer(None, (), abstained=True)


# Recognises that a text is not English, from its words: a fixed decision, without a model to load.
#
#     each word    frequent in English +1    in the list of English words +1/2    corrected to one 0
#                  a small word of another language -1 (-1/2 if English has it too)    unknown -1/2    with letters beyond a to z -1, beyond Latin -3
#
# A text is in another language if the sum is below 0. One word alone decides nothing, unless it is a small word of
# another language (`merci`) or has letters beyond Latin.

ANY_WORD = re.compile(r"[^\W\d_]+")
MOST_CHARS = 400  # that are read: a language shows in fewer
FREQUENT = 300  # English words that are found in any text
AMBIGUOUS = 5_000  # among these, a small word of another language may be meant as an English one (van, die)
LATIN_END = 0x250  # code points below are those of Latin letters
BORROWED_WORDS = "café cafés naïve fiancé fiancée résumé résumés façade cliché clichés née décor crème brûlée"
# small words of other languages; those that are everyday words of English, too, are left out
OTHER_WORDS = """
    ich und der das ist nicht ein eine einen einem meine mein mit für auf wie wo wann warum kann können gibt es sie wir
    ihr euch bei hier danke bitte habe haben möchte von zu zum zur bin sind wird auch guten hallo ja nein welche wer
    le la les un une des du et est je tu il elle nous vous ils que qui où quand comment pourquoi combien avec pour dans
    sur pas mon ma mes votre vos ce cette ces merci bonjour oui non sont avez puis peux peut faire aux au
    el los las una unos unas y es en con por para que qué cómo cuándo dónde cuál cuánto cuántos hay mi mis tu su sus
    yo nosotros ustedes puedo puede tienen tiene hola gracias del al está están quiero necesito sí pero donde como cuando
    di che è e il lo gli uno della del delle dei nel nella con per come dove quando quanto quanti quale posso potete
    avete mio mia miei sono ho hai ciao grazie anche non ci si
    o os um uma uns umas da dos das não com em na nos nas por para como onde quando quanto quantos qual posso vocês
    você tem têm meu minha eu obrigado obrigada olá sim mais fica faço
    de het een van ik je jij hij wij zij niet met voor op hoe waar wanneer waarom kan kunnen mag er mijn zijn hebben
    heeft hoeveel welke dank bedankt hallo om te naar ook lang
    jak gdzie kiedy czy jest są nie się na w z mogę można mam proszę dziękuję dzień dobry ile co
    och att det som ett på är inte jag du vi ni har hur var när varför kan får låna tack hej
    bir ve bu ne nasıl nerede var mı mi için çok ben sen siz saat kaç teşekkürler merhaba
    hvor hvordan når og jeg ikke det er på til min mitt takk tak
"""
SHARED_WORDS = "come do en he i in is it me my no on or per so to up us was we an as at be"

BORROWED = frozenset(BORROWED_WORDS.split())
SMALL_WORDS = frozenset(OTHER_WORDS.split()) - frozenset(SHARED_WORDS.split())


def is_other_language(text: str) -> bool:
    """Return whether the text is in another language than English."""
    words = ANY_WORD.findall(text[:MOST_CHARS].lower())
    if len(words) == 1:
        return words[0] in SMALL_WORDS - SPELLING.ranks.keys() or is_beyond_latin(words[0])
    looked_up = set(list(dict.fromkeys(filter(is_unknown, words)))[:MOST_UNKNOWN])
    return sum(weigh_word(word, word in looked_up) for word in words) < 0


def is_unknown(word: str) -> bool:
    """Return whether a word in ASCII is no English word that the list knows."""
    return word.isascii() and word not in SMALL_WORDS and word not in SPELLING.ranks


def weigh_word(word: str, is_looked_up: bool = True) -> float:
    """Return evidence that a word in lower case is English, above 0, or not, below. is_looked_up: if it is not in the list."""
    if not word.isascii():
        return 1.0 if word in BORROWED else -3.0 if is_beyond_latin(word) else -1.0
    rank = SPELLING.ranks.get(word)
    if word in SMALL_WORDS:
        return -1.0 if rank is None or rank >= AMBIGUOUS else -0.5
    if rank is not None:
        return 1.0 if rank < FREQUENT else 0.5
    return 0.0 if is_looked_up and SPELLING.correct_word(word) != word else -0.5


def is_beyond_latin(word: str) -> bool:
    """Return whether a word has a letter of another script than Latin."""
    return any(ord(letter) >= LATIN_END for letter in word)
