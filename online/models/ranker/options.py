"""The options of a ranker."""

from online.models.kinds import ANY_LANGUAGE, CHAT_LANGUAGE
from online.models.options import Option
from online.models.ranker.policies import POLICY_OPTIONS

OPTIONS = (
    Option(
        "language",
        CHAT_LANGUAGE,
        "The language that people type in. en: misspelt words are corrected, a short follow-up is read with the question "
        "before it, and a question in another language gets no reply unless one was taught. any: texts are read as they come; "
        "set it for a repertoire in another language.",
        choices=(CHAT_LANGUAGE, ANY_LANGUAGE),
    ),
    Option("encoder", "", "sha256 of the tuned text encoder; empty: the one that is shipped. Set by `online adapt`."),
    Option(
        "shrinkage",
        2.5,
        "Strength of the covariance's shrinkage. Raise it when few questions per reply mislead the model.",
        unit="examples per feature",
        low=0.0,
        high=1e6,
    ),
    Option(
        "abstain_below",
        0.38,
        "Abstain if nothing known about the chosen reply is as similar to the question. Raise it to answer less.",
        unit="cosine",
        low=-1e6,
        high=1e6,
    ),
    Option(
        "abstain_margin",
        4.0,
        "Abstain if the best reply leads the next one by less. Raise it when guesses are worse than no reply.",
        unit="score units",
        low=-1e6,
        high=1e6,
    ),
    Option(
        "min_chance",
        0.6,
        "Abstain if the chance that the best reply is right is lower, also where it follows a rejected one. Raise it where a wrong reply costs more than none; "
        "lower it to learn faster from thumbs while little is known.",
        unit="probability",
        low=0.0,
        high=1.0,
    ),
    Option("candidates", 5, "Replies listed in a prediction.", unit="replies", low=1, high=1e6),
    Option("max_replies", 5_000, "Most replies; further ones are refused.", unit="replies", low=1, high=1e6),
    Option(
        "max_exemplars",
        20_000,
        "Rated questions that are kept one by one: the newest, and corrections longer than thumbs.",
        unit="questions",
        low=1,
        high=1e6,
    ),
    *POLICY_OPTIONS,
)
