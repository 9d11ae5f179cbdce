"""May this snapshot go live? Asked of every candidate, on the very parts that would be written.

finite numbers  ->  loads and answers its probes  ->  taught questions still get the reply they were taught
"""

from dataclasses import dataclass

import numpy as np

from online.models import Answer, Options, State, create


@dataclass(frozen=True, slots=True)
class Gate:
    kind: str
    options: Options

    def refusal(self, state: State, probes: list[tuple[bytes, str | None]]) -> str | None:
        """Why the candidate may not go live; None where it may."""
        serving = {name: part for name, part in state.items() if part.serving}
        return self._not_finite(serving) or self._cannot_predict(serving, probes)

    @staticmethod
    def _not_finite(serving: State) -> str | None:
        for name, part in serving.items():
            for key, tensor in part.tensors.items():
                if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
                    return f"{name}.{key} holds numbers that are not finite"
        return None

    def _cannot_predict(self, serving: State, probes: list[tuple[bytes, str | None]]) -> str | None:
        candidate = create(self.kind, self.options)
        try:
            candidate.restore(serving)
            answers = candidate.predict([features for features, _ in probes]) if probes else []
        except Exception as error:  # whatever it is: what cannot answer here cannot answer a caller
            return f"it cannot predict: {type(error).__name__}: {error}"
        return next(filter(None, map(self._wrong, answers, probes)), None)

    @staticmethod
    def _wrong(answer: Answer, probe: tuple[bytes, str | None]) -> str | None:
        if not all(np.isfinite(candidate.score) for candidate in answer.candidates):
            return "it answers with scores that are not finite"
        if answer.abstained and not answer.candidates:
            return "it has no finite answer to an input it has learned"
        if probe[1] is not None and answer.choice != probe[1]:
            return f"a question that was taught {probe[1]!r} would get {answer.choice!r}"
        return None
