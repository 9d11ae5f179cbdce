"""A champion and its challenger: who is served, by what evidence, and which two may meet."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from online.errors import BadInput
from online.evaluation.scorers import every_candidate
from online.evaluation.sent import check_options
from online.models import BadExample, Example, Model, Options, create, recipe
from online.models.contest import CHALLENGER, CHAMPION, Contest, answering, told_of
from online.models.encoder import adapts
from online.models.knn import Knn
from online.models.retired import Retiring
from tests.models.synthetic import TOPICS, labels_only, numbers, replies, tables, text, texts, vectors
from tests.models.test_best_of import served_at, stream

KEY = "5e" * 32
SHY: Options = {
    "abstain_margin": 1e6,
    "abstain_below": 2.0,
}  # a ranker that answers what it was asked before, and nothing else


def contest(kind: str, options: Options, /, **challenger: Any) -> Contest:
    made = create(kind, {**options, "challenger": challenger})
    assert isinstance(made, Contest)
    return made


def line_and_near(**more: Any) -> Contest:
    return contest("logistic", {"input": "vector", "size": 2}, kind="knn", **more)


def corrections(count: int) -> list[Example]:
    kept = [example for example in texts(2 * count, 1) if example.kind == "label"]
    return [replace(example, offset=100 + place, kind="correction") for place, example in enumerate(kept)]


def test_the_better_one_takes_over_and_stays() -> None:
    model = line_and_near(patience=100)
    served = served_at(model, stream(600, ring=True))
    assert (served[0], served[-1]) == (CHAMPION, CHALLENGER)
    assert sum(one != other for one, other in pairwise(served)) == 1
    facts = model.facts()
    assert facts["challenger_served"] == 1.0 and "challenger_missed" not in facts
    assert facts["challenger_percent"] > facts["champion_percent"] + 10
    assert facts["contested"] == 600
    assert told_of(facts).endswith(f"challenger {facts['challenger_percent']:.1f} % (served)")


def test_the_answers_are_those_of_who_is_served() -> None:
    model, examples = line_and_near(patience=100), stream(600, ring=True)
    alone = create("knn", {"input": "vector", "size": 2})
    for taught in (model, alone):
        taught.learn(examples)
    asked = [example.features for example in stream(50, ring=True, seed=1)]
    assert model.predict(asked) == alone.predict(asked)


def test_equals_do_not_take_turns() -> None:
    twins = contest("knn", {"input": "vector", "size": 2}, options={"neighbours": 9})
    assert set(served_at(twins, stream(500, ring=False))) == {CHAMPION}


def test_who_was_served_first_may_come_back() -> None:
    """A line is worse than the neighbours inside a ring, and better than one neighbour where a quarter of the labels lie."""
    model = line_and_near(patience=20, options={"window": 300, "neighbours": 1})
    lies = np.random.default_rng(0).random(1_500) < 0.25
    doubtful = [
        replace(example, label=str(example.label != "True")) if lie else example
        for example, lie in zip(stream(1_500, ring=False, start=401), lies, strict=True)
    ]
    served = served_at(model, [*stream(400, ring=True), *doubtful])
    assert (served[399], served[-1]) == (CHALLENGER, CHAMPION)


def test_a_ranker_is_challenged_by_another_and_corrections_tell() -> None:
    model = contest("ranker", SHY, patience=20)
    model.learn(replies())
    served = served_at(model, corrections(60))
    assert (served[0], served[-1]) == (CHAMPION, CHALLENGER)
    answer = model.predict([text(0, 9_999)])[0]
    assert answer.choice == TOPICS[0] and answer.candidates[0].text is not None
    assert answering(model) is model.models[CHALLENGER]


def test_thumbs_are_no_evidence() -> None:
    model = contest("ranker", SHY, patience=2)
    model.learn([*replies(), *(replace(example, kind="reward") for example in corrections(60))])
    assert model.facts()["contested"] == 0 and model.served == CHAMPION


def test_without_a_challenger_there_is_nothing_to_tell() -> None:
    assert told_of(create("knn", {}).facts()) == ""
    assert told_of(contest("knn", {}).facts()) == "champion 0.0 % (served), challenger 0.0 %"


def test_only_every_so_many_are_scored() -> None:
    model = line_and_near(score_every=4)
    model.learn(stream(400, ring=True))
    assert model.facts()["contested"] == 100


def test_numbers_are_judged_by_how_far_they_are_off() -> None:
    """Targets on a grid of thousands are all one number."""
    model = contest("regressor", {"input": "vector", "size": 6, "target_scale": 1e9}, options={}, patience=20)
    examples = numbers(vectors(400))
    served = served_at(model, examples)
    assert served[-1] == CHALLENGER
    facts = model.facts()
    assert facts["challenger_error"] < 0.5 * facts["champion_error"]
    assert told_of(facts) == f"champion off by {facts['champion_error']:.4g}, challenger off by " + (
        f"{facts['challenger_error']:.4g} (served)"
    )


def test_before_there_is_an_answer_a_number_has_no_error() -> None:
    model = contest("regressor", {"input": "vector", "size": 6})
    model.learn(numbers(vectors(20))[:1])
    assert model.facts()["champion_error"] == 0.0


def test_what_only_the_challenger_cannot_learn_it_goes_on_without() -> None:
    model = contest("classifier", {"input": "text"}, options={"max_labels": 2})
    model.learn(texts(60))
    facts = model.facts()
    assert facts["challenger_missed"] > 0 and not model.subtracts
    assert facts["champion_percent"] > facts["challenger_percent"]


def test_what_the_champion_cannot_learn_nobody_learns() -> None:
    model = contest("classifier", {"input": "text", "max_labels": 2}, options={})
    before = model.fingerprint()
    with pytest.raises(BadExample, match="more than 2 labels"):
        model.learn(texts(60))
    assert (model.fingerprint(), model.facts()["contested"]) == (before, 0)


def test_to_serve_only_the_parts_of_who_is_served_are_needed() -> None:
    model = line_and_near(patience=100)
    model.learn(stream(600, ring=True))
    serving = model.state(serving_only=True)
    assert {name.partition(".")[0] for name in serving} == {"contest", CHALLENGER}
    again = line_and_near(patience=100)
    again.restore(serving)
    asked = [example.features for example in stream(20, ring=True, seed=2)]
    assert again.predict(asked) == model.predict(asked)


def test_both_hear_of_a_drift_and_of_what_is_retired() -> None:
    model = contest("knn", {"input": "text"}, options={"neighbours": 3})
    model.learn([*texts(100), Example(500, "retire", b"", TOPICS[0])])
    model.drifted(None, 90)
    for each in model.models.values():
        assert isinstance(each, Retiring) and each.retired == {TOPICS[0]}
    assert {answer.choice for answer in model.predict([text(0, 7)])} & {TOPICS[0]} == set()


@pytest.mark.parametrize(
    ("kind", "options", "challenger", "why"),
    [
        ("ranker", {}, {"kind": "classifier"}, "a ranker learns replies: 'classifier' cannot be its challenger"),
        ("classifier", {}, {"kind": "regressor"}, "a classifier learns labels: 'regressor' cannot be"),
        ("regressor", {}, {"kind": "knn"}, "a regressor learns numbers: 'knn' cannot be"),
        ("knn", {}, {"kind": "oracle"}, "a knn learns labels: 'oracle' cannot be"),
        ("knn", {}, {"kind": 7}, "option 'kind' must be str, not 7"),
        ("knn", {}, {"options": {"input": "table"}}, "the option 'input' of a challenger is its champion's"),
        ("knn", {}, {"options": {"challenger": {}}}, "the option 'challenger' of a challenger"),
        ("knn", {}, {"options": {"speed": 3}}, "unknown option 'speed'"),
        ("knn", {}, {"speed": 3}, "unknown option 'speed'"),
        ("knn", {}, {"patience": 0}, "'patience' and 'score_every' of a challenger must be at least 1"),
        ("knn", {}, {"score_every": 0}, "must be at least 1"),
        ("knn", {}, {"kind": "river"}, "a river model reads tables, not input = 'text'"),
        ("knn", {}, "knn", "option 'challenger' is a table"),
        ("classifier", {"encoder": "ab"}, {"kind": "knn"}, "read by a tuned encoder: a knn cannot be the challenger"),
    ],
)
def test_two_that_do_not_fit_together_are_refused(kind: str, options: Options, challenger: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        create(kind, {**options, "challenger": challenger})


def made_of(model: Model) -> Model:
    return model.model if isinstance(model, Retiring) else model


def test_the_challenger_reads_what_its_champion_reads() -> None:
    table = contest("river", {"estimator": "softmax", "key": KEY}, kind="knn")
    assert table.feature_epoch() == table.models[CHALLENGER].feature_epoch() == "table"
    vector = contest("knn", {"input": "vector", "size": 6}, kind="tower")
    assert vector.feature_epoch() == "vector+vector-as-it-came"
    tuned = contest("classifier", {"encoder": "ab" * 32})
    assert tuned.feature_epoch() == tuned.models[CHALLENGER].feature_epoch()
    assert isinstance(made_of(table.models[CHALLENGER]), Knn)


def test_texts_are_tuned_for_both_or_for_none() -> None:
    assert adapts("ranker", {"challenger": {}}) and adapts("classifier", {"challenger": {"options": {}}})
    assert not adapts("classifier", {"challenger": {"kind": "knn"}})


def test_the_key_goes_to_those_who_sign_and_is_no_part_of_the_recipe() -> None:
    options: Options = {"input": "table", "challenger": {"kind": "river"}}
    model = create("knn", {**options, "key": KEY})
    model.learn(labels_only(tables(40)))
    again = create("knn", {**options, "key": KEY})
    again.restore(model.state())
    assert again.fingerprint() == model.fingerprint()
    with pytest.raises(Exception, match="sign"):
        create("knn", {**options, "key": "77" * 32}).restore(model.state())
    assert recipe("knn", options) == recipe("knn", {**options, "key": KEY})
    assert recipe("knn", options) != recipe("knn", {"input": "table"})


def test_what_somebody_sends_may_not_name_code_for_a_challenger_either() -> None:
    check_options("river", {"challenger": {"options": {"estimator": "softmax"}}})
    for told in ({"kind": "tower", "options": {"network": "evil:Net"}}, {"options": {"estimator": "os.system"}}, 7):
        with pytest.raises(BadInput):
            check_options("river", {"challenger": told})


def test_a_scorer_hears_of_every_candidate_of_both() -> None:
    told = every_candidate("ranker", {"challenger": {"options": {"shrinkage": 1.0}}})
    assert told["candidates"] == told["challenger"]["options"]["candidates"] == 1_000_000
    assert told["challenger"]["options"]["shrinkage"] == 1.0


def test_a_race_that_was_resumed_ends_as_one_that_was_not() -> None:
    examples = stream(600, ring=True)
    whole, first, second = line_and_near(patience=100), line_and_near(patience=100), line_and_near(patience=100)
    whole.learn(examples)
    first.learn(examples[:250])
    second.restore(first.state())
    second.learn(examples[250:])
    assert second.fingerprint() == whole.fingerprint()
    tables_of_both = [model.state()["contest"].tensors["table"].tobytes() for model in (whole, second)]
    assert tables_of_both[0] == tables_of_both[1]
