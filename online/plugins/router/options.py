"""The options of a router."""

from online.models.kinds import HASHED, MINILM
from online.models.options import Option

SIGNALS = {  # what a reward came from, and how much of a thumb it counts
    "": 1.0,
    "preference": 1.0,
    "judge": 0.5,
    "regenerate": 0.5,
    "retry": 0.5,
    "edit": 0.5,
    "copy": 0.25,
}
BUDGET = "max_cost_per_1k"

OPTIONS = (
    Option(
        "text_features",
        MINILM,
        "What questions become: the numbers of a network that knows meanings (minilm), or of hashed words, which take a "
        "tenth of a millisecond (hashed).",
        choices=(MINILM, HASHED),
    ),
    Option(
        "routes", [], "The routes, as `[[models.routes]]` tables of online.toml. Without any: those that ratings name."
    ),
    Option(
        BUDGET,
        0.0,
        "Most US dollars that 1,000 requests may cost on average; a price on cost keeps it. 0: no budget.",
        unit="US dollars",
        low=0.0,
        high=1e6,
    ),
    Option(
        "cost_weight",
        0.0,
        "Reward that an answer must bring to be worth one US dollar per 1,000 requests, beside the budget.",
        low=0.0,
        high=1e6,
    ),
    Option(
        "latency_weight", 0.0, "Reward that an answer must bring to be worth one second of waiting.", low=0.0, high=1e6
    ),
    Option(
        "explore",
        0.05,
        "Share of the questions that tries another route than the best one, so that the log says something about each. "
        "Raise it while little is known.",
        low=0.0,
        high=0.25,
    ),
    Option(
        "explore_new",
        0.2,
        "Further share for all routes that have few ratings, which falls to 0 as they are rated.",
        low=0.0,
        high=0.5,
    ),
    Option("explore_ratings", 40, "Ratings from which a route is no longer new.", unit="ratings", low=1, high=1e6),
    Option(
        "explore_cost",
        0.05,
        "Largest share of the budget that trying other routes may cost.",
        low=0.0,
        high=1.0,
    ),
    Option(
        "stay",
        0.02,
        "Reward by which another route must be better to take over a conversation, beside the prompt cache that is lost.",
        low=0.0,
        high=1.0,
    ),
    Option(
        "signal_weights",
        {},
        "How much of a thumb each signal counts, by its name: preference, judge, regenerate, retry, edit, copy.",
    ),
    Option("judge", "", "The name of a route whose language model rates a share of the answers of the others."),
    Option("judge_share", 0.02, "The share of the answers that the judge rates.", low=0.0, high=1.0),
    Option(
        "keep_answers",
        False,
        "Whether the texts of all answers are kept, beside those of conversations of the page, so that a local model can "
        "learn from them. They go with their predictions and their users.",
    ),
    Option("group_ratings", 12.0, "Ratings of a team or user at which its own preferences count by half.", above=0.0),
)
UNLEARNED = (  # options that do not change what is learned
    "routes",
    BUDGET,
    "cost_weight",
    "latency_weight",
    "explore",
    "explore_new",
    "explore_ratings",
    "explore_cost",
    "explore_user_share",
    "stay",
    "group_ratings",
    "keep_answers",
    "judge",
    "judge_share",
)
