"""Fields and bounds that both endpoints share."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gateway.errors import ApiError

MAX_TOKENS = 2**31 - 1
MAX_CHOICES = 128
MAX_DEPTH = 64

Count = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
Choices = Annotated[int, Meta(ge=1, le=MAX_CHOICES)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
TokenIds = Annotated[list[TokenId], Meta(max_length=1024)]
ModelName = Annotated[str, Meta(min_length=1, max_length=256, examples=["smollm2-135m-instruct"])]
ToolName = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
StopText = Annotated[str, Meta(min_length=1, max_length=1024)]
Stop = StopText | Annotated[list[StopText], Meta(max_length=4)]
LogitBias = Annotated[
    dict[Annotated[str, Meta(pattern="^[0-9]{1,9}$")], Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=1024)
]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]
Timeout = Annotated[float, Meta(gt=0, le=86_400)]
ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast"]

# Newer names of tiers that mean a class we have.
_TIER_ALIASES = {"scale": "default", "fast": "priority"}


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON object whose fields are all known: an unknown one is refused, never passed on unread."""


class StreamOptions(Shape):
    """What a stream carries beside the answer."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class JsonSchema(Shape):
    """A schema that the answer must obey."""

    name: ToolName
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class TextFormat(Shape, tag_field="type", tag="text"):
    """Plain text, the default."""


class JsonObjectFormat(Shape, tag_field="type", tag="json_object"):
    """Any JSON object."""


class JsonSchemaFormat(Shape, tag_field="type", tag="json_schema"):
    """JSON that obeys a schema."""

    json_schema: JsonSchema


ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat


class StructuredOutputs(Shape):
    """vLLM's constraints on the answer; exactly one of the first five."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: Annotated[list[str], Meta(min_length=1, max_length=1024)] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None


class Sampling(Shape, kw_only=True):
    """What both endpoints take: OpenAI's fields first, then vLLM's that harm nobody else."""

    model: ModelName
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None
    max_tokens: Count | msgspec.UnsetType | None = msgspec.UNSET
    metadata: Metadata | None = None
    n: Choices | None = None
    presence_penalty: Penalty | None = None
    response_format: ResponseFormat | None = None
    seed: Seed | None = None
    service_tier: ServiceTier | None = None
    stop: Stop | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Temperature | None = None
    timeout: Timeout | None = None
    top_p: PositiveShare | None = None
    user: Annotated[str, Meta(max_length=1024)] | None = None

    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Share | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] = 0
    ignore_eos: bool = False
    stop_token_ids: TokenIds | None = None
    allowed_token_ids: TokenIds | None = None
    bad_words: Annotated[list[StopText], Meta(max_length=128)] = []
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    add_special_tokens: bool | msgspec.UnsetType = msgspec.UNSET
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=MAX_TOKENS)] | None = None
    return_tokens_as_token_ids: bool | None = None
    return_token_ids: bool | None = None
    structured_outputs: StructuredOutputs | None = None


def canonical_tier(service_tier: str | None) -> str | None:
    """The tier under the name that ``domain.qos`` knows."""
    return None if service_tier is None else _TIER_ALIASES.get(service_tier, service_tier)


def check_sampling(request: Sampling) -> None:
    """Check what no single field shows.

    Raises:
        ApiError: 400, two fields that do not go together.
    """
    if request.stream_options is not None and not request.stream:
        raise invalid("stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    if isinstance(request.max_tokens, int) and request.min_tokens > request.max_tokens:
        raise invalid("min_tokens", "Invalid 'min_tokens': it must not be larger than 'max_tokens'.")
    if isinstance(request.response_format, JsonSchemaFormat):
        check_depth(request.response_format.json_schema.schema, "response_format.json_schema.schema")
    if request.structured_outputs is not None:
        _check_structured(request)


def _check_structured(request: Sampling) -> None:
    wanted = request.structured_outputs
    if wanted is None:
        return
    kinds = (wanted.json, wanted.regex, wanted.choice, wanted.grammar, wanted.json_object)
    if sum(kind is not None for kind in kinds) != 1:
        raise invalid(
            "structured_outputs",
            "Invalid 'structured_outputs': give exactly one of json, regex, choice, grammar, json_object.",
        )
    if request.response_format is not None and not isinstance(request.response_format, TextFormat):
        raise invalid("structured_outputs", "Give either 'response_format' or 'structured_outputs', not both.")
    check_depth(wanted.json, "structured_outputs.json")


def check_depth(value: object, param: str, left: int = MAX_DEPTH) -> None:
    """Refuse JSON that is nested so deeply that some reader behind us might not survive it.

    Raises:
        ApiError: 400, more than ``MAX_DEPTH`` levels.
    """
    if not isinstance(value, (dict, list)):
        return
    if left == 0:
        raise invalid(param, f"Invalid '{param}': nested more than {MAX_DEPTH} levels deep.")
    for child in value.values() if isinstance(value, dict) else value:
        check_depth(child, param, left - 1)


def invalid(param: str | None, message: str, code: str | None = "invalid_value") -> ApiError:
    """A 400 about one field."""
    return ApiError(400, message, param=param, code=code)
