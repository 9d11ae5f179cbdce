"""Writes a version of a model as a file that answers elsewhere: in a browser, on a phone, in another program.

    version --exporter--> AnswerGraph: inputs -> features -> scores -> chances, choice --formats--> .onnx, .safetensors, .pte, ...
                                                                       --golden--> manifest: the largest difference from the served answer

There is one graph for each kind (`kinds`), in ONNX's operators. It holds the preprocessing as well, so that a caller passes what
a client of the service would send: numbers, categories, or the token ids of a text. Every format is made of that graph.
"""
