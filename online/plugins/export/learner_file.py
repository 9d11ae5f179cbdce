"""The file with which a classifier goes on learning elsewhere, such as in a browser, and comes back.

    Classifier --write_learner_file--> sums + how inputs are read + what was decided --read_learner_file--> Classifier

It holds integer sums instead of examples, so that what is learned from it has the fingerprint of a model that learned
all examples in one place. What is not in the sums is left behind: held-out examples and the newest rows. Until the
model has grown by half, what held-out feedback decided before is kept.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from online.models.classifier import Classifier
from online.models.contract import Model, Options
from online.models.contributions import check_names
from online.models.encoders.columns import Column
from online.models.exchange.sums_file import SumsFile, read_sums, write_sums
from online.models.retirement import RetirableModel
from online.models.statistics.heads import HeadDecision
from online.schemas.json_values import JSONArray

KIND = "classifier"
HEADS = ("slda", "ridge")
UNUSED_OPTIONS: Options = {"outside": "", "window": 0, "drift_window": 0, "max_age": 0}
LARGEST_EXPONENT = 1022  # 2 to its power, and to its negative, is a normal float64
LARGEST_CENTRE = 2**53 - 1  # the largest integer that every reader of JSON keeps


@dataclass(frozen=True, slots=True)
class LearnerFacts:
    """The model and the version of a file. learned_until: the offset of the last event in it."""

    model: str = ""
    version: str = ""
    learned_until: int = 0


def write_learner_file(model: Model, facts: LearnerFacts) -> bytes:
    """Return the file of a model. Raises ValueError that says why the model cannot go on learning elsewhere."""
    reason = find_obstacle(model)
    if reason:
        raise ValueError(reason)
    classifier = unwrap(model)
    assert classifier is not None, "it has no obstacle"
    meta = {
        **asdict(facts),
        **classifier.inputs.mapping(),
        "kind": KIND,
        "options": classifier.options,
        "reads": classifier.feature_epoch(),
        "octave": classifier.head.projection.octave,
        "decided": pack_decision(classifier.head.decided),
        "fingerprint": classifier.fingerprint(),
    }
    return write_sums(classifier.statistics, meta)


def pack_decision(decided: HeadDecision) -> dict[str, object]:
    """Return a decision as JSON, which has no number for the loss of no examples."""
    return {**asdict(decided), "loss": decided.loss if math.isfinite(decided.loss) else 0.0}


def find_obstacle(model: Model) -> str:
    """Return why a model cannot go on learning from its sums alone; "" if it can."""
    classifier = unwrap(model)
    if classifier is None:
        return "only a model of kind classifier, without retired classes, can go on learning elsewhere"
    options = classifier.options
    if options["head"] not in HEADS:
        return f"head {options['head']!r} cannot be solved elsewhere; use {' or '.join(HEADS)}"
    if classifier.inputs.kind == "table":
        return "tables are read by columns that grow; only texts and vectors can be learned elsewhere"
    for name, unused in UNUSED_OPTIONS.items():
        if options[name] != unused:
            return f"option {name} = {options[name]!r} needs the examples, which are not in the sums"
    if classifier.inputs.warm is not None:
        return "the model still collects examples to fit its scales to; declare option 'scale', or teach it more"
    if classifier.inputs.columns.bands:
        return "its numbers left their first scale and are read by further ones; declare option 'scale'"
    if classifier.adaptation.recent is not None or classifier.adaptation.contest is not None:
        return "after an alarm of drift the model compares recent examples, which are not in the sums"
    if not classifier.has_sums:
        return "the sums of the model are not loaded, only what predicts"
    return ""


def unwrap(model: Model) -> Classifier | None:
    """Return the classifier that a model is; None for other kinds, and while classes are retired."""
    if isinstance(model, RetirableModel):
        return None if model.changes else unwrap(model.model)
    return model if isinstance(model, Classifier) else None


def read_learner_file(data: bytes, device: str = "cpu") -> Classifier:
    """Return the classifier of a file. Raises ValueError for a file that is damaged, or of another kind of model."""
    file = read_sums(data)
    if file.meta.get("kind") != KIND or file.meta.get("warm") is not False:
        raise ValueError(f"the file must be of a {KIND} whose scales are fixed")
    options = read_options(file)
    mapping = {"columns": read_columns(file, options), "warm": False}  # before a classifier of this size is created
    decided, octave = read_decision(file, options.get("head", "slda")), file.meta.get("octave")
    if not isinstance(octave, (int, float)) or not math.isfinite(octave):
        raise ValueError("the file must have a number as 'octave'")
    check_names(file.statistics.classes)
    classifier = Classifier(options, device)
    classifier.restore_sums(mapping, float(octave), decided, file.statistics)
    check_identity(file, classifier)
    return classifier


def read_options(file: SumsFile) -> Options:
    """Return the options, which a classifier checks when it is created."""
    options = file.meta.get("options")
    if not isinstance(options, dict):
        raise ValueError("the file must have the options of its model")
    if options.get("head", "slda") not in HEADS or options.get("input", "text") not in ("text", "vector"):
        raise ValueError(f"the file must be of a head {' or '.join(HEADS)} that reads texts or vectors")
    if any(options.get(name, unused) != unused for name, unused in UNUSED_OPTIONS.items()):
        raise ValueError(f"the options {', '.join(UNUSED_OPTIONS)} need examples, which are not in the file")
    return options


def read_columns(file: SumsFile, options: Options) -> Sequence[JSONArray]:
    """Return the columns of a vector, as `Inputs.mapping` returns them; none of a text."""
    columns = file.meta.get("columns")
    size = options.get("size", 0) if options.get("input", "text") == "vector" else 0
    if not isinstance(columns, list) or len(columns) != size:
        raise ValueError(f"the file must describe the {size} numbers of an input")
    for place, entry in enumerate(columns):
        if not is_column(entry, str(place)):
            raise ValueError(f"column {place} must be [name, true, exponent, centre], not {str(entry)[:80]}")
    return columns


def is_column(entry: object, name: str) -> bool:
    """Return whether an entry describes a usable column of this name."""
    if not isinstance(entry, list) or len(entry) != 4 or entry[0] != name or entry[1] is not True:
        return False
    column = Column(*entry)
    if type(column.exponent) is not int or type(column.centre) is not int:
        return False
    return abs(column.exponent) <= LARGEST_EXPONENT and abs(column.centre) <= LARGEST_CENTRE


def read_decision(file: SumsFile, head: str) -> HeadDecision:
    """Return what held-out feedback decided."""
    try:
        decided = HeadDecision.from_json(file.meta["decided"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the file must say what was decided about its head") from error
    confidence = decided.confidence
    fitted = (*confidence.weights, confidence.centre, confidence.spread)
    numbers = (decided.temperature, decided.ridge_ratio, decided.loss, *fitted)
    is_valid = len(confidence.weights) == 3 and all(
        isinstance(each, (int, float)) and math.isfinite(each) for each in numbers
    )
    if not is_valid or min(decided.temperature, decided.ridge_ratio, confidence.spread) <= 0 or decided.head != head:
        raise ValueError(
            f"what was decided must be about head {head!r}, in finite numbers, with a positive temperature"
        )
    return decided


def check_identity(file: SumsFile, classifier: Classifier) -> None:
    """Raise ValueError if the sums are of other features, or not those that the writer had."""
    if file.meta.get("reads") != classifier.feature_epoch():
        raise ValueError(
            f"the file was learned from {str(file.meta.get('reads'))[:80]!r}, "
            f"and its options read {classifier.feature_epoch()!r}"
        )
    fingerprint = file.meta.get("fingerprint")
    if fingerprint is not None and fingerprint != classifier.fingerprint():
        raise ValueError("the sums of the file are not those of its fingerprint")
