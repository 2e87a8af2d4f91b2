"""What the operator may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from modelyard.core.checks.log_tail import LogTail
from modelyard.core.resources import JOB, NODE, SECRET, VOLUME_CLAIM
from modelyard.manifests.rbac import for_cluster, for_namespace, rules
from tests.manifests.toys import TOY, TOY_WITH_FINALIZER

if TYPE_CHECKING:
    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Kind


def verbs(*kinds: Kind) -> dict[str, str]:
    """Return the verbs by resource, such as {"deployments.apps": "get list"}."""
    return {
        f"{name}.{group}".rstrip("."): " ".join(rule["verbs"])
        for rule in rules(kinds)
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }


def test_everything_a_kind_declares_is_allowed_and_nothing_else():
    assert verbs(TOY) == {
        "toys.toys.example.com": "list watch",
        "toys/status.toys.example.com": "patch",
        "toys/finalizers.toys.example.com": "update",
        "pods": "list watch",
        "secrets": "get",
        "services": "create delete get list patch watch",
        "deployments.apps": "create get list patch watch",
        "deployments/scale.apps": "patch",
        "events.events.k8s.io": "create",
    }


def test_a_kind_with_undo_may_change_its_finalizers():
    assert verbs(TOY_WITH_FINALIZER)["toys.toys.example.com"] == "list patch watch"


def test_secrets_that_are_children_are_not_listed_either():
    assert verbs(replace(TOY, children=(SECRET,)))["secrets"] == "create get patch"


def test_what_is_only_created_is_never_changed():
    given = verbs(replace(TOY, creates=(JOB, VOLUME_CLAIM), looks_at=(VOLUME_CLAIM,), deletes=(JOB,)))
    assert given["jobs.batch"] == "create delete get list watch"
    assert given["persistentvolumeclaims"] == "create get list watch"


def test_who_reads_logs_may_do_so():
    assert verbs(replace(TOY, asks=(LogTail,)))["pods/log"] == "get"


def test_a_role_for_one_namespace_leaves_what_is_in_none_to_a_small_cluster_role():
    objects = for_namespace([replace(TOY, looks_at=(NODE,))], "here")
    (cluster_role,) = (body for body in objects if body["kind"] == "ClusterRole")
    assert cluster_role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
    (role,) = (body for body in objects if body["kind"] == "Role" and body["metadata"]["namespace"] == "here")
    assert all("nodes" not in rule["resources"] for rule in role["rules"])


def test_what_several_kinds_need_is_said_once():
    assert rules([TOY, TOY]) == rules([TOY])


def test_resources_with_equal_verbs_share_a_rule():
    other = replace(TOY, resource=replace(TOY.resource, kind="Ball", plural="balls"))
    assert {"apiGroups": ["toys.example.com"], "resources": ["balls", "toys"], "verbs": ["list", "watch"]} in (
        rules([TOY, other])
    )


def kinds_of(objects: list[Json]) -> list[tuple[str, str | None]]:
    return [(body["kind"], body["metadata"].get("namespace")) for body in objects]


def test_serving_the_cluster_takes_a_cluster_role_and_leases_at_home():
    assert kinds_of(for_cluster([TOY])) == [
        ("ServiceAccount", "modelyard-system"),
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "modelyard-system"),
        ("RoleBinding", "modelyard-system"),
    ]


def test_serving_one_namespace_takes_no_right_outside_it_but_leases_at_home():
    assert kinds_of(for_namespace([TOY], "team")) == [
        ("ServiceAccount", "modelyard-system"),
        ("Role", "team"),
        ("RoleBinding", "team"),
        ("Role", "modelyard-system"),
        ("RoleBinding", "modelyard-system"),
    ]
