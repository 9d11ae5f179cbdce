"""The text of an answer that grows token by token, and ends at a stop sequence.

tokens --add--> text that is final: whole characters, and no beginning of a stop sequence
"""

from collections.abc import Callable, Sequence

BROKEN = "\ufffd"  # in place of the bytes of a character that is not complete


class AnswerText:
    """The text of one answer. is_stopped: whether a stop sequence has ended it; the sequence is not part of it."""

    def __init__(self, decode: Callable[[list[int]], str], stop: Sequence[str] = ()) -> None:
        self._decode, self._stop = decode, stop
        self._ids = list[int]()
        self._from, self._to = 0, 0  # tokens whose text is known; later ones are decoded behind them
        self._held = ""
        self.is_stopped = False

    def add(self, id: int) -> str:
        """Add a token; return the text that has become final."""
        self._ids.append(id)
        return self._cut(self._take_text(is_end=False), is_end=False)

    def finish(self) -> str:
        """Return the rest of the text."""
        return self._cut(self._take_text(is_end=True), is_end=True)

    def _take_text(self, is_end: bool) -> str:
        known = self._decode(self._ids[self._from : self._to])
        text = self._decode(self._ids[self._from :])
        if text.endswith(BROKEN) and not is_end:
            return ""
        self._from, self._to = self._to, len(self._ids)
        return text[len(known) :]

    def _cut(self, text: str, is_end: bool) -> str:
        if self.is_stopped:
            return ""
        held = self._held + text
        places = [place for each in self._stop if (place := held.find(each)) >= 0]
        if places:
            self.is_stopped, self._held = True, ""
            return held[: min(places)]
        begun = 0 if is_end else max((count_begun(held, each) for each in self._stop), default=0)
        self._held = held[len(held) - begun :]
        return held[: len(held) - begun]


def count_begun(text: str, stop: str) -> int:
    """Return how many characters at the end of a text begin a stop sequence."""
    return next((count for count in range(len(stop) - 1, 0, -1) if text.endswith(stop[:count])), 0)
