"""Does a stored object satisfy an intent? Each rule by example, and all of them by search."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.core.diff import fingerprint, first_difference
from modelyard.core.field_types import FIELDS, ROOTS
from tests.core.leaves import changed, leaves, may_be_absent, removed

NETWORKING, DISCOVERY = "networking.k8s.io/v1", "discovery.k8s.io/v1"


def pod(**spec: Any) -> Any:
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


def server(**container: Any) -> Any:
    return pod(containers=[{"name": "server", **container}])


def volume(**source: Any) -> Any:
    return pod(volumes=[{"name": "data", **source}])


def service(**spec: Any) -> Any:
    return {"apiVersion": "v1", "kind": "Service", "spec": spec}


def labelled(**labels: str) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": labels}}


def held(*finalizers: str) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": list(finalizers)}}


def endpoint(**fields: Any) -> Any:
    return {"apiVersion": DISCOVERY, "kind": "EndpointSlice", "endpoints": [fields]}


def autoscaler(**target: Any) -> Any:
    metrics = [{"type": "Pods", "pods": {"target": target}}]
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {"metrics": metrics}}


def peer(**fields: Any) -> Any:
    rules = [{"from": [fields]}]
    return {"apiVersion": NETWORKING, "kind": "NetworkPolicy", "spec": {"ingress": rules}}


def route(**spec: Any) -> Any:
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "spec": spec}


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        pytest.param(pod(hostname="a"), pod(hostname="a", dnsPolicy="ClusterFirst"), id="the server adds fields"),
        pytest.param(volume(emptyDir={}), volume(emptyDir={"medium": "Memory"}), id="also deep inside"),
        pytest.param(server(image=""), server(), id="an empty string is dropped"),
        pytest.param(pod(hostNetwork=False), pod(), id="a false is dropped"),
        pytest.param(server(ports=[]), server(), id="an empty list is dropped"),
        pytest.param(server(ports=[]), server(ports=None), id="or becomes null"),
        pytest.param(pod(nodeSelector={}), pod(), id="an empty map is dropped"),
        pytest.param(service(selector={}), service(), id="also one that has one owner"),
        pytest.param(pod(nodeSelector={"a": "1"}), pod(nodeSelector={"a": "1", "b": "2"}), id="admission adds to some"),
        pytest.param(server(resources={}), server(), id="an empty struct that is no pointer is dropped"),
        pytest.param(server(resources={"limits": {}}), server(), id="also one that holds only zeros"),
        pytest.param(pod(hostUsers=None), pod(), id="a null is dropped, even that of a pointer"),
        pytest.param(
            server(resources={"limits": {"memory": "1024Ki"}}),
            server(resources={"limits": {"memory": "1Mi"}}),
            id="quantities are respelled",
        ),
        pytest.param(
            server(resources={"requests": {"cpu": 0.5}}),
            server(resources={"requests": {"cpu": "500m"}}),
            id="numbers become text",
        ),
        pytest.param(autoscaler(averageValue="0.5"), autoscaler(averageValue="500m"), id="of metrics too"),
        pytest.param(
            volume(emptyDir={"sizeLimit": "1024Mi"}), volume(emptyDir={"sizeLimit": "1Gi"}), id="of volumes too"
        ),
        pytest.param(
            server(env=[{"name": "a", "value": "1"}]),
            server(env=[{"name": "b", "value": "2"}, {"name": "a", "value": "1"}]),
            id="others add entries to lists with keys, anywhere",
        ),
        pytest.param(
            service(ports=[{"port": 80, "protocol": "TCP"}]),
            service(ports=[{"port": 80, "protocol": "TCP", "nodePort": 30000}, {"port": 80, "protocol": "UDP"}]),
            id="a port is known by number and protocol",
        ),
        pytest.param(
            service(ports=[{"port": 80, "name": "http"}]),
            service(ports=[{"port": 80, "protocol": "UDP"}, {"port": 80, "protocol": "TCP", "name": "http"}]),
            id="a protocol that is left out is TCP",
        ),
        pytest.param(held("a"), held("b", "a"), id="others add to sets"),
        pytest.param(server(args=["a", "b"]), server(args=["a", "b"]), id="lists without keys are equal"),
        pytest.param(
            peer(ipBlock={"cidr": "10.0.0.0/8"}),
            peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["10.0.0.1/32"]}),
            id="the server adds fields inside of lists without keys",
        ),
        pytest.param(
            route(rules=[{"backendRefs": [{"name": "a", "weight": 0}]}]),
            route(rules=[{"backendRefs": [{"name": "a", "weight": 0, "kind": "Service"}], "matches": []}]),
            id="the server adds defaults to custom resources",
        ),
        pytest.param(
            {**route(), "metadata": {"labels": {}, "finalizers": ["a"]}},
            {**route(), "metadata": {"finalizers": ["b", "a"]}},
            id="the metadata of custom resources are those of all objects",
        ),
    ],
)
def test_nothing_to_do(wanted: Any, live: Any):
    assert first_difference(wanted, live) is None


@pytest.mark.parametrize(
    ("wanted", "live", "path"),
    [
        pytest.param(server(image="a"), server(image="b"), "spec.containers[server].image", id="another value"),
        pytest.param(pod(hostname="a"), pod(), "spec.hostname", id="no value"),
        pytest.param(pod(hostname="a"), {**pod(), "spec": None}, "spec", id="no mapping"),
        pytest.param(pod(), {"apiVersion": "v1", "kind": "Service"}, "kind", id="another kind"),
        pytest.param(pod(hostNetwork=False), pod(hostNetwork=True), "spec.hostNetwork", id="an overwritten zero"),
        pytest.param(pod(hostUsers=False), pod(), "spec.hostUsers", id="a false that is a statement"),
        pytest.param(
            pod(securityContext={"runAsUser": 0}),
            pod(securityContext={}),
            "spec.securityContext.runAsUser",
            id="a zero that is a statement",
        ),
        pytest.param(
            endpoint(conditions={"ready": False}),
            endpoint(conditions={}),
            "endpoints[0].conditions.ready",
            id="an endpoint that is not ready",
        ),
        pytest.param(
            endpoint(conditions={"ready": False}), endpoint(), "endpoints[0].conditions", id="in a struct that is gone"
        ),
        pytest.param(volume(emptyDir={}), volume(), "spec.volumes[data].emptyDir", id="an empty struct of a pointer"),
        pytest.param(
            peer(podSelector={}, namespaceSelector={}),
            peer(podSelector={}),
            "spec.ingress[0].from[0].namespaceSelector",
            id="a selector of everything",
        ),
        pytest.param(labelled(a=""), labelled(), "metadata.labels.a", id="a label without a value"),
        pytest.param(
            server(resources={"limits": {"memory": "1Mi"}}),
            server(resources={"limits": {"memory": "1M"}}),
            "spec.containers[server].resources.limits.memory",
            id="less memory",
        ),
        pytest.param(
            server(resources={"limits": {"memory": "1Mi"}}),
            server(resources={"limits": {"memory": "x"}}),
            "spec.containers[server].resources.limits.memory",
            id="no quantity",
        ),
        pytest.param(
            server(resources={"limits": {"example.com/gpu": "0"}}),
            server(resources={"limits": {}}),
            "spec.containers[server].resources.limits.example.com/gpu",
            id="a limit of zero",
        ),
        pytest.param(labelled(a="1000m"), labelled(a="1"), "metadata.labels.a", id="text that looks like a quantity"),
        pytest.param(service(selector={}), service(selector={"a": "1"}), "spec.selector.a", id="a selector of nothing"),
        pytest.param(
            service(selector={"a": "1"}), service(selector={"a": "1", "b": "2"}), "spec.selector.b", id="that grew"
        ),
        pytest.param(service(selector={"a": "1"}), service(), "spec.selector", id="that is gone"),
        pytest.param(
            server(env=[{"name": "a", "value": "1"}]),
            server(env=[]),
            "spec.containers[server].env[a]",
            id="an entry that is gone",
        ),
        pytest.param(
            server(env=[{"name": "a", "value": "1"}]),
            server(env=None),
            "spec.containers[server].env",
            id="a list that is gone",
        ),
        pytest.param(
            server(env=[{"name": "a", "value": "1"}]),
            server(env=[{"name": "a", "value": "2"}]),
            "spec.containers[server].env[a].value",
            id="an entry that was changed",
        ),
        pytest.param(
            service(ports=[{"port": 80, "protocol": "TCP"}]),
            service(ports=[{"port": 80, "protocol": "UDP"}]),
            "spec.ports[80]",
            id="a port of another protocol",
        ),
        pytest.param(held("a"), held("b"), "metadata.finalizers[a]", id="what is not in a set"),
        pytest.param(
            endpoint(addresses=["10.0.0.1"]),
            endpoint(addresses=["10.0.0.1", "10.0.0.2"]),
            "endpoints[0].addresses",
            id="a set that grew inside of a list without keys",
        ),
        pytest.param(
            server(args=["a"]), server(args=["a", "b"]), "spec.containers[server].args", id="a list that grew"
        ),
        pytest.param(
            server(args=["a", "b"]),
            server(args=["b", "a"]),
            "spec.containers[server].args[0]",
            id="a list without keys in another order",
        ),
        pytest.param(
            server(args=["a"]), server(args=[]), "spec.containers[server].args", id="a list without keys that is empty"
        ),
        pytest.param(
            route(rules=[{"backendRefs": [{"name": "a", "weight": 0}]}]),
            route(rules=[{"backendRefs": [{"name": "a"}]}]),
            "spec.rules[0].backendRefs[0].weight",
            id="a zero of a custom resource",
        ),
        pytest.param(
            route(env=[{"name": "a"}]),
            route(env=[{"name": "b"}, {"name": "a"}]),
            "spec.env",
            id="a list of a custom resource that grew",
        ),
        pytest.param(
            route(limits={"memory": "1024Ki"}),
            route(limits={"memory": "1Mi"}),
            "spec.limits.memory",
            id="text of a custom resource, which is never respelled",
        ),
    ],
)
def test_something_to_write(wanted: Any, live: Any, path: str):
    assert first_difference(wanted, live) == path


def test_the_first_difference_is_the_first_statement_that_does_not_hold():
    assert first_difference(pod(hostname="a", subdomain="b", nodeName="c"), pod(hostname="a")) == "spec.subdomain"


SCALARS = st.one_of(st.booleans(), st.integers(0, 9), st.text("abc", max_size=3))
NAMES = st.text("xyz", min_size=1, max_size=2)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
PRIMITIVES = {"": SCALARS, "quantity": st.sampled_from(["1", "500m", "1Gi", 2]), "any": ANYTHING}
DEEPEST = 9


@st.composite
def values(draw: st.DrawFn, expression: str, depth: int = 0) -> Any:
    """A value of one of Kubernetes' types; each has a scalar more, for those that the table leaves out."""
    if expression in PRIMITIVES:
        return draw(PRIMITIVES[expression])
    if expression.startswith("["):
        keys, _, items = expression.removeprefix("[").partition("]")
        return draw(lists(keys, items, depth))
    if expression.startswith("{"):
        inner = values(expression.partition("}")[2], depth)
        return draw(st.dictionaries(NAMES, inner, max_size=2))
    fields = {"scalar": "", **(FIELDS[expression] if depth < DEEPEST else {})}
    chosen = draw(st.lists(st.sampled_from(sorted(fields)), unique=True, max_size=3))
    return {name: draw(values(fields[name].removeprefix("*"), depth + 1)) for name in chosen}


@st.composite
def lists(draw: st.DrawFn, keys: str, items: str, depth: int) -> Any:
    if keys == "set":
        return draw(st.lists(st.text("abc", min_size=1, max_size=2), unique=True, max_size=3))
    entries = draw(st.lists(values(items, depth), max_size=2))
    if keys:
        names = [key.partition("=")[0] for key in keys.split(",")]
        return [{**entry, **dict.fromkeys(names, f"key-{number}")} for number, entry in enumerate(entries)]
    return entries


@st.composite
def objects(draw: st.DrawFn) -> Any:
    """An object that is or will be a child: of a type in the table, or a custom resource."""
    (api_version, kind), name = draw(st.sampled_from([*ROOTS.items(), (("example.com/v1", "Toy"), "")]))
    body = draw(values(name)) if name else {"metadata": draw(values("meta.v1.ObjectMeta")), "spec": draw(ANYTHING)}
    return {"apiVersion": api_version, "kind": kind, **body}


@given(objects())
def test_every_object_satisfies_itself(body: Any):
    assert first_difference(body, body) is None


@given(objects(), st.data())
def test_every_leaf_that_is_changed_is_found(body: Any, data: st.DataObject):
    path = data.draw(st.sampled_from(list(leaves(body))))
    assert first_difference(body, changed(body, path, "something else")) is not None


@given(objects(), st.data())
def test_every_leaf_that_is_removed_is_found_unless_it_was_a_zero(body: Any, data: st.DataObject):
    path = data.draw(st.sampled_from(list(leaves(body))))
    assert (first_difference(body, removed(body, path)) is None) == may_be_absent(body, path)


def test_a_fingerprint_changes_with_any_value_and_not_with_the_order_of_fields():
    body = {"a": 1, "b": {"c": [1, 2]}}
    assert fingerprint(body) == fingerprint({"b": {"c": [1, 2]}, "a": 1})
    assert fingerprint(body) != fingerprint({"a": 1, "b": {"c": [2, 1]}})
    assert fingerprint(body) != fingerprint({"a": "1", "b": {"c": [1, 2]}})


def test_a_fingerprint_is_the_same_in_every_release():
    # A hash that changes with an upgrade would write every child of the cluster once more.
    assert fingerprint({"kind": "Service", "spec": {"ports": [{"port": 80}]}}) == "792a381b1e4d9498"
