"""The API reference out of the OpenAPI document: what `/docs` and the documentation show."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class ApiParameter(NamedTuple):
    """A parameter of a request, in its path, query string or body."""

    name: str
    place: str
    kind: str
    default: str
    description: str


class ApiOperation(NamedTuple):
    """One request that the API answers."""

    method: str
    path: str
    description: str
    parameters: tuple[ApiParameter, ...]
    example: str
    """A body to send, as JSON; empty without one."""
    answer: str
    """An answer, as JSON; empty where the document has none."""
    errors: tuple[tuple[str, str], ...]
    """Status -> what is wrong."""


def operations(document: dict[str, Any]) -> list[ApiOperation]:
    """The requests of an OpenAPI document, in its order."""
    schemas = document["components"]["schemas"]

    def resolved(schema: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        return found

    def content(part: dict[str, Any]) -> dict[str, Any]:
        return resolved(part.get("content", {}).get("application/json", {}).get("schema", {}))

    def one(method: str, path: str, operation: dict[str, Any]) -> ApiOperation:
        body = content(operation.get("requestBody", {}))
        required = body.get("required", ())
        parameters = [
            _parameter(each["name"], each["in"], each["schema"], each["required"])
            for each in operation.get("parameters", ())
        ] + [_parameter(name, "body", each, name in required) for name, each in body.get("properties", {}).items()]
        answers = operation["responses"]
        return ApiOperation(
            method=method.upper(),
            path=path,
            description=operation["description"],
            parameters=tuple(sorted(parameters, key=lambda each: each.default != "required")),
            example=_json(body.get("example")),
            answer=_json(content(answers["200"]).get("example")),
            errors=tuple(
                (status, answer["content"]["application/json"]["example"]["error"]["message"])
                for status, answer in answers.items()
                if status != "200"
            ),
        )

    paths = document["paths"].items()
    return [one(method, path, operation) for path, methods in paths for method, operation in methods.items()]


def _parameter(name: str, place: str, schema: dict[str, Any], required: bool) -> ApiParameter:
    default = schema.get("default")
    shown = "required" if required else "" if default in (None, []) else json.dumps(default)
    return ApiParameter(name, place, _kind(schema), shown, schema.get("description", ""))


def _kind(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema["type"] == "array":
        return f"list of {_kind(schema['items'])}"
    limits = f" {schema['minimum']:g} to {schema['maximum']:g}" if "minimum" in schema else ""
    return {"string": "text", "boolean": "true, false", "integer": "whole number"}[schema["type"]] + limits


def _json(example: Any) -> str:
    return "" if example is None else json.dumps(example, indent=2, ensure_ascii=False)
