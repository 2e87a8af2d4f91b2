"""Every address means the address of the pod, and nothing else is touched."""

from __future__ import annotations

import pytest

from modelyard.local.node.process.own_address import with_own_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0", "127.97.1.2"),
        ("--host=0.0.0.0", "--host=127.97.1.2"),
        ("0.0.0.0:8080", "127.97.1.2:8080"),
        ("http://0.0.0.0:8080/mcp", "http://127.97.1.2:8080/mcp"),
        ("http://0.0.0.0/mcp", "http://127.97.1.2/mcp"),
        ("::", "127.97.1.2"),
        ("[::]:8080", "127.97.1.2:8080"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("10.0.0.0.0", "10.0.0.0.0"),
        ("0.0.0.0.1", "0.0.0.0.1"),
        ("std::string", "std::string"),
        ("fe80::1", "fe80::1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_every_address_is_replaced_by_that_of_the_pod(text: str, expected: str) -> None:
    assert with_own_address(text, "127.97.1.2") == expected
