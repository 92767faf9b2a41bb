"""Instances are valid against their schema."""

import pytest

from domain.simulation.schema_instance import Json, UnsupportedSchema, instance_of

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value", "children"],
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "water"),
        ({"type": "string", "minLength": 7}, "waterwa"),
        ({"type": "string", "maxLength": 2}, "wa"),
        ({"type": "string", "format": "date"}, "2024-01-01"),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "integer", "exclusiveMinimum": 5}, 6),
        ({"type": "number", "maximum": 0.5}, 0.5),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["string", "null"]}, "water"),
        ({"enum": ["x", "y"]}, "x"),
        ({"const": {"a": [1]}}, {"a": [1]}),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"anyOf": [{"$ref": "#/nowhere"}, {"type": "integer"}]}, 1),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["a"]}]}, {"a": 1}),
        ({"required": ["a"], "type": "object"}, {"a": "any"}),
        ({}, "water"),
    ],
)
def test_an_instance_satisfies_its_schema(schema: object, expected: Json) -> None:
    assert instance_of(schema) == expected


def test_recursion_ends_in_an_empty_list() -> None:
    node = instance_of(TREE)

    while isinstance(node, dict) and node["children"]:
        assert node["value"] == 1
        assert isinstance(node["children"], list)
        node = node["children"][0]
    assert node == {"value": 1, "children": []}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    ],
)
def test_what_has_no_finite_instance_is_refused(schema: object) -> None:
    with pytest.raises(UnsupportedSchema):
        instance_of(schema)
