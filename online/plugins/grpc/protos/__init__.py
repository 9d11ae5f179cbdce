"""The .proto files, and what `make protos` compiles from them."""
