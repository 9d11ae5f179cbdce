"""The start of a cohort: what is checked of its parameters, and the row that it begins with."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from online.errors import BadInput, TooLarge
from online.models import BadExample, Options, create
from online.models.classifier import Classifier
from online.models.contributions import check_names, find_merging_obstacle
from online.models.retirement import RetirableModel
from online.serving.feedback.feedback import Feedback
from online_federated.bodies import choose_values_layout
from online_federated.schemas import CohortParameters
from online_federated.settings import CohortSettings
from online_federated.tables import CohortRow
from online_federated.values import count_file_bytes


def prepare_cohort(feedback: Feedback, parameters: CohortParameters, id: str, now: datetime) -> CohortRow:
    """Return the row of a new cohort of a model. Raises BadInput and TooLarge."""
    settings, options = feedback.settings, feedback.transactions.live.encoder_config.options
    obstacle = find_merging_obstacle(feedback.spec.kind, options)
    if obstacle is not None:
        raise BadInput(f"{feedback.name} takes no sums: {obstacle}")
    check_classes(parameters.classes, settings.max_label_chars)
    check_size(parameters, settings.part(CohortSettings))
    if parameters.max_examples > settings.max_merge_examples:
        raise BadInput(
            f"a member may have {settings.max_merge_examples:,} examples at most (max_merge_examples), "
            f"not {parameters.max_examples:,}"
        )
    model = create_classifier(options)
    layout = choose_values_layout(parameters, model.statistics.width)
    size = max(layout.byte_count, count_file_bytes(layout))
    if size > settings.max_merge_bytes:
        raise TooLarge(
            f"the sums of this cohort take up to {size:,} bytes, and at most {settings.max_merge_bytes:,} are merged "
            "(max_merge_bytes)"
        )
    return CohortRow(
        model=feedback.name,
        id=id,
        state="joining",
        parameters=parameters.model_dump_json(),
        width=model.statistics.width,
        features=json.dumps(model.describe_features()),
        member_count=0,
        created_at=now.isoformat(),
        deadline=(now + timedelta(seconds=parameters.round_s)).isoformat(),
        reason=None,
    )


def check_size(parameters: CohortParameters, limits: CohortSettings) -> None:
    """Raise BadInput for a cohort that may have too few or too many members."""
    least = count_least(parameters, limits)
    if not limits.min_cohort_members <= least <= parameters.size <= limits.max_cohort_members:
        raise BadInput(
            f"a cohort of {least} to {parameters.size} members; it may have {limits.min_cohort_members} "
            f"(min_cohort_members) to {limits.max_cohort_members} (max_cohort_members)"
        )


def count_least(parameters: CohortParameters, limits: CohortSettings) -> int:
    """Return the number of members below which a cohort fails."""
    return limits.min_cohort_members if parameters.least is None else parameters.least


def check_classes(classes: Sequence[str], max_chars: int) -> None:
    """Raise BadInput for names that the total could not have."""
    try:
        check_names(classes)
    except BadExample as error:
        raise BadInput(str(error)) from None
    if len({*classes}) < len(classes):
        raise BadInput("a class is named twice")
    if (length := max(map(len, classes))) > max_chars:
        raise BadInput(f"a class has a name of {length} characters; it may have {max_chars} (max_label_chars)")


def create_classifier(options: Options) -> Classifier:
    """Create the classifier whose sums are added."""
    model = create("classifier", options)
    own = model.model if isinstance(model, RetirableModel) else model
    assert isinstance(own, Classifier), "other kinds take no sums"
    return own
