"""A candidate reads the features of a log only if texts become the same features for it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.model_setup import ModelSetup
from online.evaluation.sources.opening import open_source
from online.models.encoders.hashed import HASHED_EPOCH
from tests.evaluation.replaying import run_replay

HASHED = {"text_features": "hashed"}
QUESTIONS = {"order": "where is my order {}", "music": "play {} songs", "weather": "will it rain in {} days"}


def write_questions(folder: Path) -> Path:
    path = folder / "questions.jsonl"
    lines = [{"input": text.format(turn), "label": label} for turn in range(30) for label, text in QUESTIONS.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_questions_are_replayed_without_a_network(tmp_path: Path) -> None:
    report = run_replay(write_questions(tmp_path), CandidateSpec("classifier", HASHED)).report()
    assert report.events == 90
    assert (report.figures["right"] or 0) > 80


@pytest.mark.parametrize(
    ("logged", "candidate", "is_read"),
    [({}, {}, True), (HASHED, {}, True), ({}, HASHED, False), (HASHED, {"text_features": "minilm"}, False)],
)
def test_features_of_a_log_are_read_where_they_are_the_same(
    tmp_path: Path, logged: dict[str, Any], candidate: dict[str, Any], is_read: bool
) -> None:
    header = {"kind": "classifier", "options": {"input": "text", **logged}}
    source = replace(open_source(str(write_questions(tmp_path))), header=header)
    setup = ModelSetup(source, CandidateSpec("classifier", candidate))
    assert setup.reads_logged == is_read


def test_another_kind_reads_texts_of_a_hashed_log_by_its_own_encoder(tmp_path: Path) -> None:
    header = {"kind": "classifier", "options": {"input": "text", **HASHED}}
    source = replace(open_source(str(write_questions(tmp_path))), header=header)
    assert not ModelSetup(source, CandidateSpec("knn")).reads_logged


def test_a_candidate_encodes_texts_as_its_own_option_says(tmp_path: Path) -> None:
    encoder = ModelSetup(
        open_source(str(write_questions(tmp_path))), CandidateSpec("classifier", HASHED)
    ).create_encoder()
    assert encoder is not None and encoder.epoch == HASHED_EPOCH
