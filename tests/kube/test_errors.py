"""What an answer of the API server means, and how much of it is shown."""

from __future__ import annotations

import msgspec
import pytest

from modelyard.kube import errors
from modelyard.kube.errors import Cause, Forbidden, Invalid, KubeError, Unavailable, from_answer


def body(**fields: object) -> bytes:
    return msgspec.json.encode({"kind": "Status", "apiVersion": "v1", **fields})


def meant(code: int, content: bytes = b"", **headers: str) -> KubeError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return from_answer(code, named, content, "list", "deployments.apps")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (415, errors.KubeError),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (301, errors.KubeError),
        (500, errors.Unavailable),
        (503, errors.Unavailable),
        (504, errors.Unavailable),
    ],
)
def test_every_status_has_its_class(code: int, expected: type[KubeError]) -> None:
    error = meant(code)
    assert type(error) is expected
    assert error.status == code


def test_a_name_that_is_taken_is_told_from_other_conflicts() -> None:
    assert type(meant(409, body(reason="AlreadyExists"))) is errors.AlreadyExists
    assert type(meant(409, body(reason="Conflict"))) is errors.Conflict


@pytest.mark.parametrize(("code", "uncertain"), [(500, True), (502, True), (504, True), (503, False)])
def test_a_server_error_says_whether_it_may_have_been_done(code: int, uncertain: bool) -> None:
    error = meant(code)
    assert isinstance(error, Unavailable)
    assert error.uncertain is uncertain


def test_the_time_to_wait_comes_from_the_header_or_the_status() -> None:
    assert meant(429, Retry_After="7").retry_after == 7
    assert meant(503, Retry_After="2").retry_after == 2
    assert meant(500, body(details={"retryAfterSeconds": 3})).retry_after == 3
    assert meant(429, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT").retry_after == 0
    assert meant(429).retry_after == 0


def test_an_invalid_object_names_its_fields() -> None:
    causes = [{"field": "spec.replicas", "message": "must be positive", "reason": "FieldValueInvalid"}]
    error = meant(422, body(reason="Invalid", message="bad", details={"causes": causes}))
    assert isinstance(error, Invalid)
    assert error.causes == (Cause("spec.replicas", "must be positive"),)


def test_a_missing_rule_is_named() -> None:
    said = 'deployments.apps is forbidden: User "u" cannot list resource "deployments" in API group "apps"'
    error = meant(403, body(reason="Forbidden", message=said))
    assert isinstance(error, Forbidden)
    assert (error.verb, error.resource) == ("list", "deployments.apps")
    assert "list deployments.apps" in str(error)
    assert "role" in str(error)


def test_a_quota_is_not_taken_for_a_missing_rule() -> None:
    error = meant(403, body(reason="Forbidden", message='pods "a" is forbidden: exceeded quota: small'))
    assert "exceeded quota" in str(error)
    assert "role" not in str(error)


def test_a_long_explanation_is_cut() -> None:
    error = meant(422, body(message="x" * 10_000, details={"causes": [{"field": "f", "message": "y" * 10_000}]}))
    assert isinstance(error, Invalid)
    assert len(str(error)) < 320
    assert len(error.causes[0].message) == 256


@pytest.mark.parametrize(
    "content",
    [
        b"<html>password</html>",
        b'{"kind": "Secret", "message": "password"}',
        b'{"message": "password"}',
        b'{"kind": "Status", "message": ["password"]}',
        b"\xff\xfepassword",
        b"[" * 100_000,
        b"",
    ],
)
def test_a_body_that_is_no_status_is_not_shown(content: bytes) -> None:
    error = meant(500, content)
    assert str(error) == "list deployments.apps: the server answered 500 without saying why"
