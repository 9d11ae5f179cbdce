"""A base model in memory once, with LoRA adapters beside each other.

    select("adapter-a") --> forward, forward --> select("adapter-b") --> forward --> select(BASE) --> forward

PEFT keeps the active adapter as a state of the whole model. So one thread alone uses an `AdaptedModel`, and each call of
`forward` names its adapter.
"""

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: only local folders are read

import torch
from peft import LoraConfig, PeftConfig, PeftModel
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from online.errors import BadInput
from online_adapters.adapter_folder import BASE, AdapterFolder


def choose_device(name: str) -> str:
    """Return the device of a setting: "auto" is a GPU where there is one. Raises BadInput."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise BadInput(f"--device {name[:40]!r} cannot be used: {str(error).splitlines()[0]}") from None
    return name


def load_base(path: Path, device: str) -> Any:
    """Return the base model of a local folder. Its numbers are float32 on a CPU. Raises BadInput."""
    dtype = torch.float32 if device == "cpu" else "auto"
    try:
        model = AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=dtype)
    except (OSError, ValueError) as error:
        raise BadInput(f"--model {str(path)!r} cannot be loaded: {str(error).splitlines()[0]}") from None
    return model.to(device).eval()


def load_tokenizer(path: Path) -> Any:
    """Return the tokenizer of a local folder, which has a chat template. Raises BadInput."""
    if not (path / "config.json").is_file():
        raise BadInput(f"--model {str(path)!r} has no config.json; give the local folder of a language model")
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise BadInput(f"the tokenizer in {str(path)!r} cannot be loaded: {str(error).splitlines()[0]}") from None
    if not tokenizer.chat_template:
        raise BadInput(f"the model in {str(path)!r} has no chat template; give one that is tuned for chats")
    return tokenizer


class AdaptedModel:
    """A base model with the adapters of a folder.

    loaded: names of the adapters in memory. context: most tokens of a prompt and its answer together. ends: tokens that end
    an answer.
    """

    def __init__(self, path: Path, folder: AdapterFolder, device: str = "cpu") -> None:
        """Load the base model. Raises BadInput."""
        self.tokenizer = load_tokenizer(path)
        self._base = load_base(path, device)
        self._adapters: PeftModel | None = None
        self._selected: str | None = BASE
        self.folder, self.device, self.loaded = folder, device, frozenset[str]()
        self.context = int(self._base.config.get_text_config().max_position_embeddings)
        ends = self._base.generation_config.eos_token_id
        self.ends = {self.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}

    def load(self, name: str) -> None:
        """Load an adapter beside the others. Raises NotFound, BadInput."""
        if name == BASE or name in self.loaded:
            return
        path = self.folder.verify(name)
        config = PeftConfig.from_pretrained(str(path))
        if not isinstance(config, LoraConfig) or config.modules_to_save:
            raise BadInput(f"{name} is not a LoRA adapter alone; make it with online-adapters learn")
        try:
            if self._adapters is None:
                self._adapters = PeftModel.from_pretrained(self._base, str(path), adapter_name=name)
                self._adapters.base_model.disable_adapter_layers()  # until it is selected
            else:
                self._adapters.load_adapter(str(path), adapter_name=name)
        except (ValueError, RuntimeError) as error:
            raise BadInput(f"{name} does not fit this base model: {str(error).splitlines()[0]}") from None
        self.loaded |= {name}

    def unload(self, name: str) -> None:
        """Remove an adapter from memory."""
        assert self._adapters is not None
        self.select(BASE)
        self.loaded -= {name}
        if not self.loaded:  # without any adapter a PeftModel cannot be used
            self._base, self._adapters = self._adapters.unload(), None
            return
        self._adapters.set_adapter(next(iter(self.loaded)), inference_mode=True)
        self._adapters.base_model.disable_adapter_layers()
        self._adapters.delete_adapter(name)

    def select(self, name: str) -> None:
        """Let the next calls use a loaded adapter, or BASE."""
        if name == self._selected:
            return
        assert self._adapters is not None
        self._selected = None  # while PEFT changes layer by layer
        if name == BASE:
            self._adapters.base_model.disable_adapter_layers()
        else:
            self._adapters.set_adapter(name, inference_mode=True)
            self._adapters.base_model.enable_adapter_layers()  # set_adapter leaves them disabled
        self._selected = name

    @torch.inference_mode()
    def forward(
        self, name: str, ids_BT: Tensor, mask_BS: Tensor, cache: Any = None, keep: int = 0
    ) -> tuple[Tensor, Any]:
        """Return the logits [B, T, V] of tokens under an adapter, and the cache.

        mask_BS: 1 for tokens, 0 for padding on the left, of the cache and of `ids_BT` together. keep: of so many tokens at
        the end; 0: of all.
        """
        self.select(name)
        positions_BT = (mask_BS.cumsum(-1) - 1).clamp(min=0)[:, -ids_BT.shape[1] :]
        answer = self._base(
            input_ids=ids_BT,
            attention_mask=mask_BS,
            position_ids=positions_BT,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        return answer.logits, answer.past_key_values

    def encode_chat(self, messages: list[dict[str, Any]]) -> list[int]:
        """Return the tokens of a conversation up to the answer. Raises BadInput."""
        from jinja2 import TemplateError

        try:
            encoded = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        except (TemplateError, TypeError) as error:
            raise BadInput(f"messages: the model's chat template refuses them: {error}") from None
        return [int(each) for each in encoded]

    def decode(self, ids: list[int]) -> str:
        """Return the text of tokens, without special ones."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))
