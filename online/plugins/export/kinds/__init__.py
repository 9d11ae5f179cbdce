"""The function that builds the graph of each kind, "module:function", and why the other kinds have none."""

from online.models.kinds import KindSpec

BUILDERS = {name: f"{__name__}.{name}:build" for name in ("classifier", "regressor", "majority", "logistic")}
VOTES = "its answer combines the votes of several models; export one of its members as a model of its own"
ESTIMATOR = "its estimator is an object of another library, which only Python can run"
REASONS = {
    "ranker": "its answer also depends on the conversation, the repertoire's corrections and a policy's draws",
    "best_of": VOTES,
    "ensemble": VOTES,
    "knn": "it answers from its examples themselves, and a file would give the inputs of others away",
    "river": ESTIMATOR,
    "river_regressor": ESTIMATOR,
    "sklearn": ESTIMATOR,
    "sklearn_regressor": ESTIMATOR,
}


def find_builder(spec: KindSpec) -> str:
    """Return "module:function" of what builds a kind's graph; "" for a kind that cannot be exported."""
    return spec.graph or BUILDERS.get(spec.name, "")


def explain_refusal(spec: KindSpec) -> str:
    """Return why versions of a kind cannot be exported."""
    return REASONS.get(spec.name, "there is no code that builds its answer as a graph")
