"""The training of a new adapter: from the one in force, first on answers to imitate, then on thumbs.

adapter in force --SFTTrainer: taught and liked answers--> --KTOTrainer: thumbs up and down--> new adapter
"""

import gc
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from online_adapters.adapted_model import load_base, load_tokenizer  # first, as it takes transformers off the network

from datasets import Dataset  # isort: skip
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import set_seed
from trl import KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

from online.errors import BadInput
from online_adapters.rated_lines import LearningSet, RatedLine

Method = Literal["sft", "kto", "both"]


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training.

    rate, thumbs_rate: learning rates of both trainers. rank: of a new adapter; a continued one keeps its own. max_length: tokens
    of a question with its answer; longer ones are left out.
    """

    method: Method = "both"
    epochs: float = 1.0
    rate: float = 1e-4
    thumbs_rate: float = 2e-5
    rank: int = 16
    batch_size: int = 4
    max_length: int = 1024
    seed: int = 0


def train(
    base: Path, start: Path | None, lines: LearningSet, output: Path, options: TrainingOptions, device: str
) -> Path:
    """Train an adapter, and save it in a folder below `output`; return that folder. start: None begins a new adapter. Raises BadInput."""
    lines = leave_out_long(lines, load_tokenizer(base), options.max_length)
    stages = list_stages(lines, options.method)
    for stage in stages:
        ups, downs = len(lines.liked), len(lines.disliked)
        print(f"sft: {len(lines.positives)} answers" if stage == "sft" else f"kto: {ups} thumbs up, {downs} down")
        trainer = create_trainer(stage, base, start, lines, options, output / f"{stage}-run", device)
        trainer.train()
        start = output / stage
        trainer.model.save_pretrained(str(start), selected_adapters=["default"])
        del trainer
        gc.collect()  # a trainer refers to itself, and would keep its base model in memory
    assert start is not None
    return start


def leave_out_long(lines: LearningSet, tokenizer: Any, max_length: int) -> LearningSet:
    """Return the lines that are short enough, and print how many are not: the trainers would cut them off in silence."""

    def fits(line: RatedLine) -> bool:
        example = as_example(line)
        ids = tokenizer.apply_chat_template(example["prompt"] + example["completion"], return_dict=False)
        return len(ids) <= max_length

    kept = LearningSet(
        [line for line in lines.positives if fits(line)],
        [line for line in lines.liked if fits(line)],
        [line for line in lines.disliked if fits(line)],
        lines.skipped,
    )
    count = len(lines.positives) + len(lines.disliked) - len(kept.positives) - len(kept.disliked)
    if count:
        print(f"{count} lines have more than {max_length} tokens (--max-length), and are left out")
    return kept


def list_stages(lines: LearningSet, method: Method) -> list[str]:
    """Return the trainers that have something to learn from. Raises BadInput."""
    has_both = bool(lines.liked and lines.disliked)
    stages = [
        *(["sft"] if method != "kto" and lines.positives else []),
        *(["kto"] if method != "sft" and has_both else []),
    ]
    if not stages:
        needed = "taught or liked answers" if method == "sft" else "thumbs up and thumbs down"
        raise BadInput(f"there is nothing to learn with --method {method}: the lines to learn from need {needed}")
    return stages


def create_trainer(
    stage: str, base: Path, start: Path | None, lines: LearningSet, options: TrainingOptions, output: Path, device: str
) -> Any:
    """Return the trainer of a stage."""
    set_seed(options.seed)
    model = load_base(base, device)
    if start is None:  # all linear layers but the head, whose adapter KTOTrainer would not train
        model = get_peft_model(
            model,
            LoraConfig(r=options.rank, lora_alpha=2 * options.rank, target_modules="all-linear", task_type="CAUSAL_LM"),
        )
    else:
        model = PeftModel.from_pretrained(model, str(start), is_trainable=True)
    shared: dict[str, Any] = {
        "output_dir": str(output),
        "num_train_epochs": options.epochs,
        "per_device_train_batch_size": options.batch_size,
        "max_length": options.max_length,
        "seed": options.seed,
        "use_cpu": device == "cpu",
        "bf16": device != "cpu",  # the default of both trainers, also on a CPU
        "save_strategy": "no",
        "report_to": "none",
        "dataloader_pin_memory": device != "cpu",
    }
    tokenizer = load_tokenizer(base)
    if stage == "sft":
        sft = SFTConfig(learning_rate=options.rate, **shared)
        data = Dataset.from_list([as_example(line) for line in lines.positives])
        return SFTTrainer(model, args=sft, train_dataset=data, processing_class=tokenizer)
    ups, downs = len(lines.liked), len(lines.disliked)
    kto = KTOConfig(
        learning_rate=options.thumbs_rate,
        desirable_weight=max(1.0, downs / ups),
        undesirable_weight=max(1.0, ups / downs),
        **{**shared, "per_device_train_batch_size": max(2, options.batch_size)},
    )
    data = Dataset.from_list(mix_thumbs(lines, kto.per_device_train_batch_size, options.seed))
    return KTOTrainer(model, args=kto, train_dataset=data, processing_class=tokenizer)


def as_example(line: RatedLine) -> dict[str, Any]:
    """Return a line as the trainers take it."""
    return {
        "prompt": [{"role": "user", "content": line.question}],
        "completion": [{"role": "assistant", "content": line.answer}],
    }


def mix_thumbs(lines: LearningSet, batch_size: int, seed: int) -> Sequence[dict[str, Any]]:
    """Return the rated answers in a random order, which is that of the training.

    KTO compares each answer with the others of its batch, so no batch may have one alone: the first is repeated then.
    """
    rated = [(line, True) for line in lines.liked] + [(line, False) for line in lines.disliked]
    random.Random(seed).shuffle(rated)
    if len(rated) % batch_size == 1:
        rated.append(rated[0])
    return [{**as_example(line), "label": is_liked} for line, is_liked in rated]
