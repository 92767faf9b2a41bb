"""Tools that the model may call."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.schema.fields import Shape, ToolName


class FunctionDefinition(Shape):
    """A function and the JSON schema of its arguments."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(Shape):
    """A function as a tool."""

    type: Literal["function"]
    function: FunctionDefinition


class NamedFunction(Shape):
    """A function by name."""

    name: ToolName


class NamedTool(Shape):
    """The tool that the model must call."""

    type: Literal["function"]
    function: NamedFunction


Tools = Annotated[list[FunctionTool], Meta(min_length=1, max_length=128)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool
