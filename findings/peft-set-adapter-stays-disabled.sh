#!/usr/bin/env bash
# peft 0.21.2: set_adapter, called on a model whose adapter layers were disabled, names another adapter and leaves the base model answering
#
# A server that switches between the base model and LoRA adapters calls disable_adapter_layers() for the one and set_adapter(name) for the other.
# set_adapter returns, and active_adapter has the new name, but the layers stay disabled until enable_adapter_layers(): every answer is the base model's.
#
# Output: active adapter: default; largest difference to the base model: 0.0 after set_adapter, above 0.1 after enable_adapter_layers
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check "torch==2.13.*" transformers==5.23.0 peft==0.21.2
HF_HUB_OFFLINE=1 venv/bin/python - <<'PY' 2>/dev/null
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4
)
base, ids = LlamaForCausalLM(config).eval(), torch.tensor([[1, 2, 3]])
with torch.no_grad():
    plain = base(ids).logits
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)).eval()
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.mul_(20)

    def difference():
        return (model(ids).logits - plain).abs().max().item()

    model.base_model.disable_adapter_layers()
    model.set_adapter("default")
    switched = difference()
    model.base_model.enable_adapter_layers()
    enabled = difference()
print(f"active adapter: {model.active_adapter}; largest difference to the base model: {switched} after set_adapter, {enabled:.2f} after enable_adapter_layers")
assert model.active_adapter == "default" and switched == 0.0 and enabled > 0.1
PY
