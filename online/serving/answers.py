"""Renders a model's answer for a response or a result file: one shape per task."""

from online.models import Answer, spec_of
from online.schemas.json_values import JSONObject


def render_answer(kind: str, answer: Answer, max_candidates: int) -> JSONObject:
    """Return an answer as a JSON object: a number, a class with probabilities, or a reply.

    max_candidates: the number of classes or replies that it lists, the best ones.
    """
    spec, answer = spec_of(kind), answer.top(max_candidates)
    if spec.predicts_numbers:
        return render_number(answer)
    if spec.has_routes:
        return render_route(answer)
    return render_reply(answer) if spec.has_repertoire else render_class(answer)


def render_number(answer: Answer) -> dict[str, object]:
    """Return a number with its interval."""
    low, high = answer.interval or (None, None)
    return {"value": None if answer.choice is None else float(answer.choice), "low": low, "high": high}


def render_class(answer: Answer) -> dict[str, object]:
    """Return a class with the probabilities of the likeliest."""
    probabilities = {candidate.id: candidate.score for candidate in answer.candidates}
    return {"label": answer.choice, "probabilities": probabilities}


def render_route(answer: Answer) -> dict[str, object]:
    """Return a route with its propensity and the probability of each route."""
    probabilities = {candidate.id: candidate.score for candidate in answer.candidates}
    return {"route": answer.choice, "propensity": answer.propensity, "probabilities": probabilities}


def render_reply(answer: Answer) -> dict[str, object]:
    """Return a reply with its candidates and its propensity."""
    candidates = [
        {"id": candidate.id, "text": candidate.text, "score": candidate.score} for candidate in answer.candidates
    ]
    chosen = next(({"id": c.id, "text": c.text} for c in answer.candidates if c.id == answer.choice), None)
    return {
        "reply": chosen,
        "score": answer.score,
        "propensity": answer.propensity,
        "candidates": candidates,
        "abstained": answer.abstained,
    }
