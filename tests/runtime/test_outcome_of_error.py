"""What each error of the API server means for the plan that ran into it."""

from __future__ import annotations

import msgspec
import pytest

from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.kube.errors import StillBusy, from_answer
from modelyard.runtime.apply import outcome_of_error

AUTHORIZER = 'services is forbidden: User "modelyard" cannot create resource "services" in API group ""'
QUOTA = 'services "tools" is forbidden: exceeded quota: few, requested: services=1, used: services=2, limited: 2'
POLICY = (
    "services \"tools\" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'images' denied request: images "
    "of ghcr.io cannot be used here"
)
WEBHOOK = 'admission webhook "validation.example.com" denied the request: a Service cannot have a node port'
OWNER = (
    'services "tools" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you '
    "can't set finalizers on"
)
NEW_KIND = (
    'deployments.apps "tools" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping '
    'for APIVersion example.com/v1 Kind MCP: no matches for kind "MCP" in version "example.com/v1"'
)
TERMINATING = "unable to create new content in namespace gone because it is being terminated"


def answered(code: int, message: str = "no", retry_after: str = "", **details: object):
    body = msgspec.json.encode({"kind": "Status", "code": code, "message": message, "details": details})
    return outcome_of_error(from_answer(code, {"Retry-After": retry_after}, body, "create", "services"))


@pytest.mark.parametrize(
    ("code", "message", "reason", "retried"),
    [
        (403, AUTHORIZER, Reason.FORBIDDEN, True),
        (403, QUOTA, Reason.CHILD_REFUSED, False),
        (403, OWNER, Reason.FORBIDDEN, True),
        (403, POLICY, Reason.CHILD_REFUSED, False),
        (403, WEBHOOK, Reason.CHILD_REFUSED, False),
        (403, NEW_KIND, Reason.API_UNAVAILABLE, False),
        (403, TERMINATING, Reason.WAITING_FOR_CLEANUP, False),
        (400, "nonsense", Reason.CHILD_REFUSED, False),
        (422, "invalid", Reason.CHILD_REFUSED, False),
        (409, "changed", Reason.API_UNAVAILABLE, True),
        (429, "busy", Reason.API_UNAVAILABLE, True),
        (500, "broken", Reason.API_UNAVAILABLE, True),
        (503, "starting", Reason.API_UNAVAILABLE, True),
    ],
)
def test_an_error_is_tried_again_or_shown(code: int, message: str, reason: Reason, retried: bool):
    outcome = answered(code, message)
    assert outcome.problem
    assert (outcome.problem.reason, outcome.retry) == (reason, retried)
    assert retried or outcome.requeue_after


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        (403, QUOTA, "raise the quota, or delete what uses it up"),
        (422, "spec.selector: Invalid value: field is immutable", "delete that object; it is created again"),
        (403, POLICY, "change what is named"),
    ],
)
def test_a_refusal_names_what_to_do(code: int, message: str, remedy: str):
    problem = answered(code, message).problem
    assert problem
    assert problem.remedy == remedy


def test_the_server_says_how_long_to_wait():
    assert answered(429, retry_after="7").retry_after == 7.0


def test_a_webhook_that_does_not_answer_is_to_be_repaired():
    said = 'Internal error occurred: failed calling webhook "gone.example.com": connection refused'
    problem = answered(500, said).problem
    assert problem
    assert (problem.reason, problem.remedy) == (
        Reason.API_UNAVAILABLE,
        "repair the webhook, or remove its configuration",
    )


def test_to_wait_as_long_as_the_server_asked_for_is_no_second_failure():
    assert answered(429).is_news
    assert not outcome_of_error(StillBusy(429, "TooManyRequests", "busy", retry_after=3.0)).is_news


def test_an_object_that_was_replaced_by_another_is_looked_at_again():
    causes = [{"field": "metadata.uid", "message": "Precondition failed"}]
    assert answered(422, "uid", causes=causes).retry


def test_a_namespace_that_goes_is_no_news():
    outcome = answered(403, TERMINATING)
    assert outcome.problem
    assert outcome.problem.reason not in PROBLEMS
