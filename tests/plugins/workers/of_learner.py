"""The workers of a learner under test."""

from online.learning.learner import Learner
from online.plugins.workers.catch_up import CatchUp
from online.plugins.workers.learner_workers import BoardLearnerWorkers
from online.plugins.workers.team import Team


def team_of(learner: Learner) -> Team:
    assert isinstance(learner.workers, BoardLearnerWorkers)
    return learner.workers.team


def catch_up_of(learner: Learner) -> CatchUp:
    assert isinstance(learner.workers, BoardLearnerWorkers)
    return learner.workers.catch_up
