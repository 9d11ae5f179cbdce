#!/usr/bin/env bash
# onnxruntime 1.32.0, onnx 1.23.2: a row's answer from a model of quantize_dynamic depends on the other rows of its call
#
# quantize_dynamic puts DynamicQuantizeLinear in front of each product. It finds one scale for the whole tensor, batch included: a row with
# large numbers takes digits from all rows beside it. The same row has one answer alone and another one in a batch, with no warning, and a
# batch of strangers' requests decides which. A scale for each row (ReduceMin, ReduceMax, QuantizeLinear with an axis, MatMulInteger) does not.
#
# Output: alone and beside a row that is 100 times as large: the largest difference is 0.7 of numbers up to 1.9
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6 sympy==1.14.0
venv/bin/python - <<'PY'
import numpy as np, onnx, onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

rng = np.random.default_rng(0)
weights = rng.normal(0, 0.1, (64, 64)).astype(np.float32)
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], "graph",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 64])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 64])], [numpy_helper.from_array(weights, "w")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
model.ir_version = 9
onnx.save(model, "float.onnx")
quantize_dynamic("float.onnx", "int8.onnx", per_channel=True, weight_type=QuantType.QInt8)
session = onnxruntime.InferenceSession("int8.onnx", providers=["CPUExecutionProvider"])
row = rng.normal(size=(1, 64)).astype(np.float32)
large = 100 * rng.normal(size=(1, 64)).astype(np.float32)
alone = session.run(None, {"x": row})[0][0]
among = session.run(None, {"x": np.concatenate([row, large])})[0][0]
difference = np.abs(alone - among).max()
print(f"alone and beside a row that is 100 times as large: the largest difference is {difference:.1f} of numbers up to {np.abs(alone).max():.1f}")
assert difference > 0.5
assert np.array_equal(session.run(None, {"x": np.concatenate([row, row])})[0][0], alone)
PY
