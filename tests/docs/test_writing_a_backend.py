"""The backend that docs/writing-a-backend.md shows keeps the contract. Its test class is the page's own."""

from __future__ import annotations

import sys
import types
from typing import Any

from tests.docs.pages import page

PAGE = "docs/writing-a-backend.md"


def _of_the_page() -> Any:
    module = types.ModuleType("tests_docs_file_backend")
    sys.modules[module.__name__] = module
    for block in page(PAGE).blocks:
        if block.language == "python":
            exec(compile(block.text, block.where, "exec", dont_inherit=True), vars(module))
    return module


TestFileBackend = _of_the_page().TestFileBackend


def test_the_page_shows_a_subclass_of_the_conformance_suite() -> None:
    assert [base.__name__ for base in TestFileBackend.__mro__[1:3]] == ["ClaimConformance", "LifecycleConformance"]
