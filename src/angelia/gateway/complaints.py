"""Says in one sentence what pydantic found, without the value it found.

pydantic's own messages print the offending input. Ours are built from the kind of the error
and its bounds alone; where a validator of our own wrote the sentence, any long text of the
input that stands in it is cut out, so that even a careless validator gives nothing away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

#: A value shorter than this is no secret worth the name, and cutting it out would cut words.
secret_characters_min = 5

_SENTENCES = {
    "missing": "is missing",
    "string_type": "must be text",
    "bytes_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large a number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "dict_type": "must be a section of keys",
    "mapping_type": "must be a section of keys",
    "model_type": "must be a section of keys",
    "model_attributes_type": "must be a section of keys",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "string_pattern_mismatch": "has not the right form",
    "url_parsing": "must be a whole address, such as http://127.0.0.1:9000/",
    "url_scheme": "must begin with one of {expected_schemes}",
}


def sentence_for(
    error: ErrorDetails, section: Mapping[str, object], known: Sequence[str]
) -> tuple[tuple[str | int, ...], str]:
    """Where in ``section`` the error is, and what is wrong there."""
    kind = error["type"]
    path = tuple(part for part in error["loc"] if isinstance(part, int) or not _is_branch(part))
    if kind == "extra_forbidden":
        return path, f"is no known key here (known: {', '.join(known)})"
    context = error.get("ctx", {})
    if str(context.get("pattern", "")).startswith("^https?://"):
        return path, "must be an http:// or https:// address"
    template = _SENTENCES.get(kind)
    if context.get("min_length") == 1:
        return path, "must not be empty"
    if template is not None:
        bounds = {key: f"{one:g}" if isinstance(one, float) else one for key, one in context.items()}
        return path, template.format(**bounds)
    written = kind in ("value_error", "assertion_error")
    sentence = str(context["error"]) if written and "error" in context else "is not usable"
    given = error["input"] if isinstance(error["input"], str) else section
    for text in sorted(_texts(given), key=len, reverse=True):
        if len(text) >= secret_characters_min:
            sentence = sentence.replace(text, "…")
    return path, sentence


def _is_branch(part: str) -> bool:
    """Whether a part of pydantic's location is a validator's name and no key."""
    return "[" in part or part in ("str", "int", "float", "bool", "none")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
