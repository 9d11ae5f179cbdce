"""The conditions under which equal logs give equal bits."""

import torch


def determinism_domain(device: str) -> str:
    """Return the conditions under which equal logs give equal bits: build, device and settings."""
    cuda = torch.device(device).type == "cuda"
    facts = [
        f"torch {torch.__version__}",
        torch.cuda.get_device_name(device) if cuda else f"cpu {torch.backends.cpu.get_cpu_capability()}",
        f"threads {torch.get_num_threads()}",
        f"deterministic {'on' if torch.are_deterministic_algorithms_enabled() else 'off'}",
    ]
    return ", ".join(facts)
