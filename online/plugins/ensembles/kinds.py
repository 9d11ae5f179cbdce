"""The kinds of this plugin."""

from online.models.kinds import KindSpec, classifier

KINDS: tuple[KindSpec, ...] = (
    classifier(
        "best_of",
        "online.plugins.ensembles.best_of:BestOf",
        state_is_signed=True,  # a member may be a river model
        is_ensemble=True,
        options_can_load_code=True,
        adapts=True,
    ),
    classifier(
        "ensemble",
        "online.plugins.ensembles.ensemble:Ensemble",
        state_is_signed=True,  # a member may be a river model
        is_ensemble=True,
        options_can_load_code=True,
        adapts=True,
        spans_devices=True,
    ),
)
