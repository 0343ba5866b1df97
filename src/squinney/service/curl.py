"""A command line for each operation of the API, with an example of its body, made from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Schemas = Mapping[str, Mapping[str, Any]]
BY_TYPE: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "string": "text", "null": None}
BY_FORMAT = {"date-time": "2026-11-19T12:00:00Z", "date": "2026-11-19"}
MAX_DEPTH = 6


def curl_for(base: str, schemas: Schemas, method: str, path: str, operation: Mapping[str, Any]) -> str:
    """Return a command that calls the operation; what stands in braces is to be replaced."""
    lines = [f"curl -X {method.upper()} '{base}{path}{_query(operation)}'"]
    if operation.get("security"):
        lines.append("-H 'Authorization: Bearer sqy_…'")
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "header":
            lines.append(f"-H '{parameter['name']}: {example_of(parameter.get('schema', {}), schemas)}'")
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if kind == "application/json":
            body = json.dumps(example_of(content["schema"], schemas), ensure_ascii=False)
            lines += ["-H 'Content-Type: application/json'", "-d '" + body.replace("'", "'\\''") + "'"]
        else:
            lines.append("--data-binary @FILE")
    return " \\\n  ".join(lines)


def _query(operation: Mapping[str, Any]) -> str:
    required = [
        parameter["name"]
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and parameter.get("required")
    ]
    return "?" + "&".join(f"{name}={{{name}}}" for name in required) if required else ""


def example_of(schema: Mapping[str, Any], schemas: Schemas, depth: int = 0) -> Any:
    """Return a value of the schema: its own example if it has one, else one of its type, with the required fields."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    for name in ("const", "default"):
        if schema.get(name) is not None:
            return schema[name]
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if depth > MAX_DEPTH:
        return None
    if choices:
        return example_of(choices[0], schemas, depth + 1)
    if schema.get("type") == "array":
        return [example_of(schema.get("items", {}), schemas, depth + 1)]
    if schema.get("type") == "object" or "properties" in schema:
        fields = schema.get("properties", {})
        return {
            name: example_of(fields[name], schemas, depth + 1) for name in schema.get("required", ()) if name in fields
        }
    return BY_FORMAT.get(schema.get("format", ""), BY_TYPE.get(schema.get("type", ""), "text"))
