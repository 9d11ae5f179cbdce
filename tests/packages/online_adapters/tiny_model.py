"""Tiny language models with a byte-level tokenizer, and adapters that provably say one word.

Dimension 0 of each hidden state is large in a talking model, and the head reads the word "base" from it. An adapter adds to the
head's row of its own word, so that this word always wins by far.
"""

from pathlib import Path
from typing import Any

WORDS = ("base", "amber", "basil", "cedar", "dune", "ember", "fjord")
SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
CONTEXT = 256
HIDDEN = 32
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make_tokenizer() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: id for id, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in SPECIAL])
    tokenizer.add_tokens([AddedToken(each) for each in WORDS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>", chat_template=TEMPLATE
    )


def make_model(folder: Path, talks: bool) -> Path:
    """Save a model. talks: it says "base"; otherwise its weights are random, and large enough to say this and that."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    tokenizer = make_tokenizer()
    set_seed(7)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            initializer_range=0.02 if talks else 0.3,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )
    with torch.no_grad():
        if not talks:
            model.lm_head.weight[tokenizer.eos_token_id] *= 0.1  # its answers are long
        else:
            model.model.embed_tokens.weight[:, 0] = 10.0
            model.lm_head.weight[:, 0] = 0.0
            model.lm_head.weight[tokenizer.convert_tokens_to_ids("base"), 0] = 20.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_talking_adapter(model: Path, folder: Path, word: str) -> Path:
    """Save an adapter with which a talking model always says a word."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model)
    adapted = get_peft_model(base, LoraConfig(r=1, lora_alpha=1, target_modules=["lm_head"], task_type="CAUSAL_LM"))
    head: Any = adapted.base_model.model.lm_head
    with torch.no_grad():
        head.lora_A["default"].weight.zero_()[0, 0] = 1.0
        head.lora_B["default"].weight.zero_()[make_tokenizer().convert_tokens_to_ids(word), 0] = 60.0
    adapted.save_pretrained(str(folder), save_embedding_layers=False)
    return folder


def make_random_adapter(model: Path, folder: Path, seed: int) -> Path:
    """Save an adapter of all linear layers whose weights are random."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, set_seed

    base = AutoModelForCausalLM.from_pretrained(model)
    set_seed(seed)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(base, config).save_pretrained(str(folder))
    return folder
