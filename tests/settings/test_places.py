"""A setting in a place where it is unknown is answered with the place where it belongs."""

from pathlib import Path

import pytest

from online.cli.state import list_model_options
from online.evaluation.replay.candidate_files import parse_candidate
from online.models import create
from online.settings import load

MODEL = '[[models]]\nname = "m"\nkind = "classifier"\n'


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("abstain_below = 0.5", "'abstain_below' is an option of the kinds ranker, classifier"),
        ("abstain_bellow = 0.5", "'abstain_below' is an option of the kinds ranker, classifier"),
        ('drift = "act"', "'drift' is a setting of a model"),
        (
            'learn_on = "cpu"',
            r"'learn_on' is a setting of a model's placement: write it in the \[models.placement\] table",
        ),
        ("prot = 5", "did you mean 'port'"),
        (f"{MODEL}port = 9", "'port' is a setting of the service: write it at the top of online.toml"),
        (f"{MODEL}size = 9", "'size' is an option of the kinds"),
        (f"{MODEL}shrinkag = 9", "'shrinkage' is an option of the kinds"),
        (f'{MODEL}serve_on = "cpu"', "'serve_on' is a setting of a model's placement"),
        (f'{MODEL}[models.placement]\ndevice = "cpu"', "'device' is a setting of the service"),
    ],
)
def test_in_the_file(tmp_path: Path, toml: str, said: str) -> None:
    (tmp_path / "online.toml").write_text(toml)
    with pytest.raises(ValueError, match=said):
        load(tmp_path / "online.toml", (), list_model_options)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("ONLINE_ABSTAIN_BELOW", "ONLINE_ABSTAIN_BELOW in the environment: 'abstain_below' is an option"),
        ("ONLINE_GUARD", r"'guard' is a setting of a model: write it in its \[\[models\]\] table"),
        ("ONLINE_LEARN_ON", "'learn_on' is a setting of a model's placement"),
    ],
)
def test_in_the_environment(monkeypatch: pytest.MonkeyPatch, variable: str, said: str) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ValueError, match=said):
        load(None, (), list_model_options)


def test_a_variable_with_a_common_name_belongs_to_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_NAME", "shop")
    assert load(None, (), list_model_options).port == 8000


def test_as_an_assignment() -> None:
    with pytest.raises(ValueError, match="--set: unknown setting 'guard'; 'guard' is a setting of a model"):
        load(None, ["guard=all"], list_model_options)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("classifier:port=4", "unknown option 'port'; 'port' is a setting of the service"),
        ("classifier:guard=all", "'guard' is a setting of a model"),
        ("classifier:smoothing=4", "unknown option 'smoothing'; this kind has"),
        ("classifier:shrinkag=4", "did you mean 'shrinkage'"),
        ("majority:abstain_below=0.5", "unknown option 'abstain_below'.*it is an option of ranker, classifier"),
    ],
)
def test_as_an_option_of_a_candidate(given: str, said: str) -> None:
    candidate = parse_candidate(given, {})
    with pytest.raises(ValueError, match=said):
        create(candidate.kind, candidate.options)
