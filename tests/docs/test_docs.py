"""The docs say what the code does: every list that a page repeats is compared with its source."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import yaml
from msgspec.inspect import Metadata, StructType, Type, UnionType
from typer.testing import CliRunner

from modelyard.cli.verbs import app, command
from modelyard.core import image
from modelyard.core.names import repository
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT
from modelyard.engines import ENGINES
from modelyard.engines.contract import Gpus
from modelyard.engines.measured import FIGURES, sample_names
from modelyard.kinds import ALL
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.gateway import api as gateway_api
from modelyard.kinds.mcp import MCP
from modelyard.kinds.shared import envoy_pod
from modelyard.local.kubeconfig import write_kubeconfig
from modelyard.local.node.process.images import Rule
from modelyard.manifests.rbac import lease_rules, rules
from modelyard.runtime.metrics import Metrics
from modelyard.runtime.status import RUNTIME_CONDITIONS
from tests.kinds.cases import ALL_CASES, Case, differences, play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Kind

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))

_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<text>.+)$", re.MULTILINE)
_ELSEWHERE = ("http://", "https://", "mailto:")


def pages() -> list[Path]:
    """Return every page of the repository; what tools keep in hidden folders is not ours."""
    tops = [top for top in ROOT.iterdir() if not top.name.startswith(".")]
    return sorted(page for top in tops for page in ([top] if top.suffix == ".md" else top.rglob("*.md")))


def fenced(page: Path) -> list[str]:
    """Return the blocks of code of a page, without their fences."""
    return [match[0].partition("\n")[2].rpartition("\n")[0] for match in _FENCED.finditer(page.read_text())]


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors that links into a page may name."""
    headings = (match["text"].lower() for match in _HEADING.finditer(prose(page)))
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    """Return the relative links of a page that lead nowhere."""
    for match in _LINK.finditer(_CODE.sub("", prose(page))):
        path, _, anchor = match["target"].partition("#")
        if match["target"].startswith(_ELSEWHERE):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{page.relative_to(ROOT)}: {match['target']}"


def fields(kind: Type, path: str) -> Iterator[str]:
    """Return the path of every field, down to where Kubernetes' own types and lists begin."""
    match kind:
        case Metadata():
            yield from fields(kind.type, path)
        case UnionType():
            for choice in kind.types:
                yield from fields(choice, path)
        case StructType():
            for field in kind.fields:
                yield f"{path}.{field.encode_name}"
                yield from fields(field.type, f"{path}.{field.encode_name}")


def kind_page(kind: Kind) -> str:
    return (DOCS / "kinds" / f"{kind.name}.md").read_text()


def test_every_reason_has_its_heading_and_no_heading_is_without_a_reason() -> None:
    headings = re.findall(r"^### (.+)$", (DOCS / "reasons.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(reason.value for reason in Reason)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_the_page_of_a_kind_names_every_field(kind: Kind) -> None:
    page = kind_page(kind)
    paths = [
        *fields(msgspec.inspect.type_info(kind.spec), "spec"),
        *fields(msgspec.inspect.type_info(kind.status), "status"),
    ]
    assert paths
    assert [path for path in paths if f"| `{path}` |" not in page] == []


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_the_page_of_a_kind_names_every_condition_type(kind: Kind) -> None:
    page, types = kind_page(kind), (*kind.conditions, *kind.optional_conditions, *RUNTIME_CONDITIONS)
    assert [name for name in types if f"| `{name}`" not in page] == []


def test_every_relative_link_leads_somewhere() -> None:
    assert [link for page in pages() for link in broken_links(page)] == []


def test_the_readme_lists_every_kind_with_its_api() -> None:
    readme = (ROOT / "README.md").read_text()
    rows = (f"| [{kind.resource.kind}](docs/kinds/{kind.name}.md) | `{kind.resource.api_version}` |" for kind in ALL)
    assert [row for row in rows if row not in readme] == []


def test_who_uninstalls_is_told_to_delete_the_objects_of_every_kind() -> None:
    page = (DOCS / "guides" / "operating.md").read_text()
    told = re.findall(r"kubectl delete ([a-z.,-]+) --all --all-namespaces", page)
    # `gateways` alone may be those of the Gateway API, of which none is ours to delete.
    names = (kind.resource.label if kind is GATEWAY else kind.resource.plural for kind in ALL)
    assert sorted(",".join(told).split(",")) == sorted(names)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_kind_is_kept_apart_from_the_others(kind: Kind) -> None:
    assert f"    modelyard.kinds.{kind.name}\n" in (ROOT / ".importlinter").read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_is_planned_without_a_problem(example: Path) -> None:
    result = CliRunner().invoke(app, ["plan", "-f", str(example)])
    assert result.exception is None
    children = list(yaml.safe_load_all(result.stdout))
    kinds = {child["kind"] for child in children}
    # A ModelDeployment gets its server once its weights are there.
    assert kinds >= {"Deployment", "Service"} or kinds == {"PersistentVolumeClaim", "Job"}


def test_the_fleet_of_the_examples_is_planned_without_a_problem() -> None:
    result = CliRunner().invoke(app, ["plan", "-f", str(ROOT / "examples" / "fleet")])
    assert result.exception is None
    assert [child["kind"] for child in yaml.safe_load_all(result.stdout)] == ["Service", "InferenceModel", "Service"]


def test_the_environment_of_the_container_is_listed() -> None:
    result = CliRunner().invoke(app, ["plan", "-f", str(ROOT / "examples" / "mcp-tls.yaml")])
    deployment = next(child for child in yaml.safe_load_all(result.stdout) if child["kind"] == "Deployment")
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    page = (DOCS / "kinds" / "mcp.md").read_text()
    assert [entry["name"] for entry in environment if f"| `{entry['name']}` |" not in page] == []


def test_the_environment_of_a_gateway_is_listed() -> None:
    played = [play(kind, case) for kind, _, case in ALL_CASES if kind is GATEWAY and not case.invalid]
    children = [child for found in played for child in found.plan.apply if child.resource == DEPLOYMENT]
    containers = [child.body["spec"]["template"]["spec"]["containers"][0] for child in children]
    names = {entry["name"] for container in containers for entry in container.get("env", ())}
    ours = {name for name in names if not name.endswith(("_API_KEY", "_API_URL", "ALLOWED_MODELS"))}
    page = (DOCS / "kinds" / "gateway.md").read_text()
    assert {name for name in ours if f"| `{name}` |" not in page} == set()


def test_every_metric_is_listed() -> None:
    page = (DOCS / "guides" / "operating.md").read_text()
    families = Metrics().registry.collect()
    names = (family.name + ("_total" if family.type == "counter" else "") for family in families)
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_the_guide_to_measured_models_names_every_figure_and_every_metric_of_an_engine() -> None:
    page = (DOCS / "guides" / "measured-models.md").read_text()
    told = {name for engine in ENGINES.values() for name in sample_names(engine.measures)}
    names = {name.removesuffix("_count") for name in told}
    assert [figure.name for figure in FIGURES if f"| `{figure.name}` | gauge | {figure.text} |" not in page] == []
    assert {name for name in names if f"`{name}`" not in page and f"`{name.removesuffix('_sum')}`" not in page} == set()


def test_the_guide_to_closed_networks_names_every_image_that_we_choose() -> None:
    page = (DOCS / "guides" / "air-gapped.md").read_text()
    gpus = [Gpus(), *(Gpus(count=1, vendor=vendor) for vendor in ("nvidia", "amd", "intel"))]
    engines = {engine.image(one) for engine in ENGINES.values() for one in gpus} - {""}
    images = {*engines, image.IMAGE, envoy_pod.IMAGE, gateway_api.IMAGE}
    assert len(images) > 8
    assert {name for name in images if f"`{repository(name)}`" not in page} == set()


def test_every_option_of_the_operator_is_listed() -> None:
    page = (DOCS / "guides" / "operating.md").read_text()
    options = [option for parameter in command("run").params for option in parameter.opts]
    assert "--namespace" in options
    assert [option for option in options if f"| `{option}` |" not in page] == []


def test_the_security_page_lists_exactly_what_the_operator_may_do() -> None:
    granted = {
        f"| `{resource}` | {f'`{group}`' if group else 'core'} | {', '.join(rule['verbs'])} |"
        for rule in [*rules(ALL), *lease_rules()]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    page = (ROOT / "SECURITY.md").read_text()
    assert set(re.findall(r"^\| `[a-z/]+` \|.*$", page, re.MULTILINE)) == granted


def test_the_operator_on_the_development_cluster_does_not_share_the_user_of_the_administrator(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "admin", "https://127.0.0.1:1", b"", {})
    administrator = yaml.safe_load(kubeconfig.read_text())["users"][0]["name"]
    guide = (DOCS / "guides" / "development-cluster.md").read_text()
    users = re.findall(r"set-credentials (\w+)|--user=(\w+)", guide)
    assert users == [("operator", ""), ("", "operator")]
    assert administrator != "operator"


def test_the_guide_shows_every_field_of_a_rule_for_images() -> None:
    block = next(text for text in fenced(DOCS / "guides" / "one-machine.md") if text.startswith("images:"))
    (shown,) = yaml.safe_load(block)["images"]
    msgspec.convert(shown, Rule)
    # These two are for the rules that come with the package.
    inside = {"entrypoints", "needs"}
    assert shown.keys() == {field.encode_name for field in msgspec.structs.fields(Rule)} - inside


@pytest.mark.parametrize(
    "flag", ["--api-key", "-np", "--temp", "--slots", "--no-webui", "--chat-template-kwargs", "--alias"]
)
def test_the_guide_names_the_flags_that_our_llama_server_knows(flag: str) -> None:
    section = (DOCS / "guides" / "one-machine.md").read_text().partition("## Programs instead of images")[2]
    assert f"`{flag}`" in section


def test_every_make_target_is_listed() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert "test" in targets
    assert [name for name in targets if not re.search(rf"\| `make (-s )?{name}` \|", page)] == []


def test_the_case_that_contributors_are_shown_holds() -> None:
    shown = re.search(r"^ *```yaml\n(.*?)^ *```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE)
    assert shown
    case = msgspec.convert(yaml.safe_load(textwrap.dedent(shown[1])), Case)
    assert case.plan
    situation = play(MCP, case)
    assert situation.plan.blocked is None
    assert differences(case.status, situation.status) == []
