"""Topics of questions, and which route answers each best.

The questions are grouped by meaning around centers (spherical k-means: Dhillon & Modha 2001), from the same start each time. A topic is
named by the words that are more frequent in it than elsewhere.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.plugins.router.report.logged_answers import LoggedAnswer
from online.plugins.router.report.valuation import Interval, Valuation, average

MOST_TOPICS = 8
LEAST_QUESTIONS = 25  # of a topic, on average
ROUNDS = 20
WORD = re.compile(r"[^\W\d_]{3,}")
WORDS = 3
LEAST_SHARE = 0.05  # of the questions of a topic that have a word which names it


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. example: the question that is nearest to its center. worth: of each route, had it answered all of its questions."""

    words: list[str]
    questions: int
    example: str
    worth: dict[str, Interval]
    answers: Counter[str]
    rated: Counter[str]


def find_topics(answers: Sequence[LoggedAnswer], valuation: Valuation) -> list[Topic]:
    """Return the topics of questions, the largest first; none where too few questions are known."""
    known = [place for place, each in enumerate(answers) if each.question]
    count = min(MOST_TOPICS, len(known) // LEAST_QUESTIONS)
    if count < 2:
        return []
    units_ND = np.stack([answers[place].input.text_D for place in known]).astype(np.float64)
    units_ND /= np.maximum(np.linalg.norm(units_ND, axis=1, keepdims=True), 1e-9)
    group_N, nearness_N = group(units_ND, count)
    worth = {name: valuation.value_rewards(valuation.always(name))[known] for name in valuation.routes}
    spoken = [{*map(str.lower, WORD.findall(answers[place].question))} for place in known]
    overall = Counter(word for words in spoken for word in words)
    topics = list[Topic]()
    for topic in range(count):
        members = np.flatnonzero(group_N == topic)
        if not len(members):
            continue
        own = [answers[known[place]] for place in members]
        intervals = {name: average(terms_N[members], 0.0, 1.0) for name, terms_N in worth.items()}
        topics.append(
            Topic(
                choose_words([spoken[place] for place in members], overall, len(known)),
                len(members),
                own[int(nearness_N[members].argmax())].question,
                {name: each for name, each in intervals.items() if each is not None},
                Counter(each.route for each in own),
                Counter(each.route for each in own if each.reward is not None),
            )
        )
    return sorted(topics, key=lambda each: -each.questions)


def group(units_ND: NDArray[np.float64], count: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the topic of each question and its cosine to the center of that topic. The first centers are far from each other."""
    centers = [units_ND.mean(0)]
    for _ in range(count):
        nearest_N = (units_ND @ np.stack(centers).T).max(1)
        centers.append(units_ND[int(nearest_N.argmin())])
    centers_TD = np.stack(centers[1:])
    for _ in range(ROUNDS):
        cosines_NT = units_ND @ centers_TD.T
        group_N = cosines_NT.argmax(1)
        sums_TD = np.stack([units_ND[group_N == topic].sum(0) for topic in range(count)])
        centers_TD = sums_TD / np.maximum(np.linalg.norm(sums_TD, axis=1, keepdims=True), 1e-9)
    cosines_NT = units_ND @ centers_TD.T
    return cosines_NT.argmax(1), cosines_NT.max(1)


def choose_words(spoken: Sequence[set[str]], overall: Counter[str], questions: int) -> list[str]:
    """Return the words that name a topic. spoken: the words of its questions. overall: in how many of all questions each word is."""
    own = Counter(word for words in spoken for word in words)
    lift = {
        word: count / len(spoken) * np.log(count / len(spoken) * questions / overall[word])
        for word, count in own.items()
        if count >= max(2, LEAST_SHARE * len(spoken))
    }
    return sorted(lift, key=lambda word: (-lift[word], word))[:WORDS]
