"""Requests are read the way the API server reads them."""

from __future__ import annotations

import pytest

from tests.support.calls import WRITES, Call, Match, read_call


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, Call("list", "pods")),
        ("GET", "/api/v1/pods", {"watch": "true"}, Call("watch", "pods")),
        ("GET", "/api/v1/namespaces/a/pods", {"watch": "1"}, Call("watch", "pods", "a")),
        ("GET", "/api/v1/namespaces/a/pods/p", {}, Call("get", "pods", "a", "p")),
        ("GET", "/api/v1/namespaces/a/pods/p/log", {}, Call("get", "pods", "a", "p", "log")),
        ("GET", "/api/v1/namespaces/a", {}, Call("get", "namespaces", "", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, Call("update", "namespaces", "", "a", "finalize")),
        ("POST", "/apis/apps/v1/namespaces/a/deployments", {}, Call("create", "deployments.apps", "a")),
        ("PATCH", "/apis/x.dev/v1/namespaces/a/mcps/m/status", {}, Call("patch", "mcps.x.dev", "a", "m", "status")),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments", {}, Call("deletecollection", "deployments.apps", "a")),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments/d", {}, Call("delete", "deployments.apps", "a", "d")),
        ("GET", "/readyz", {}, Call("list")),
        ("GET", "/apis/apps/v1", {}, Call("list")),
    ],
)
def test_a_request_is_read_as_a_call(method: str, path: str, query: dict[str, str], expected: Call) -> None:
    read = read_call(method, path, query, "")
    assert (read.verb, read.resource, read.namespace, read.name, read.subresource) == (
        expected.verb,
        expected.resource,
        expected.namespace,
        expected.name,
        expected.subresource,
    )


def test_a_match_without_fields_fits_every_call() -> None:
    assert Match().fits(Call("create", "pods", "a"))


@pytest.mark.parametrize(
    "match",
    [
        Match(verbs=frozenset({"get"})),
        Match(resource="services"),
        Match(namespace="b"),
        Match(name="other"),
        Match(subresource="status"),
        Match(user_agent="kubectl"),
    ],
)
def test_a_match_fails_on_one_field_that_differs(match: Match) -> None:
    assert not match.fits(Call("create", "pods", "a", "p", "", "modelyard/1"))


def test_reads_are_not_writes() -> None:
    assert not WRITES & {"get", "list", "watch"}
