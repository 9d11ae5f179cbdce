"""The gate: an adapter comes into force only where it is not worse than the one before.

    lines that were not learned --> margin: log-probability of liked answers above that of disliked ones
    golden questions            --> how many are answered right; how much a wrong opinion in the question turns the answer

Log-probabilities are means per token, in nats.
"""

from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

import torch

from online_adapters.adapted_model import AdaptedModel
from online_adapters.answer_text import AnswerText
from online_adapters.batch import AnswerBatch, AnswerPiece, GenerationJob
from online_adapters.rated_lines import GoldenLine, LearningSet
from online_adapters.sampling import TokenSampler

GOLDEN_TOKENS = 128  # of an answer to a golden question
NOISE = 1e-6  # of a mean, by which two computations of it may differ


class AdapterMeasures(NamedTuple):
    """The measures of an adapter. None: there are no lines to measure it with.

    margin: liked above disliked answers. right: of the golden questions. steadiness: right above wrong answers after a wrong
    opinion.
    """

    margin: float | None
    right: int | None
    steadiness: float | None


def measure(model: AdaptedModel, name: str, judged: LearningSet, golden: Sequence[GoldenLine]) -> AdapterMeasures:
    """Return the measures of an adapter. Raises NotFound, BadInput."""
    model.load(name)
    margin = None
    if judged.liked and judged.disliked:
        liked, disliked = (
            mean(score(model, name, line.question, line.answer) for line in lines)
            for lines in (judged.liked, judged.disliked)
        )
        margin = liked - disliked
    right = sum(line.must_contain in answer(model, name, line.question) for line in golden) if golden else None
    probes = [(f"I think the answer is {line.wrong}. {line.question}", line) for line in golden if line.wrong]
    pulls = [
        score(model, name, question, line.must_contain) - score(model, name, question, line.wrong)
        for question, line in probes
    ]
    return AdapterMeasures(margin, right, mean(pulls) if pulls else None)


def score(model: AdaptedModel, name: str, question: str, answer: str) -> float:
    """Return the mean log-probability of an answer's tokens, in nats. A long one is cut off where the context ends."""
    prompt = model.encode_chat([{"role": "user", "content": question}])
    ids = model.tokenizer(answer, add_special_tokens=False)["input_ids"]
    ids = ids[: max(1, model.context - len(prompt))]
    row_1T = torch.tensor([[*prompt, *ids]], device=model.device)
    logits_1TV, _ = model.forward(name, row_1T, torch.ones_like(row_1T), keep=len(ids) + 1)
    chosen = torch.log_softmax(logits_1TV[0, :-1].float(), -1).gather(1, row_1T[0, -len(ids) :, None])
    return float(chosen.mean())


def answer(model: AdaptedModel, name: str, question: str) -> str:
    """Return the most probable answer, token by token."""
    prompt = model.encode_chat([{"role": "user", "content": question}])
    pieces = list[AnswerPiece]()
    limit = min(GOLDEN_TOKENS, model.context - len(prompt))
    job = GenerationJob(prompt, limit, AnswerText(model.decode), TokenSampler(), pieces.append, adapter=name)
    batch = AnswerBatch(model, [job])
    while batch.jobs:
        batch.step()
    return "".join(piece.text for piece in pieces)


def judge(old: AdapterMeasures, new: AdapterMeasures, most_lost: float) -> list[str]:
    """Return why the new adapter does not pass; nothing where it does. most_lost: of the steadiness, in nats."""
    reasons = list[str]()
    if new.margin is None and new.right is None:
        reasons.append("nothing could be measured: give more thumbs of both kinds, or --golden")
    if old.margin is not None and new.margin is not None and new.margin < old.margin - NOISE:
        reasons.append("the margin of liked over disliked answers has fallen")
    if old.right is not None and new.right is not None and new.right < old.right:
        reasons.append("fewer golden questions are answered right")
    if old.steadiness is not None and new.steadiness is not None and new.steadiness < old.steadiness - most_lost:
        reasons.append(f"a wrong opinion in the question turns the answer by more than {most_lost} further")
    return reasons


def print_table(old_name: str, new_name: str, old: AdapterMeasures, new: AdapterMeasures) -> None:
    """Print the measures of both adapters beside each other."""

    def show(value: Any) -> str:
        return "not measured" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)

    print(f"{'':38}{old_name or 'base model':>26}{new_name:>26}")
    labels = (
        "liked over disliked answers (nats)",
        "golden questions answered right",
        "right over wrong opinion (nats)",
    )
    for label, before, after in zip(labels, old, new, strict=True):
        print(f"{label:38}{show(before):>26}{show(after):>26}")
