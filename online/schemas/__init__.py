"""What crosses a wire or the log.

Requests and answers are pydantic models, so that the OpenAPI document shows them.
"""
