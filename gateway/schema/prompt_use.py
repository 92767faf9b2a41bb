"""How a request names a stored prompt."""

from typing import Annotated

from msgspec import Meta

from gateway.schema.fields import Shape

MAX_VARIABLES = 64
MAX_VERSION = 2**31 - 1

VersionNumber = Annotated[int, Meta(ge=1, le=MAX_VERSION)]
VersionText = Annotated[str, Meta(pattern="^[1-9][0-9]{0,8}$")]


class PromptUse(Shape):
    """Names a stored prompt whose messages come before the request's own; ``version`` left out means the latest."""

    id: Annotated[str, Meta(max_length=256)]
    version: VersionNumber | VersionText | None = None
    variables: Annotated[dict[str, str], Meta(max_length=MAX_VARIABLES)] | None = None

    @property
    def number(self) -> int | None:
        """The version as a number; None for the latest."""
        return None if self.version is None else int(self.version)
