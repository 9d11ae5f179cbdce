"""The kinds of this plugin."""

from online.models.kinds import KindSpec, classifier

KINDS: tuple[KindSpec, ...] = (
    classifier(
        "knn",
        "online.plugins.neighbours.knn:Knn",
        is_exact=True,
        adapts=True,
    ),
)
