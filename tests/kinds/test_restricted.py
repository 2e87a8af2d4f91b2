"""The check itself: a pod template that breaks one rule of `restricted` is found out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.kinds.restricted import violations

if TYPE_CHECKING:
    from modelyard.core.objects import Json

CONTAINER: Json = {
    "name": "it",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
POD: Json = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [CONTAINER],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
}


def merged(body: Json, change: Json) -> Json:
    deep = {name: merged(body[name], part) for name, part in change.items() if isinstance(part, dict) and name in body}
    return {**msgspec.json.decode(msgspec.json.encode(body)), **change, **deep}


def with_container(change: Json) -> Json:
    return {**POD, "containers": [merged(CONTAINER, change)]}


def test_a_restricted_pod_passes():
    assert violations({"spec": POD}) == []


@pytest.mark.parametrize(
    "pod",
    [
        merged(POD, {"hostNetwork": True}),
        merged(POD, {"hostPID": True}),
        merged(POD, {"volumes": [{"name": "disk", "hostPath": {"path": "/"}}]}),
        merged(POD, {"securityContext": {"runAsNonRoot": False}}),
        merged(POD, {"securityContext": {"runAsUser": 0}}),
        merged(POD, {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
        merged(POD, {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
        with_container({"securityContext": {"allowPrivilegeEscalation": True}}),
        with_container({"securityContext": {"capabilities": {"drop": []}}}),
        with_container({"securityContext": {"capabilities": {"add": ["NET_RAW"]}}}),
        with_container({"securityContext": {"privileged": True}}),
        with_container({"securityContext": {"procMount": "Unmasked"}}),
        with_container({"securityContext": {"runAsNonRoot": False}}),
        with_container({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
        with_container({"securityContext": {"seLinuxOptions": {"user": "root"}}}),
        with_container({"securityContext": {"windowsOptions": {"hostProcess": True}}}),
        with_container({"ports": [{"containerPort": 80, "hostPort": 80}]}),
        merged(POD, {"initContainers": [{"name": "first"}]}),
    ],
)
def test_a_pod_that_breaks_a_rule_is_found_out(pod: Json):
    assert violations({"spec": pod})
