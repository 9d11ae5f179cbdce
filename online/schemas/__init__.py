"""The shapes of everything that crosses a wire or enters the log.

Requests and answers are pydantic models, so that the OpenAPI document shows them.
"""
