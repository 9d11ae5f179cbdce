"""The options of a classifier on exact statistics."""

from online.models import inputs
from online.models.options import Option
from online.models.statistics.heads import HEADS

OPTIONS = (
    *inputs.OPTIONS,
    Option(
        "head",
        "slda",
        "How weights are solved: slda (linear discriminants), ridge, rp_ridge (ridge on random features) or best "
        "(chosen by held-out feedback). Try best when a line does not separate the classes.",
        choices=HEADS,
    ),
    Option(
        "random_features",
        1_024,
        "Random features of the heads rp_ridge and best. More follow finer boundaries, at quadratic memory.",
        low=0,
        high=16_384,
    ),
    Option(
        "seed",
        0,
        "Seed of the random features. Change it only to measure how much the draw matters.",
        low=0,
        high=2**63,
    ),
    Option(
        "shrinkage",
        0.5,
        "Strength of the covariance's shrinkage. Raise it when few examples mislead the model.",
        unit="examples per feature",
        low=0.0,
        high=1e9,
    ),
    Option("priors", True, "Prefer frequent classes. Turn it off when the log does not show true frequencies."),
    Option(
        "abstain_below",
        0.0,
        "Abstain if the learned chance of being right is lower. Raise it where a wrong answer costs more than none.",
        unit="probability",
        low=0.0,
        high=1.0,
    ),
    Option("outside", "", 'A class that means "none of these": never answered, it teaches the model when to abstain.'),
    Option(
        "max_labels",
        1_000,
        "Most classes; examples of further ones are refused.",
        unit="classes",
        low=1,
        high=1_000_000,
    ),
    Option(
        "window",
        0,
        "Newest examples of a class that count; 0: all. Set it when classes change steadily.",
        unit="examples",
        low=0,
    ),
    Option(
        "max_age",
        0,
        "Age at which an example is forgotten; 0: never. Set it where old examples must not count or be kept.",
        unit="events",
        low=0,
        high=1e15,
    ),
    Option(
        "recent",
        1_024,
        "Newest examples that are kept so that the model can rely on them alone after an alarm, where they answer "
        "better than all examples; 0 (never), or at least 80.",
        unit="examples",
        low=0,
        high=65_536,
    ),
    Option(
        "drift_window",
        0,
        "Newest examples of a class that are kept so that an alarm of drift can discard older ones; 0: it cannot. "
        "It needs drift = act, the default.",
        unit="examples",
        low=0,
    ),
)
