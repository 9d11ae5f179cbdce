"""Makes what was learned from files the beginning of a model: its base, before the first event of its log.

files --BulkLoad--> model --publish_history--> base --the learner starts from it--> versions
"""

from online.errors import SetupError, Unavailable
from online.learning.base_building import publish_base
from online.learning.feedback_counts import FeedbackCounts
from online.learning.training_state import TrainingState
from online.models import Model, Options, recipe, spec_of
from online.models.statistics.partial_sums import has_partial_sums
from online.models.wrappers import find_wrapper
from online.settings import ModelSettings
from online.snapshots.manifest import Manifest
from online.state.base_snapshot import CLOSED_AT, HISTORY
from online.state.shared_base import SharedBase
from online.state.workspace import Workspace
from online.store import now
from online.store.deletion.event_expiry import load_expiry


def check_can_load(workspace: Workspace, spec: ModelSettings, options: Options) -> None:
    """Raise SetupError if a model cannot begin with a history: the sums of its kind do not add, or it has begun."""
    if not has_partial_sums(spec.kind, options):
        wrapper = find_wrapper(options)
        raise SetupError(
            f"model {spec.name!r} is a {spec.kind}{f' with a {wrapper.option.name}' if wrapper else ''}, whose examples "
            "cannot be summed apart; a history is loaded into a classifier, a regressor or a majority model"
        )
    expiry = workspace.store.read(lambda connection: load_expiry(connection, spec.name))
    if expiry.closed_until:
        raise SetupError(
            f"events of model {spec.name!r} have expired, and what they taught is in its base, which a history would "
            "replace; load it into a model of another name"
        )
    begun = [
        each for each in workspace.snapshots(spec.name).folder.manifests() if each.recipe == recipe(spec.kind, options)
    ]
    if begun:
        raise SetupError(
            f"model {spec.name!r} has {len(begun)} versions with these options, and a history comes before the first; "
            f"load it into a model of another name, or remove {workspace.snapshots(spec.name).folder} first: the model "
            "then learns its log again, after the history"
        )


def publish_history(
    workspace: Workspace, spec: ModelSettings, options: Options, model: Model, example_count: int
) -> Manifest:
    """Put a model that has learned a history on the disk as its base, in place of an earlier one."""
    training = TrainingState(spec.kind, options, "cpu", lambda until: ())
    training.model = model
    counts = FeedbackCounts(counts_right=not spec_of(spec.kind).predicts_numbers)
    metrics = {**counts.as_metrics(), CLOSED_AT: 0, HISTORY: example_count}
    snapshots, own_recipe = workspace.snapshots(spec.name), recipe(spec.kind, options)
    shared = SharedBase(snapshots, workspace.store, own_recipe)
    stored = shared.find_stored()
    parent = None if stored is None else stored.manifest.version
    base = publish_base(snapshots, own_recipe, training, metrics, now(), parent)
    if not shared.share(base):
        raise Unavailable(f"another replica has made a base of {spec.name} meanwhile; load the history again")
    return base
