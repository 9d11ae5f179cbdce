"""The options of a tower. No torch: they are listed wherever options are checked."""

from importlib.util import find_spec

from online.models.contract import Options
from online.models.options import INPUT, SIZE, Option

BUILT_IN = ("mlp", "cnn")  # networks that are no code of the operator
STRENGTHS = {  # strategy -> default weight of its penalty
    "naive": 0.0,
    "er": 0.0,
    "er_ace": 0.0,
    "derpp": 0.5,
    "ewc": 10_000.0,
    "lwf": 10.0,
    "agem": 0.0,
}

OPTIONS = (
    INPUT,
    SIZE,
    Option(
        "network",
        "mlp",
        "The network: mlp, cnn, or package.module:attribute, a function of the input width that returns a torch module.",
    ),
    Option("hidden", [128, 128], "Widths of the mlp's layers; the last one is the width of a cnn's representation."),
    Option("image", [], "Shape of a cnn's images: channels, height, width."),
    Option(
        "strategy",
        "er",
        "How the network keeps what it learned: naive, er, er_ace, derpp, ewc, lwf or agem.",
        choices=tuple(STRENGTHS),
    ),
    Option("strength", 0.0, "Weight of the strategy's penalty; 0: the strategy's usual one.", low=0.0, high=1e6),
    Option(
        "rate",
        0.003,
        "Learning rate; a third and three times of it are tried beside it. Change it when the best one is at an end.",
        low=1e-9,
        high=1.0,
    ),
    Option("decay", 0.01, "Weight decay of AdamW. Raise it when the network overfits.", low=0.0, high=100.0),
    Option(
        "average",
        0.95,
        "Share of the published average that a step keeps. Raise it for steadier answers.",
        low=0.0,
        high=1 - 1e-9,
    ),
    Option("batch", 1, "Examples in a micro-batch. Raise it for speed; feedback then waits until it is full.", low=1),
    Option(
        "accumulate",
        1,
        "Parts of a step whose gradients are computed one after the other and added. Raise it to need less memory, or to "
        "let as many processes learn together.",
        unit="parts",
        low=1,
        high=1024,
    ),
    Option(
        "gradients",
        "float32",
        "Precision to which the gradient of a part is rounded: float32, bfloat16 or float16. Processes that learn "
        "together send half as much with 16 bits.",
        choices=("float32", "bfloat16", "float16"),
    ),
    Option(
        "parallel",
        "ddp",
        "How processes that learn together hold the tower: ddp, each all of it; fsdp, each a share of every layer; "
        "pipeline, each some layers; auto, the first of these that fits into their memory.",
        choices=("ddp", "fsdp", "pipeline", "auto"),
    ),
    Option(
        "quantisation_aware",
        "off",
        "Whether the network learns with the rounded weights and inputs of an export to onnx-int8: off or int8, which needs "
        "the extra `quantised`. The service answers with the float weights either way.",
        choices=("off", "int8"),
    ),
    Option("steps", 1, "Steps per micro-batch, each with other replayed rows. Raise it when examples are few.", low=1),
    Option("replay", 15, "Rows replayed in a step.", unit="rows", low=1),
    Option(
        "buffer", 1_000, "Examples kept to be replayed. Raise it where much must be remembered.", unit="examples", low=1
    ),
    Option("seed", 0, "Seed of the weights and of the replay.", low=0, high=2**63 - 1),
    Option("max_labels", 1_000, "Most classes; examples of further ones are refused.", unit="classes", low=1, high=1e6),
    Option(
        "max_features",
        1_024,
        "Columns of a table; names past this number share a few.",
        unit="columns",
        low=1,
        high=1e6,
    ),
)


WHOLE_STRATEGIES = ("ewc", "lwf", "agem")  # need all parameters of a copy at once


def check_parallel(options: Options) -> None:
    """Raise ValueError for options with which a tower cannot be split."""
    if options["parallel"] == "ddp":
        return
    if options["accumulate"] == 1:
        raise ValueError("option 'parallel' needs 'accumulate' of at least 2: so many processes can hold the tower")
    if options["strategy"] in WHOLE_STRATEGIES:
        raise ValueError(f"option 'parallel' must be ddp with the strategy {options['strategy']}, which is not split")
    if options["gradients"] != "float32":
        raise ValueError("option 'parallel' must be ddp with 'gradients' of 16 bits")


def require_torchao() -> None:
    """Raise ValueError if torchao is not installed."""
    if find_spec("torchao") is None:
        raise ValueError(
            "option 'quantisation_aware' = 'int8' needs torchao, which is not installed: pip install 'online[quantised]'"
        )


def check_quantisation(options: Options) -> None:
    """Raise ValueError for options with which a tower cannot learn by fake-quantised products."""
    if options["quantisation_aware"] == "off":
        return
    require_torchao()
    if options["network"] not in BUILT_IN:
        raise ValueError(
            f"option 'quantisation_aware' must be off with the network {options['network']!r}: only mlp and cnn can be exported"
        )
    if options["parallel"] != "ddp":
        raise ValueError(
            f"option 'quantisation_aware' must be off with 'parallel' = {options['parallel']!r}, or 'parallel' ddp"
        )


def check_hidden(options: Options) -> None:
    """Raise ValueError for widths that make no network."""
    if not options["hidden"] or not all(type(width) is int and width > 0 for width in options["hidden"]):
        raise ValueError(f"option 'hidden' must be the widths of one layer or more, not {options['hidden']}")
