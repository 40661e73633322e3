"""How a refusal shows what was given."""

from __future__ import annotations


def shown(value: object) -> str:
    """The value as Python writes it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python will print
        return "with thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."
