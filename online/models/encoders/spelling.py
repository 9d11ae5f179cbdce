"""Corrects the spelling of English texts before they are encoded, so that "how do i renw a book" reads as meant.

    text --words that are not in the list--> near words of the list --cheapest edits, most frequent--> text

A sentence encoder cuts a misspelt word into pieces that mean nothing. The list is fixed (its sha256 is part of the
encoder's epoch), so a text is corrected in the same way everywhere and always. Left alone are words of the list,
names (capitals inside a sentence, abbreviations), compounds of two words of the list, addresses, and texts that are
not English: those with letters beyond a to z, or with few words of the list.

A word of the list may be a slip, too. It is corrected where a fixed phrase shows it (`CONFUSED`: "were can i", "this weak"), and
where two exchanged or a doubled letter make one of the rarest words of one of the most frequent ("tittle", "dorp").

`english.txt.xz` holds 54,000 words, the most frequent first: those of symspellpy's frequency dictionary (MIT licence;
from Google Books Ngram, CC BY 3.0, and SCOWL), the whole words of the encoder's own vocabulary (Apache-2.0), and about
eighty newer ones that were added by hand (app, barcode, e-book).
"""

import hashlib
import lzma
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WORDS_FILE = Path(__file__).with_name("english.txt.xz")
WORDS_SHA256 = "b639bba75c8d2b77a91aec96ffd087af273798214dc62c7eecd6d9ad038deaff"
WORD = re.compile(r"(?<![\w@./'’-])[A-Za-z]{1,}(?![\w@/’'-]|\.\w)")
ANY_WORD = re.compile(r"[^\W\d_]+")
LETTERS = 26
COMMON = 12_000  # the words a compound may be made of
MEANT = 25_000  # the words that people mean when they misspell one: rarer ones are names as often
ENGLISH_SHARE = 0.4  # of the words of a longer text that must be in the list
SHORT_TEXT = 3  # words: too few for a share
SHORTEST = (
    4  # letters: shorter ones are abbreviations (gps, pto), unless two letters are exchanged or they are listed below
)
OFTEN_MEANT = 1_500  # the words that a short word with two letters exchanged may stand for
RARE = range(40_000, 63_133)  # words that nobody types; those after them are frequent, but were added without a count
FREQUENT = 3_000  # the words that a rare word may be a slip of
NEAR_COMPOUND = 0.9  # weight of the edits that make a word of what reads as two words in one (holy + days)
TWO_EDITS_FROM = 5  # letters: a shorter word has too many neighbours two edits away
LONGEST = 24  # letters: what is longer is no word
MOST_UNKNOWN = 6  # words of a text that are not in the list: with more it is no sentence that was misspelt
HEAVIEST = 1.9  # weight of all edits of a word
HEAVIEST_SHORT = 0.9  # of a word of four letters, as four arbitrary ones are a name as often (amex)
EDIT_WEIGHT = 2.0  # one more edit must be outweighed by a word that is a hundred times as frequent
RANK_OFFSET = 300  # among the most frequent words, frequency hardly counts
FIRST_LETTER = 0.5  # people seldom get it wrong
SHORTHAND = {
    "u": "you",
    "ur": "your",
    "pls": "please",
    "plz": "please",
    "thx": "thanks",
    "nite": "night",
    "tonite": "tonight",
    "tho": "though",
    "thru": "through",
    "teh": "the",
    "wat": "what",
    "wot": "what",
    "wht": "what",
    "waht": "what",
    "wen": "when",
    "wich": "which",
    "ther": "there",
    "yor": "your",
    "hav": "have",
    "giv": "give",
    "fourty": "forty",
    "liberry": "library",
    "im": "i am",
    "ive": "i have",
    "cant": "can't",
    "dont": "don't",
    "doesnt": "doesn't",
    "didnt": "didn't",
    "wont": "won't",
    "isnt": "isn't",
}
# words that are mistaken for one another, with what stands around them when they are
CONFUSED = tuple(
    (re.compile(pattern, re.IGNORECASE), meant)
    for pattern, meant in (
        (r"\bwere(?= (?:is|are|can|do|does|did|could|may|i can|i could|i may|we can)\b)", "where"),
        (r"^witch(?= \w)", "which"),
        (r"(?<=\bhow much )dose\b|(?<=\bwhat )dose\b|(?<=\bwhen )dose\b|(?<=\bwhere )dose\b", "does"),
        (r"(?<=\bhow )dose\b|^dose(?= (?:it|the|this|that|my|your|a|an)\b)", "does"),
        (r"(?<=\bthis )weak\b|(?<=\bnext )weak\b|(?<=\blast )weak\b|(?<=\bper )weak\b|(?<=\bevery )weak\b", "week"),
        (r"(?<=\ba )weak(?=$|[,.?!]| (?:may|can|do|or|and|if|from|in|on|at)\b)", "week"),
        (r"\bsing(?= up\b| in (?:to|for|with|online|here)\b)", "sign"),
        (r"(?<=\bcome )form\b|(?<=\bcoming )form\b|(?<=\bfar )form\b|(?<=\baway )form\b", "from"),
        (r"(?<=\bbus )form\b|(?<=\btrain )form\b|(?<=\bwalk )form\b|(?<=\bme )form\b|(?<=\bflights )form\b", "from"),
        (r"(?<=\bit )cots\b|(?<=\bthat )cots\b", "cost"),
        (r"(?<=\bi )ned\b|(?<=\bwe )ned\b|(?<=\byou )ned\b", "need"),
        (r"\bloose(?= (?:my|your|our|it)\b)", "lose"),
    )
)
MAY_BE_CONFUSED = re.compile(r"\b(?:were|witch|dose|weak|sing|form|cots|ned|loose)\b", re.IGNORECASE)
VOWELS = frozenset("aeiouy")
# consonants that sound alike, and letters beside each other on a keyboard
ALIKE = """
    ck cs sz fv fp mn gj dt bp
    qw we er rt ty yu ui io op as sd df fg gh hj jk kl zx xc cv vb bn nm wa qa sw ed rf tg yh uj ik ol
"""
SIMILAR = frozenset(map(frozenset, ALIKE.split()))


class Spelling:
    """The list of words, and how a text is corrected with it."""

    @cached_property
    def words(self) -> list[str]:
        """The list. Raises ValueError if the file is not the one that is shipped."""
        data = WORDS_FILE.read_bytes()
        if hashlib.sha256(data).hexdigest() != WORDS_SHA256:
            raise ValueError(f"{WORDS_FILE} is not the list of words that was shipped: refused")
        return lzma.decompress(data).decode().split()

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of each known word; 0 is the most frequent."""
        return {word: rank for rank, word in enumerate(self.words)}

    @cached_property
    def letter_counts(self) -> NDArray[np.int8]:
        """int8 [MEANT, 26]: how often each letter is in each of the words that people mean."""
        return np.stack([count_letters(word) for word in self.words[:MEANT]])

    def correct(self, text: str) -> str:
        """Return the text with its misspelt words corrected; the same text if nothing is, or if it is not English."""
        if not self.is_english(text):
            return text
        whole = text.lower() if text.isupper() else text
        corrected = WORD.sub(lambda found: self._correct_found(found, whole), whole)
        if MAY_BE_CONFUSED.search(corrected):
            for pattern, meant in CONFUSED:
                corrected = pattern.sub(meant, corrected)
        return text if corrected == whole else corrected

    def is_english(self, text: str) -> bool:
        """Return whether its words look like (misspelt) English ones."""
        words = ANY_WORD.findall(text.lower())
        if not all(word.isascii() for word in words):
            return False
        unknown = [word for word in words if word not in self.ranks and word not in SHORTHAND]
        if len(set(unknown)) > MOST_UNKNOWN:
            return False
        return len(words) <= SHORT_TEXT or len(words) - len(unknown) >= ENGLISH_SHARE * len(words)

    def _correct_found(self, found: re.Match[str], text: str) -> str:
        word = found[0]
        is_name = not word.islower() and (word[1:] != word[1:].lower() or bool(text[: found.start()].strip()))
        if is_name:
            return word
        corrected = self.correct_word(word.lower())
        return word if corrected == word.lower() else corrected

    @lru_cache(maxsize=4_096)  # noqa: B019 - there is one Spelling in a process
    def correct_word(self, word: str) -> str:
        """Return the nearest word of the list, for a word in lower case that is not in it."""
        if word in SHORTHAND:
            return SHORTHAND[word]
        if len(word) < SHORTEST:
            return self._mend_short(word)
        if len(word) > LONGEST:
            return word
        if word in self.ranks:
            return self._mend_rare(word)
        if word[-1] == "s" and word[:-1] in self.ranks:
            plural = f"{word[:-2]}ies"  # lavatorys
            return plural if word[-2] == "y" and plural in self.ranks else word
        most = NEAR_COMPOUND if self._is_compound(word) else HEAVIEST
        near = [other for other in self._near(word) if most == HEAVIEST or weigh_edits(word, other) <= most]
        return min(near, key=lambda other: (self._cost(word, other), other), default=word)

    def _mend_short(self, word: str) -> str:
        """Return a short word with a slip, if without it, it is one of the most frequent ones (jbo, nad, tre)."""
        meant = (other for other in list_slips(word) if len(other) >= len(word))
        common = [other for other in meant if self.ranks.get(other, COMMON) < OFTEN_MEANT]
        return word if word in self.ranks or len(word) < 3 or len(common) != 1 else common[0]

    def _mend_rare(self, word: str) -> str:
        """Return a rare word of the list with a slip, if without it, it is a frequent one (dorp, tittle)."""
        if self.ranks[word] not in RARE:
            return word
        ranks = {other: self.ranks.get(other, FREQUENT) for other in list_slips(word)}
        return min((other for other in ranks if ranks[other] < FREQUENT), key=ranks.__getitem__, default=word)

    def _is_compound(self, word: str) -> bool:
        ranks = self.ranks
        halves = ((word[:at], word[at:]) for at in range(4, len(word) - 3))
        return any(max(ranks.get(one, COMMON), ranks.get(other, COMMON)) < COMMON for one, other in halves)

    def _near(self, word: str) -> Iterator[str]:
        """Yield the frequent words at most one edit away, or two from a longer word."""
        is_long = len(word) >= TWO_EDITS_FROM
        most, heaviest = (2, HEAVIEST) if is_long else (1, HEAVIEST_SHORT)
        differ_W = np.abs(self.letter_counts - count_letters(word)).sum(1)  # by 1 an added letter, by 2 another one
        for at in np.flatnonzero(differ_W <= 2 * most).tolist():
            other = self.words[at]
            if count_edits(word, other, most) <= most and weigh_edits(word, other) <= heaviest:
                yield other

    def _cost(self, word: str, near: str) -> float:
        rank = float(np.log10(self.ranks[near] + RANK_OFFSET))
        return EDIT_WEIGHT * weigh_edits(word, near) + FIRST_LETTER * EDIT_WEIGHT * (word[0] != near[0]) + rank


def list_slips(word: str) -> list[str]:
    """Return the words that this one may be a slip of: two letters exchanged, or a letter doubled or not."""
    exchanged = [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)]
    doubled = [word[: at + 1] + word[at:] for at in range(len(word))]
    single = [word[:at] + word[at + 1 :] for at in range(1, len(word)) if word[at] == word[at - 1]]
    return [other for other in dict.fromkeys(exchanged + doubled + single) if other != word]


def count_letters(word: str) -> NDArray[np.int8]:
    """Return int8 [26]: how often each letter from a to z is in a word."""
    places = np.frombuffer(word.encode(), np.uint8) - ord("a")
    return np.bincount(places[places < LETTERS], minlength=LETTERS).astype(np.int8)


def count_edits(word: str, other: str, most: int) -> int:
    """Return insertions, deletions, substitutions and transpositions from one word to another; more than `most` at `most` + 1.

    (The optimal string alignment of Damerau 1964.)
    """
    before, last = list[int](), list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            edits = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == wanted:
                edits = min(edits, before[j - 2] + 1)
            row.append(edits)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return last[-1]


def weigh_edits(word: str, meant: str) -> float:
    """Return the same with a weight for each edit: what people often do weighs less."""
    before, last = list[float](), [float(at) for at in range(len(meant) + 1)]
    for i, letter in enumerate(word, 1):
        row = [float(i)]
        for j, wanted in enumerate(meant, 1):
            added = last[j] + (0.6 if i > 1 and word[i - 2] == letter else 1.0)
            left_out = row[j - 1] + (0.6 if j > 1 and meant[j - 2] == wanted else 0.8 if wanted in VOWELS else 0.9)
            weight = min(added, left_out, last[j - 1] + weigh_substitution(letter, wanted))
            if i > 1 and j > 1 and letter == meant[j - 2] and word[i - 2] == wanted:
                weight = min(weight, before[j - 2] + 0.7)
            row.append(weight)
        before, last = last, row
    return last[-1]


def weigh_substitution(letter: str, wanted: str) -> float:
    """Return the cost of one letter in place of another: less for letters that are often confused."""
    if letter == wanted:
        return 0.0
    if letter in VOWELS and wanted in VOWELS:
        return 0.8
    return 0.9 if frozenset((letter, wanted)) in SIMILAR else 1.2


SPELLING = Spelling()
