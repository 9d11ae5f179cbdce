"""Generates inputs, the same in every run: vectors around class centres, and distinct sentences."""

import itertools

import numpy as np

CLASSES = tuple(f"class-{number}" for number in range(10))
WIDTH = 30

WORDS = """
account airport answer balance bank battery before behind bill book bring budget calendar call card change
charge check city close coffee coming country credit customer date deliver dinner direction doctor early email
evening exchange family fast flight friend garden ground help holiday hotel hour house insurance kitchen know
language late letter light list lost luggage machine market meeting message minute money month morning music
need number office open order paper park password pay phone place plan please point price question quickly rain
reach read receipt remember rent report reserve restaurant return ride road room route sale schedule school send
service ship show sister sleep song speak spend start station stop store street summer table take talk team tell
ticket today tomorrow train transfer travel tree turn vacation visit wait walk water weather week where window
winter without word work write year yesterday
""".split()  # noqa: SIM905 (a list would have one word on each line)


def vectors(count: int, seed: int) -> list[tuple[list[float], str]]:
    """Return labelled points of WIDTH numbers around ten centres, each with 4 decimals and about 250 bytes as JSON."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(0, 1, (len(CLASSES), WIDTH))
    classes = draw.integers(0, len(CLASSES), count)
    points = np.round(centres[classes] + draw.normal(0, 0.8, (count, WIDTH)), 4)
    return [(point.tolist(), CLASSES[place]) for point, place in zip(points, classes, strict=True)]


def sentences(count: int, words: int, seed: int) -> list[str]:
    """Return distinct questions of about `words` words (two more or fewer)."""
    draw, questions = np.random.default_rng(seed), dict[str, None]()
    while len(questions) < count:
        length = max(2, words + int(draw.integers(-2, 3)))
        questions[" ".join(draw.choice(WORDS, length)) + "?"] = None
    return list(questions)


def labelled_sentences(count: int, words: int, seed: int) -> list[tuple[str, str]]:
    return list(zip(sentences(count, words, seed), itertools.cycle(CLASSES)))
