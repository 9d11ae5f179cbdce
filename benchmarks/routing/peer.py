"""ParetoBandit 0.1.1, run by its own functions on the features that its own package makes of our encoder's vectors.

Its package encodes with all-MiniLM-L6-v2 through sentence-transformers, which would fetch the weights; the same network's vectors come
from our encoder here, and its shipped projection (25 components) and priors are its own.
"""

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.routing.questions import ROUTES, Questions, peer_folder
from benchmarks.routing.trials import Steps
from online.models.encoders.text import TEXT_SCALE


@dataclass(frozen=True, slots=True)
class Peer:
    """The peer's modules, and both parts of its questions in its own shape."""

    demo: Any
    pacer: Any
    learned: Any
    scored: Any

    def pace(self, budget: float) -> object:
        """Return its pacer of a budget."""
        return self.pacer.BudgetPacer(target_avg_spend_usd=budget, mode=self.pacer.PacingMode.ADAPTIVE)

    def run(self, budget: float, seed: int) -> Steps:
        """Run its trial."""
        found = self.demo.run_trial(
            self.learned, self.scored, cost_penalty=0.0, budget_pacer=self.pace(budget), seed=seed, record_steps=True
        )
        return to_steps(found.per_step_models, found.per_step_rewards, found.per_step_costs)

    def run_phases(self, what: str, budget: float, seed: int, parts: tuple[object, object]) -> Steps:
        """Run its trial of three phases. what: quality, or price."""
        more = {"degraded_arm": ROUTES[1], "degraded_reward": 0.75} if what == "quality" else {}
        trial = self.demo._run_degradation_trial if what == "quality" else self.demo._run_cost_drift_trial
        models, rewards, costs, _ = trial(
            train=self.learned,
            holdout=self.scored,
            p1_idx=parts[0],
            p2_idx=parts[1],
            alpha=self.demo.BEST_K3_HPARAMS["alpha"],
            forgetting_factor=self.demo.BEST_K3_HPARAMS["forgetting_factor"],
            cost_penalty=0.0,
            budget_pacer=self.pace(budget),
            seed=seed,
            **more,
        )
        return to_steps(models, rewards, costs)


def load_peer(learned: Questions, scored: Questions) -> Peer:
    """Import the peer, and give it the questions. Raises BenchmarkError."""
    peer_folder()
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")  # its projection was pickled by another release of scikit-learn
    from pareto_bandit import budget_pacer, demo  # type: ignore[import-not-found]
    from pareto_bandit.config import DEFAULT_PCA_PATH  # type: ignore[import-not-found]
    from pareto_bandit.feature_service import FeatureService  # type: ignore[import-not-found]

    def split(questions: Questions) -> object:
        vectors = {place: row / TEXT_SCALE for place, row in enumerate(questions.text_ND.astype(np.float32))}
        service = FeatureService(
            custom_encoder=lambda text: vectors[int(text)], embedding_dim=384, pca_path=DEFAULT_PCA_PATH
        )
        features = np.array([service.extract_features(str(place)) for place in range(len(questions))])
        rewards = {name: questions.reward_NK[:, k] for k, name in enumerate(ROUTES)}
        return demo.DataSplit(features, rewards, {name: questions.cost_NK[:, k] for k, name in enumerate(ROUTES)})

    return Peer(demo, budget_pacer, split(learned), split(scored))


def to_steps(models: list[str], rewards: list[float], costs: list[float]) -> Steps:
    """Return what the peer recorded as ours is."""
    return Steps(np.array([ROUTES.index(name) for name in models]), np.array(rewards), np.array(costs))
