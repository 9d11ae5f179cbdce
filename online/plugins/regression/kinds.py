"""The kinds of this plugin."""

from online.models.kinds import KindSpec

KINDS: tuple[KindSpec, ...] = (
    KindSpec(
        "regressor",
        "online.plugins.regression.regressor:Regressor",
        "regression",
        is_exact=True,
        can_hash_texts=True,
        has_partial_sums=True,
    ),
)
