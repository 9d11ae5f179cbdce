"""The kinds of this plugin."""

from online.models.kinds import KindSpec, classifier

KINDS: tuple[KindSpec, ...] = (
    classifier(
        "river",
        "online.plugins.libraries.river:River",
        inputs=("table",),
        state_is_signed=True,
        options_can_load_code=True,
    ),
    KindSpec(
        "river_regressor",
        "online.plugins.libraries.river_regressor:RiverRegressor",
        "regression",
        inputs=("table",),
        state_is_signed=True,
        options_can_load_code=True,
    ),
    classifier(
        "sklearn",
        "online.plugins.libraries.sklearn_classifier:SklearnClassifier",
        state_is_signed=True,
        options_can_load_code=True,
    ),
    KindSpec(
        "sklearn_regressor",
        "online.plugins.libraries.sklearn_regressor:SklearnRegressor",
        "regression",
        state_is_signed=True,
        options_can_load_code=True,
    ),
)
