"""The set-up of a candidate for a source: its kind, options and encoder, all checked before anything runs.

source + candidate --> ModelSetup --> options of the model, encoder of the inputs
sources + candidates --check_candidates--> BadInput that names every model that cannot be made
"""

import os
from collections.abc import Mapping, Sequence

from online.errors import BadInput, OnlineError
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.sources.column_profile import TableProfile
from online.evaluation.sources.encoded_columns import encode_columns
from online.evaluation.sources.replay_source import Source
from online.io.cache import cache_folder
from online.io.collector import collect_seldom
from online.models import Encoder, admit_all, create, describe_options, encoder_options, find_named_code, spec_of
from online.models.encoders.factory import create_encoder
from online.models.kinds import MINILM
from online.models.lazy_torch import use_one_thread
from online.schemas.json_values import JSONObject
from online.settings import Drift, ModelSettings

SERVICE_DRIFT: Drift = ModelSettings.model_fields["drift"].default  # of a service without another setting


class ModelSetup:
    """The reading of a source by a candidate.

    own: whether the source is a log of its kind. is_whole: whether it sees every column of the source. same: whether
    the log's model had the same options, too, and saw the same columns.
    reads_logged: whether it reads the features in the log, and needs no encoder.
    """

    def __init__(self, source: Source, candidate: CandidateSpec) -> None:
        """Choose the encoder. Raises BadInput for a kind that cannot read the source, ValueError for an unknown kind."""
        kind = candidate.kind
        if candidate.from_operator:
            admit_all([(kind, candidate.options)])
        self.source, self.candidate, self.spec = source, candidate, spec_of(kind)
        if source.numbers and not self.spec.predicts_numbers:
            raise BadInput(f"{source.name} holds numbers to predict: replay it with --model regressor")
        if source.survey is not None and self.spec.predicts_numbers:
            raise BadInput(
                f"{source.name} holds decisions, and a {kind} makes no choices; replay a model that predicts classes"
            )
        self.own = source.header.get("kind") == kind
        self.options = self._options()
        self.profile = self._fit_profile()
        self.is_whole = not source.left_out
        self.same = self.own and self.is_whole and {**self.options, "key": 0} == {**source.header["options"], "key": 0}
        self.reads_logged = (self.own or (self.spec.has_input_option and self._same_input())) and self._same_features()
        served_drift: Drift = source.header.get("drift", "watch") if self.own else SERVICE_DRIFT
        self.drift: Drift = candidate.drift or served_drift

    @property
    def settings(self) -> JSONObject:
        """What decides the result beside the source: drift, delay, order, batches, and other options than the defaults."""
        given = self.source.header["options"] if self.own else {}
        usual = {option.name: option.default for option in describe_options(self.candidate.kind)}
        own = {name: value for name, value in {**given, **self.candidate.options}.items() if name != "key"}
        options = {name: value for name, value in own.items() if name not in usual or usual[name] != value}
        delay, every = self.source.reads.delay.as_text(), self.candidate.every
        sorted_by = "" if self.source.is_in_order else self.source.reads.delay.at
        others = {"delay": delay, "sorted_by": sorted_by, "every": every if every > 1 else None, "options": options}
        return {"drift": self.drift, **{name: value for name, value in others.items() if value}}

    def _options(self) -> dict[str, object]:
        """Return the log's own options if its kind is replayed, else those that fit the source's inputs."""
        given = dict(self.candidate.options)
        if self.own:
            merged = {**self.source.header["options"], **given}
            check_named_code(self.source.name, self.candidate, merged)
            return merged
        if self.spec.has_repertoire:
            raise BadInput("a ranker replays a log of a ranker; labelled data is for a classifier or a river model")
        if self.spec.has_input_option:
            seen = {"input": self.source.input, "size": self.source.size} if self.source.input else self._logged_input()
            return {**seen, **given}
        return given

    def _logged_input(self) -> dict[str, object]:
        options = self.source.header["options"]
        return {name: options[name] for name in ("input", "size") if name in options} or {"input": "text"}

    def _same_input(self) -> bool:
        return bool(self.source.header) and self.options.get("input", "text") == self._logged_input().get(
            "input", "text"
        )

    def _same_features(self) -> bool:
        """Return whether texts become the same features as in the log."""
        logged = self.source.header.get("options", {}).get("text_features", MINILM)
        return bool(encoder_options(self.candidate.kind, self.options)["text_features"] == logged)

    def create_encoder(self) -> Encoder | None:
        """Create the encoder of the instances; None if the features are read from the log."""
        if self.reads_logged:
            return None
        return create_row_encoder(encoder_options(self.candidate.kind, self.options), self.source, self.profile)

    def _fit_profile(self) -> TableProfile:
        """Return what this model reads of a row of the source. Raises BadInput if the columns do not give that."""
        try:
            return self.source.profile.fit(str(encoder_options(self.candidate.kind, self.options)["input"]))
        except ValueError as error:
            raise BadInput(f"{self.source.name}: {error}") from None


def check_named_code(log: str, candidate: CandidateSpec, options: Mapping[str, object]) -> None:
    """Raise BadInput if the options name code that only the log names, and not the operator.

    options: the candidate's, with those of the log.
    """
    if foreign := sorted(find_named_code(options) - find_named_code(candidate.options)):
        raise BadInput(
            f"{log} was learned with the code {foreign[0]}, and a log cannot decide what runs here: if it is yours, "
            f"name it, too, as in --model {candidate.kind}:estimator={foreign[0]}"
        )


def create_row_encoder(options: Mapping[str, object], source: Source, profile: TableProfile) -> Encoder:
    """Create the encoder of a source's instances, which uses every core for texts. profile: what it reads of a row."""
    cores = len(os.sched_getaffinity(0))
    encoder: Encoder = create_encoder(options, cache_folder(), cores, keeps=source.reads.keeps_features)
    return encode_columns(encoder, profile)


def prepare_process() -> None:
    """Let this process, which replays and does little else, compute on one thread and look for garbage less often.

    A replay keeps many objects and makes no cycles: the collector of cycles took a tenth of its time.
    """
    use_one_thread()
    collect_seldom()


def check_candidates(sources: Sequence[Source], candidates: Sequence[CandidateSpec]) -> None:
    """Make every model once, and drop it.

    Raises BadInput that names all that can be made for none of the sources, each with the reason. A model that fits
    some of several sources is not refused: it fails on the others alone.
    """
    refused: dict[str, str] = {}
    for each in candidates:
        reasons = [find_obstacle(source, each) for source in sources]
        if reasons and all(reasons):
            refused[each.name or each.kind] = str(reasons[0])
    if refused:
        raise BadInput(describe_refused(refused, len(candidates)))


def find_obstacle(source: Source, candidate: CandidateSpec) -> str | None:
    """Return why the model cannot be made for the source, or None if it can."""
    try:
        create(candidate.kind, ModelSetup(source, candidate).options)
    except (OnlineError, ValueError, ImportError) as error:
        return str(error)
    return None


def describe_refused(refused: Mapping[str, str], count: int) -> str:
    """refused: the reason for each, by name. count: of all candidates."""
    if count == 1:
        return next(iter(refused.values()))
    listed = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return f"{len(refused)} of {count} models cannot be made, and nothing was replayed: {listed}"
