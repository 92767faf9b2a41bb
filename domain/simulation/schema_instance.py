"""A small instance of a JSON schema, for answers that have to be valid against one."""

from collections.abc import Mapping, Sequence

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_MAX_DEPTH = 12
_FORMATS = {
    "date-time": "2024-01-01T00:00:00Z",
    "date": "2024-01-01",
    "time": "00:00:00Z",
    "email": "user@example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "https://example.com/",
    "ipv4": "192.0.2.1",
}


class UnsupportedSchema(ValueError):
    """No instance can be made of this schema; the message says why."""


def instance_of(schema: object) -> Json:
    """Make an instance that is valid as far as types, enums, bounds, required members and references go.

    ``pattern``, ``not`` and conditions are not looked at.

    Raises:
        UnsupportedSchema: a dangling reference, or nothing but recursion.
    """
    return _make(schema, schema, 0)


def _make(schema: object, root: object, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        raise UnsupportedSchema("the schema is nested too deeply")
    if not isinstance(schema, Mapping):
        return "any"
    if "const" in schema:
        return _literal(schema["const"])
    if isinstance(values := schema.get("enum"), list) and values:
        return _literal(values[0])
    if isinstance(reference := schema.get("$ref"), str):
        return _make(_resolve(reference, root), root, depth + 1)
    for word in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(word), list) and options:
            return _first_that_works(options, root, depth)
    if isinstance(parts := schema.get("allOf"), list) and parts:
        return _make(_merged(schema, parts, root), root, depth + 1)
    return _of_type(_type_of(schema), schema, root, depth)


def _of_type(kind: str, schema: Mapping[str, object], root: object, depth: int) -> Json:
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        return _array(schema, root, depth)
    if kind == "string":
        return _string(schema)
    if kind in ("integer", "number"):
        return _number(schema, whole=kind == "integer")
    if kind == "boolean":
        return True
    return None


def _type_of(schema: Mapping[str, object]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        kind = kind[0]
    if isinstance(kind, str):
        return kind
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _object(schema: Mapping[str, object], root: object, depth: int) -> Json:
    members = schema.get("properties")
    required = schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    made: dict[str, Json] = {}
    for name, member in members.items() if isinstance(members, Mapping) else ():
        try:
            made[str(name)] = _make(member, root, depth + 1)
        except UnsupportedSchema:
            if name in needed:
                raise
    for name in sorted(map(str, needed)):
        made.setdefault(name, "any")
    return made


def _array(schema: Mapping[str, object], root: object, depth: int) -> Json:
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list) and prefix:
        return [_make(item, root, depth + 1) for item in prefix]
    least = schema.get("minItems")
    count = least if isinstance(least, int) else 1
    most = schema.get("maxItems")
    if isinstance(most, int):
        count = min(max(count, 0), most)
    try:
        item = _make(schema.get("items"), root, depth + 1)
    except UnsupportedSchema:
        if least:
            raise
        return []
    return [item] * min(count, 1000)


def _string(schema: Mapping[str, object]) -> str:
    text = _FORMATS.get(str(schema.get("format")), "water")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least:
        text = (text * (min(least, 10_000) // len(text) + 1))[: min(least, 10_000)]
    return text[:most] if isinstance(most, int) and most >= 0 else text


def _number(schema: Mapping[str, object], *, whole: bool) -> int | float:
    number: int | float = 1 if whole else 1.5
    step = 1 if whole else 0.5
    for word, move in (("minimum", 0), ("exclusiveMinimum", step)):
        if isinstance(bound := schema.get(word), int | float) and not isinstance(bound, bool) and number < bound + move:
            number = bound + move
    for word, move in (("maximum", 0), ("exclusiveMaximum", step)):
        if isinstance(bound := schema.get(word), int | float) and not isinstance(bound, bool) and number > bound - move:
            number = bound - move
    return int(number) if whole else number


def _first_that_works(options: Sequence[object], root: object, depth: int) -> Json:
    for option in options:
        try:
            return _make(option, root, depth + 1)
        except UnsupportedSchema:
            continue
    raise UnsupportedSchema("no alternative of the schema has a finite instance")


def _merged(schema: Mapping[str, object], parts: Sequence[object], root: object) -> dict[str, object]:
    merged: dict[str, object] = {}
    for part in (*parts, {key: value for key, value in schema.items() if key != "allOf"}):
        if isinstance(part, Mapping) and isinstance(reference := part.get("$ref"), str):
            part = _resolve(reference, root)
        for key, value in part.items() if isinstance(part, Mapping) else ():
            known = merged.get(key)
            if isinstance(known, dict) and isinstance(value, dict):
                merged[key] = {**known, **value}
            elif isinstance(known, list) and isinstance(value, list):
                merged[key] = [*known, *value]
            else:
                merged[key] = value
    return merged


def _resolve(reference: str, root: object) -> object:
    if not reference.startswith("#"):
        raise UnsupportedSchema(f"reference {reference[:80]!r} leads outside the schema")
    found = root
    for step in reference[1:].strip("/").split("/") if len(reference) > 1 else ():
        if not isinstance(found, Mapping) or step not in found:
            raise UnsupportedSchema(f"reference {reference[:80]!r} leads nowhere")
        found = found[step]
    return found


def _literal(value: object) -> Json:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_literal(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _literal(item) for key, item in value.items()}
    raise UnsupportedSchema("a literal of the schema is not JSON")
