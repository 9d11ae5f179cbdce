#!/usr/bin/env bash
# onnxruntime 1.32.0, onnx 1.23.2: ReduceMax and ReduceMin see a NaN in the first place of a row only
#
# On the CPU, a row with a NaN in its first place has the maximum NaN; with the NaN in another place, the maximum of the other numbers.
# numpy and torch give NaN in both cases. Who scales by ReduceMax, as a quantised product does, turns a NaN into an ordinary number that nothing
# reports. ReduceSum keeps the NaN, so "scale + 0 * ReduceSum(x)" marks such a row.
#
# Output: first place: ReduceMax nan, ReduceMin nan, ReduceSum nan | another place: ReduceMax 1.0, ReduceMin 1.0, ReduceSum nan
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
venv/bin/python - <<'PY'
import numpy as np, onnxruntime
from onnx import TensorProto, helper, numpy_helper

KINDS = ("ReduceMax", "ReduceMin", "ReduceSum")
graph = helper.make_graph(
    [helper.make_node(kind, ["x", "axis"], [kind], keepdims=0) for kind in KINDS], "graph",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 64])],
    [helper.make_tensor_value_info(kind, TensorProto.FLOAT, ["B"]) for kind in KINDS],
    [numpy_helper.from_array(np.array([1]), "axis")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
model.ir_version = 9
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

def reduce(place):
    x = np.ones((1, 64), np.float32)
    x[0, place] = np.nan
    return [float(each[0]) for each in session.run(None, {"x": x})]

first, other = reduce(0), reduce(40)
print(*(f"{where}: " + ", ".join(f"{kind} {value}" for kind, value in zip(KINDS, found))
        for where, found in (("first place", first), ("another place", other))), sep=" | ")
assert np.isnan(first).all()
assert other[:2] == [1.0, 1.0] and np.isnan(other[2])
PY
