"""The classes of a classifier. The wire calls a class `label`, as feedback and predictions do."""

from pydantic import Field

from online.schemas.fields import Wire


class ClassState(Wire):
    label: str = Field(description="The class.")
    active: bool = Field(description="False: it was retired, and is not predicted until it is restored.")
    offset: int = Field(
        description="Of the event that last retired or restored it, or else of the first that named it."
    )


class ClassesAnswer(Wire):
    classes: list[ClassState]
    labels: list[ClassState] = Field(description="The same list under its former name.", deprecated=True)
