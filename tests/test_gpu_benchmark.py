"""`python -m benchmarks.gpu` refuses without a GPU, and its code runs on a CPU, too."""

import subprocess
import sys
from argparse import Namespace

import pytest
import torch

from benchmarks.gpu import check_device, measure_hash, measure_ingest, measure_refresh, measure_tower

QUICK = Namespace(device="cpu", quick=True)


@pytest.mark.long
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_refuses_in_one_sentence() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "benchmark: this machine has no GPU that torch can use, so there is nothing to measure\n"


def test_figures_of_a_cpu_are_named_as_such() -> None:
    assert "say nothing of a GPU" in check_device("cpu")


def test_its_sums_have_one_hash() -> None:
    ((_, digests, verdict),) = measure_hash(QUICK)
    first, second = str(digests).split()
    assert first == second
    assert verdict == "same"


def test_it_times_ingestion_and_the_refresh_of_weights() -> None:
    values = [row[1] for row in (*measure_ingest(QUICK), *measure_refresh(QUICK))]
    assert all(isinstance(value, float) and value > 0 for value in values)


@pytest.mark.long
def test_a_compiled_tower_learns_what_an_eager_one_does() -> None:
    eager, compiled, graph = measure_tower(QUICK)
    assert "off by 0.0" in str(eager[2])
    assert float(str(compiled[2]).rpartition(" ")[2]) < 1e-3
    assert graph[1] == "not on a cpu"
