"""The chart installs what `deploy/` holds, and refuses values that it does not know. Rendered by the real `helm`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import promql_parser
import pytest
import typer
import yaml

from modelyard import __version__
from modelyard.cli.verbs import app, command
from modelyard.manifests.install import OLDEST_KUBERNETES
from modelyard.runtime.metrics import Metrics
from tests.chart.helm import CHART, DEPLOY, HelmError, by_key, helm, render
from tools import chart_values, dashboard

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chart.helm import Json, Key

KEPT = {"helm.sh/resource-policy": "keep"}
DIGEST = "sha256:" + 64 * "a"
EVERY_OPTION = (
    "door=true", "podMonitor.enabled=true", "prometheusRule.enabled=true", "dashboards.enabled=true",
    "networkPolicy.enabled=true", f"image.digest={DIGEST}", "settings.model-cache-size=200Gi",
    "podMonitor.labels.release=prometheus", "image.pullSecrets[0].name=registry", "priorityClassName=high",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=metrics",
    "page.enabled=true", "page.urls[0]=https://models.example.com", "page.edit=true",
    "networkPolicy.pageFrom[0].namespaceSelector.matchLabels.team=ingress",
)  # fmt: skip


def deployed(file: str) -> dict[Key, Json]:
    """Return the objects of a file of `deploy/`, but for the namespace, which Helm leaves to its user."""
    found = by_key((DEPLOY / file).read_text(encoding="utf-8"))
    return {key: body for key, body in found.items() if key[0] != "Namespace"}


def plain(value: Any) -> Any:
    """Return a part of an object without what tells releases apart, and what makes Helm keep it."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    left = {key: plain(each) for key, each in value.items() if key != "app.kubernetes.io/instance"}
    return left if left.get("annotations") != KEPT else {key: left[key] for key in left if key != "annotations"}


def roles(objects: dict[Key, Json]) -> dict[Key, Json]:
    return {key: body for key, body in objects.items() if "Role" in key[0] or key[0] == "ServiceAccount"}


def operator(objects: dict[Key, Json]) -> Json:
    return pod_of(objects, "operator")


def pod_of(objects: dict[Key, Json], component: str) -> Json:
    """Return the pod of the only Deployment with this component."""
    (deployment,) = (
        body for key, body in objects.items()
        if key[0] == "Deployment" and body["metadata"]["labels"]["app.kubernetes.io/component"] == component
    )  # fmt: skip
    pod: Json = deployment["spec"]["template"]["spec"]
    return pod


@pytest.fixture(scope="module")
def default() -> dict[Key, Json]:
    """The chart as it is installed without any values."""
    return render()


@pytest.fixture(scope="module")
def complete() -> dict[Key, Json]:
    """The chart with every option on."""
    return render(*EVERY_OPTION)


def test_the_chart_installs_exactly_what_deploy_holds(default: dict[Key, Json]) -> None:
    assert plain(default) == deployed("install.yaml")


def test_for_one_namespace_it_grants_exactly_what_deploy_grants() -> None:
    assert roles(render("namespace=default", "crds.install=false")) == deployed("rbac-namespace.yaml")


def test_the_door_gets_exactly_the_rights_that_deploy_grants(complete: dict[Key, Json]) -> None:
    door = deployed("rbac-door.yaml")
    assert roles(complete) == {**roles(deployed("install.yaml")), **door}
    assert "--door" in operator(complete)["containers"][0]["args"]


def test_definitions_and_priority_classes_outlive_the_release(default: dict[Key, Json]) -> None:
    kept = {key for key, body in default.items() if body["metadata"].get("annotations") == KEPT}
    assert kept == {key for key in default if key[0] in ("CustomResourceDefinition", "PriorityClass")}
    given_up = render("crds.keep=false", "priorityClasses.keep=false")
    assert [key for key, body in given_up.items() if "annotations" in body["metadata"]] == []


def test_they_can_be_left_to_the_administrator(default: dict[Key, Json]) -> None:
    left = render("crds.install=false", "priorityClasses.install=false", "rbac.create=false")
    assert {key[0] for key in default} - {key[0] for key in left} == {
        "CustomResourceDefinition", "PriorityClass", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    }  # fmt: skip


def test_the_image_is_named_by_digest_or_tag_for_the_operator_and_for_downloads(complete: dict[Key, Json]) -> None:
    tagged = render("image.repository=registry.example.com/modelyard", "image.tag=edge", "crds.install=false")
    for objects, image in (
        (complete, f"ghcr.io/modelyard/modelyard@{DIGEST}"),
        (tagged, "registry.example.com/modelyard:edge"),
    ):
        container = operator(objects)["containers"][0]
        assert container["image"] == image
        assert {"name": "MODELYARD_INIT_CONTAINER_IMAGE", "value": image} in container["env"]


def test_the_page_is_the_one_of_deploy(default: dict[Key, Json]) -> None:
    url = by_key((DEPLOY / "page.yaml").read_text(encoding="utf-8"))["Deployment", "modelyard-system", "modelyard-page"]
    (flag,) = (arg for arg in url["spec"]["template"]["spec"]["containers"][0]["args"] if arg.startswith("--url="))
    shown = plain(render("page.enabled=true", f"page.urls[0]={flag.removeprefix('--url=')}"))
    assert {key: body for key, body in shown.items() if key not in default} == deployed("page.yaml")


def test_the_page_has_no_rights_and_takes_its_flags(complete: dict[Key, Json]) -> None:
    pod = pod_of(complete, "page")
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert [volume["configMap"] for volume in pod["volumes"]] == [{"name": "kube-root-ca.crt"}]
    container = pod["containers"][0]
    assert container["image"] == f"ghcr.io/modelyard/modelyard@{DIGEST}"
    verb, *flags = container["args"]
    parsed = typer.main.get_group(app).commands[verb].make_context(verb, flags).params
    assert (parsed["in_cluster"], parsed["edit"], parsed["url"]) == (True, True, ["https://models.example.com"])
    alone = render("namespace=team", "crds.install=false", "page.enabled=true", "page.urls[0]=https://a.example")
    assert "--namespace=team" in pod_of(alone, "page")["containers"][0]["args"]


def test_a_page_without_an_address_is_refused_with_the_remedy() -> None:
    with pytest.raises(HelmError, match=r"page.urls is empty: name what browsers open"):
        render("page.enabled=true")


def test_settings_are_flags_of_the_operator(complete: dict[Key, Json]) -> None:
    assert operator(complete)["containers"][0]["args"] == ["run", "--door", "--model-cache-size=200Gi"]


def test_a_second_release_shares_no_name_and_no_selector_with_the_first() -> None:
    options = ("namespace=team", "crds.install=false", "priorityClasses.install=false")
    first, second = (render(*options, release=name) for name in ("modelyard", "team"))
    assert first.keys() & second.keys() == set()
    selectors = [
        body["spec"]["selector"]["matchLabels"] for body in (*first.values(), *second.values())
        if body["kind"] == "Deployment"
    ]  # fmt: skip
    assert selectors[0] != selectors[1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("replica=3", "Additional property replica is not allowed"),
        ("settings.model-cache-sise=1Gi", "settings: Additional property model-cache-sise is not allowed"),
        ("settings.model-cache-mode=mine", "settings.model-cache-mode"),
        ("image.digest=sha256:12", "image.digest: Does not match pattern"),
        ("replicas=two", "replicas: Invalid type"),
        ("page.urls[0]=http://models.example.com", "page.urls.0: Does not match pattern"),
        ("image.repository=registry.example.com/modelyard:0.1.0", "image.repository: Does not match pattern"),
        ("image.tag=-edge", "image.tag: Does not match pattern"),
        ("resources.limit.memory=1Gi", "resources: Additional property limit is not allowed"),
        ("resources.limits.memory=256MiB", "resources.limits.memory: "),
        ("podLabels.team=the shop", "podLabels.team: Does not match pattern"),
        ("nodeSelector.-zone=a", "nodeSelector: Property name of "),
        ("priorityClassName=Very_High", "priorityClassName: Does not match pattern"),
        ("podMonitor.labels.release=no spaces", "podMonitor.labels.release: Does not match pattern"),
        ("affinity.nodeAfinity.x=1", "affinity: Additional property nodeAfinity is not allowed"),
        ("tolerations[0].efect=NoSchedule", "tolerations.0: Additional property efect is not allowed"),
        ("networkPolicy.metricsFrom[0].podSelctor.x=1", "metricsFrom.0: Additional property podSelctor is not allowed"),
        ("env[0].nam=HTTPS_PROXY", "env.0: Additional property nam is not allowed"),
        (r"podLabels.app\.kubernetes\.io/managed-by=modelyard", "podLabels.app.kubernetes.io/managed-by"),
    ],
)
def test_a_bad_value_is_refused_by_name(value: str, message: str) -> None:
    with pytest.raises(HelmError, match=re.escape(message)):
        render(value)


GOOD_SETTINGS = {
    "allowed-host-path-roots": "/srv/models, /data",
    "allowed-remote-hosts": "models.example.com, 10.0.0.0/8",
    "ca-cert-configmap": "trusted",
    # As OpenShift has them: Helm would print it as 1.0007e+09.
    "default-fsgroup": 1000700000,
    "engine-metrics": True,
    "host-networks": "",
    "intel-gpu-resource": "gpu.intel.com/xe",
    "log-format": "text",
    "log-level": "DEBUG",
    "model-cache-access-mode": "ReadWriteMany",
    "model-cache-mode": "perService",
    "model-cache-path": "/cache/models",
    "model-cache-size": "0.5Ti",
    "model-cache-storage-class": "fast",
    "model-revalidate-interval": "1h30m",
    "runtime-images": "llamacpp=ghcr.io/ggml-org/llama.cpp:server,vllm=vllm/vllm-openai:v1",
}
BAD_SETTINGS = {
    "allowed-host-path-roots": "models",
    "allowed-remote-hosts": "http://models.example.com",
    "default-fsgroup": "many",
    "host-networks": None,
    "intel-gpu-resource": "i915",
    "log-format": "xml",
    "log-level": "verbose",
    "model-cache-access-mode": "ReadWriteTwice",
    "model-cache-path": "/",
    "model-cache-size": "0Gi",
    "model-revalidate-interval": "daily",
    "runtime-images": "ollama=ollama/ollama",
}


def settings_file(folder: Path, settings: Json) -> Path:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump({"settings": settings, "crds": {"install": False}}))
    return file


def test_the_operator_takes_every_setting_as_the_chart_passes_it_on(tmp_path: Path) -> None:
    schema = json.loads(chart_values.schema())["$defs"]["Values"]["properties"]["settings"]["properties"]
    assert GOOD_SETTINGS.keys() == schema.keys()
    rendered = by_key(helm("template", "modelyard", CHART, "--values", settings_file(tmp_path, GOOD_SETTINGS)))
    verb, *flags = operator(rendered)["containers"][0]["args"]
    parsed = command(verb).make_context(verb, flags).params
    assert (parsed["fs_group"], parsed["host_networks"], parsed["engine_metrics"]) == (1000700000, "", True)


def test_settings_that_the_operator_would_refuse_are_refused_by_the_chart(tmp_path: Path) -> None:
    with pytest.raises(HelmError) as refused:
        helm("template", "modelyard", CHART, "--values", settings_file(tmp_path, BAD_SETTINGS))
    assert {name for name in BAD_SETTINGS if f"- settings.{name}: " not in str(refused.value)} == set()


def test_names_that_look_like_numbers_stay_names() -> None:
    """A preview environment has the namespace of its commit, such as 12e4567."""
    options = (
        "crds.install=false",
        "priorityClasses.install=false",
        "page.enabled=true",
        "page.urls[0]=https://a.example",
    )
    rendered = render(*options, "podMonitor.enabled=true", release="123", namespace="456")
    assert {type(part) for key in rendered for part in key} == {str}
    labels = [value for body in rendered.values() for value in body["metadata"].get("labels", {}).values()]
    assert {type(value) for value in labels} == {str}


def test_a_door_for_one_namespace_is_refused_with_the_remedy() -> None:
    with pytest.raises(HelmError, match="leave `namespace` empty"):
        render("door=true", "namespace=team")


@pytest.mark.parametrize("values", [(), EVERY_OPTION], ids=["default", "every option"])
def test_helm_finds_no_fault(values: tuple[str, ...]) -> None:
    options = [word for value in values for word in ("--set", value)]
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, *options)


def test_every_option_adds_its_objects(default: dict[Key, Json], complete: dict[Key, Json]) -> None:
    assert {key for key in complete.keys() - default.keys() if "Role" not in key[0]} == {
        ("PodMonitor", "modelyard-system", "modelyard"),
        ("PodMonitor", "modelyard-system", "modelyard-engines"),
        ("PrometheusRule", "modelyard-system", "modelyard"),
        ("ConfigMap", "modelyard-system", "modelyard-dashboards"),
        ("NetworkPolicy", "modelyard-system", "modelyard"),
        ("NetworkPolicy", "modelyard-system", "modelyard-page"),
        ("Deployment", "modelyard-system", "modelyard-page"),
        ("Service", "modelyard-system", "modelyard-page"),
    }


def queries(objects: dict[Key, Json]) -> list[str]:
    """Return every query of the alerts, the recording rules and the dashboards."""
    boards = objects["ConfigMap", "modelyard-system", "modelyard-dashboards"]["data"].values()
    panels = (panel for board in boards for panel in json.loads(board)["panels"])
    groups = objects["PrometheusRule", "modelyard-system", "modelyard"]["spec"]["groups"]
    return [
        *(target["expr"] for panel in panels for target in panel["targets"]),
        *(rule["expr"] for group in groups for rule in group["rules"]),
    ]


def test_every_query_is_promql(complete: dict[Key, Json]) -> None:
    for query in queries(complete):
        # Grafana writes its interval there.
        promql_parser.parse(query.replace("$__rate_interval", "5m"))


def test_alerts_and_dashboards_ask_only_for_metrics_that_there_are(complete: dict[Key, Json]) -> None:
    families = Metrics().registry.collect()
    known = {name for family in families for name in (family.name, f"{family.name}_total", f"{family.name}_bucket")}
    asked = {name for query in queries(complete) for name in re.findall(r"modelyard_\w+", query)}
    assert asked
    assert asked - known == set()


def test_the_engines_are_scraped_and_recorded_as_by_the_file_for_clusters_without_helm(
    complete: dict[Key, Json],
) -> None:
    by_hand = deployed("monitoring.yaml")
    monitor, record = ((kind, "modelyard-system", "modelyard-engines") for kind in ("PodMonitor", "PrometheusRule"))
    assert complete[monitor]["spec"] == by_hand[monitor]["spec"]
    groups = complete["PrometheusRule", "modelyard-system", "modelyard"]["spec"]["groups"]
    assert [group for group in groups if group["name"] == "modelyard-engines"] == by_hand[record]["spec"]["groups"]


def test_an_operator_that_reads_engines_itself_leaves_nothing_of_that_to_prometheus() -> None:
    monitored = ("podMonitor.enabled=true", "prometheusRule.enabled=true")
    rendered = render(*monitored, "settings.engine-metrics=true")
    assert ("PodMonitor", "modelyard-system", "modelyard-engines") not in rendered
    groups = rendered["PrometheusRule", "modelyard-system", "modelyard"]["spec"]["groups"]
    assert [group["name"] for group in groups] == ["modelyard-operator"]
    assert "--engine-metrics" in operator(rendered)["containers"][0]["args"]


def test_the_schema_and_the_dashboards_are_generated() -> None:
    assert (CHART / "values.schema.json").read_text(encoding="utf-8") == chart_values.schema()
    boards = {path.stem: path.read_text(encoding="utf-8") for path in (CHART / "files" / "dashboards").iterdir()}
    assert boards == {name: dashboard.text(board) for name, board in dashboard.BOARDS.items()}


def test_the_defaults_are_those_of_the_schema_and_every_value_is_listed() -> None:
    listed = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert listed == msgspec.json.decode(msgspec.json.encode(chart_values.Values()))


def test_the_chart_has_the_version_of_the_program() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    assert about["kubeVersion"] == f">={OLDEST_KUBERNETES}.0-0"
