"""Runs one learner of another library on one stream, test then train, in that library's environment.

    python stream_peers.py PEER MODEL stream.npz ROWS -> one JSON line {"version", "seconds", "right": hex of packed bits}

The stream is `x` float64 [N, D] and `y` int [N] with classes 0, 1, ... The time includes converting a
row to the library's format, but not its import. This script imports nothing of our packages. A model
that is not in the peer's table raises KeyError.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

TestThenTrain = Callable[[], Iterator[bool]]
SEED = 1


def river(model: str, x: Any, y: Any) -> TestThenTrain:
    from river import ensemble, forest, linear_model, multiclass, neighbors, preprocessing, tree

    scaler = preprocessing.StandardScaler
    learners: dict[str, Callable[[], Any]] = {
        "lr": lambda: scaler() | multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
        "softmax": lambda: scaler() | linear_model.SoftmaxRegression(),
        "hat": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=SEED),
        "arf10": lambda: forest.ARFClassifier(n_models=10, seed=SEED),
        "srp10": lambda: ensemble.SRPClassifier(n_models=10, seed=SEED),
        "knn": lambda: scaler() | neighbors.KNNClassifier(),
    }
    learner = learners[model]()
    names = [f"f{place}" for place in range(x.shape[1])]

    def outcomes() -> Iterator[bool]:
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            features = dict(zip(names, row, strict=True))
            yield learner.predict_one(features) == label
            learner.learn_one(features, label)

    return outcomes


def vw(model: str, x: Any, y: Any) -> TestThenTrain:
    import vowpalwabbit

    flags = {"text": "", "nn20": " --nn 20"}[model]
    learner = vowpalwabbit.Workspace(f"--oaa {y.max() + 1} --quiet --random_seed {SEED}{flags}")

    def outcomes() -> Iterator[bool]:
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            features = " ".join(f"{place}:{value:.6g}" for place, value in enumerate(row) if value)
            example = learner.parse(f"{label + 1} | {features}", vowpalwabbit.LabelType.MULTICLASS)
            learner.learn(example)  # the prediction that it returns is from before the update
            yield example.get_multiclass_prediction() == label + 1
            learner.finish_example(example)

    return outcomes


def torch(model: str, x: Any, y: Any) -> TestThenTrain:
    library: Any = import_module("torch")

    library.set_num_threads(1)
    library.manual_seed(SEED)
    width, classes = x.shape[1], int(y.max()) + 1
    net = library.nn.Sequential(library.nn.Linear(width, 100), library.nn.ReLU(), library.nn.Linear(100, classes))
    rule, rate = {"mlp100-sgd": (library.optim.SGD, 0.01), "mlp100-adam": (library.optim.Adam, 0.001)}[model]
    optimizer: Any = rule(net.parameters(), lr=rate)

    def outcomes() -> Iterator[bool]:
        mean, squares = np.zeros(width), np.zeros(width)
        for count, (row, label) in enumerate(zip(x, y.tolist(), strict=True), 1):
            deviation = row - mean
            mean += deviation / count
            squares += deviation * (row - mean)
            scaled = (row - mean) / np.sqrt(np.maximum(squares / count, 1e-12))
            logits = net(library.from_numpy(scaled.astype(np.float32))[None])
            yield int(logits.argmax()) == label
            optimizer.zero_grad()
            library.nn.functional.cross_entropy(logits, library.tensor([label])).backward()
            optimizer.step()

    return outcomes


def capymoa(model: str, x: Any, y: Any) -> TestThenTrain:
    from capymoa import classifier
    from capymoa.stream import NumpyStream

    stream = NumpyStream(x, y)
    learners: dict[str, Callable[[Any], Any]] = {
        "hat": lambda schema: classifier.HoeffdingAdaptiveTree(schema, random_seed=SEED),
        "knn": lambda schema: classifier.KNN(schema, random_seed=SEED),
        "arf10": lambda schema: classifier.AdaptiveRandomForestClassifier(schema, ensemble_size=10),
        "srp10": lambda schema: classifier.StreamingRandomPatches(schema, random_seed=SEED, ensemble_size=10),
    }
    learner = learners[model](stream.get_schema())

    def outcomes() -> Iterator[bool]:
        while stream.has_more_instances():
            instance = stream.next_instance()
            yield learner.predict(instance) == instance.y_index
            learner.train(instance)

    return outcomes


def main() -> None:
    peer, model, path, rows = sys.argv[1:]
    run, package = {
        "river": (river, "river"),
        "vw": (vw, "vowpalwabbit"),
        "torch": (torch, "torch"),
        "capymoa": (capymoa, "capymoa"),
    }[peer]
    stream = np.load(path)
    x, y = stream["x"][: int(rows)], stream["y"][: int(rows)]
    outcomes = run(model, x, y)
    started = time.process_time()
    right = list(outcomes())
    seconds = time.process_time() - started
    bits = np.packbits(np.array(right, np.bool_)).tobytes().hex()
    print(json.dumps({"version": version(package), "seconds": seconds, "right": bits}))


if __name__ == "__main__":
    main()
