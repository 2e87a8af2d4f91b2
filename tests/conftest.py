"""What all tests share: one real cluster for each process of a run, a namespace and a `kubectl` for each test."""

from __future__ import annotations

import asyncio
import random
import secrets
import signal
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import pytest
from hypothesis import settings

from controlplane import build
from modelyard.core.resources import DEPLOYMENT, EVENT, JOB, POD
from modelyard.kinds import ALL
from modelyard.local.cluster import Cluster, running_cluster
from modelyard.local.raw_client import RawClientError
from modelyard.manifests.crd import crd
from tests.support.accounts import until_answered, until_children_are_taken
from tests.support.beacons import CRDS
from tests.support.mcpserver import McpServers
from tests.support.operators import ROOT, OperatorProcess, running_operator
from tests.support.recorder import Recorder, Witness, recording
from tests.support.shares import Shares, folder_of, processes, turn
from tests.toy import BEACON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from xdist.remote import Producer

    from modelyard.core.resources import Resource
    from modelyard.local.raw_client import RawClient

# The same examples on every run, and no verdict by the clock: a busy machine must not make a test fail.
settings.register_profile("modelyard", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("soak", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("modelyard")

# Whoever was started in the background by a script ignores Ctrl-C, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

_KUBECTL_SECONDS = 120.0
_BUSY = (*(kind.resource for kind in ALL), DEPLOYMENT, JOB, POD)
"""What may be in the namespace of a test and makes work: for operators, controllers and the simulated node."""
_PURE = ("chart", "cli", "core", "docs", "engines", "kinds", "manifests", "page", "runtime")
"""The folders whose tests belong to `make quick`, but for those that ask for a cluster."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make soak` say how long, and which run to repeat."""
    parser.addoption("--seconds", type=float, default=60.0, help="how long each soak test runs")
    parser.addoption("--seed", type=int, help="what soak tests choose by, to repeat a run")
    parser.addoption("--pictures", help="the folder that pictures of the page are written to")


def pytest_configure(config: pytest.Config) -> None:
    """Choose a seed before other processes start, which get the same."""
    if config.option.seed is None:
        config.option.seed = secrets.randbelow(2**32)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the seed of a run that has use for it."""
    return [f"seed: {config.option.seed}"] if config.option.markexpr.startswith("soak") else []


def pytest_xdist_auto_num_workers() -> int:
    """Say how many processes `-n auto` means."""
    return processes()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Shares:
    """Hand out the tests of a run in several processes."""
    config.option.loadscopereorder = False  # it would put first what has many tests, and not what takes long
    return Shares(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is quick, before tests are chosen by their marks."""
    for item in items:
        if folder_of(item.nodeid) in _PURE and not (item.get_closest_marker("soak") or "assets" in item.fixturenames):
            item.add_marker("quick")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: turn(item.nodeid))


class Kubectl(Protocol):
    """Run `kubectl` as the administrator and return what it printed; a failure of it fails the test."""

    async def __call__(self, *args: str, input: str | None = None) -> str: ...  # noqa: A002


@pytest.fixture(scope="session")
def assets() -> Path:
    """The programs of the control plane."""
    folder = build.assets()
    if not build.is_built(folder):
        pytest.fail("the control plane is not built yet; run `make controlplane-path`", pytrace=False)
    return folder


@pytest.fixture(scope="session")
async def cluster(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A control plane with workloads and one big simulated node, shared by all tests."""
    async with running_cluster(tmp_path_factory.mktemp("cluster"), assets, _define) as running:
        yield running


async def _define(admin: RawClient) -> None:
    """Install all definitions, those of toys included, before the controllers start.

    Garbage collection learns of later ones only after half a minute, as does the API server, which till then refuses
    children of them.
    """
    kinds = (*ALL, BEACON)
    for kind in kinds:
        await admin.ensure(CRDS, crd(kind))
    for kind in kinds:
        await until_answered(admin, kind.resource.path())


@asynccontextmanager
async def fresh_namespace(cluster: Cluster) -> AsyncIterator[str]:
    """Make a namespace. What keeps a cluster busy is deleted afterwards; the rest stays.

    To delete the namespace would cost a quarter of a second of CPU: its controller asks twice for the objects of every
    resource there is.
    """
    admin, name = cluster.controlplane.admin, f"test-{uuid4().hex[:8]}"
    await admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    # Pods are refused until the service account is there.
    await until_answered(admin, f"/api/v1/namespaces/{name}/serviceaccounts/default")
    yield name
    for resource in _BUSY:
        with suppress(RawClientError):  # its definition comes or goes
            await admin.delete(resource.path(name))


@pytest.fixture
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """A fresh namespace for each test."""
    async with fresh_namespace(cluster) as name:
        yield name


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    """Run `kubectl` against the shared cluster."""
    return partial(run_kubectl, cluster)


async def run_kubectl(cluster: Cluster, *args: str, input: str | None = None) -> str:  # noqa: A002
    """Run `kubectl` as the administrator; a failure of it is a failure of the test."""
    process = await asyncio.create_subprocess_exec(
        cluster.controlplane.kubectl,
        f"--kubeconfig={cluster.kubeconfig}",
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_KUBECTL_SECONDS):
            output, complaint = await process.communicate((input or "").encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise AssertionError(f"kubectl {' '.join(args)} does not end") from None
    assert process.returncode == 0, f"kubectl {' '.join(args)}: {complaint.decode()}"
    return output.decode()


@pytest.fixture(scope="session")
async def installed(cluster: Cluster) -> Path:
    """The role is installed, as the CRDs are; returns the operator's own kubeconfig."""
    for file in ("deploy/rbac.yaml", "deploy/priority-classes.yaml"):
        await run_kubectl(cluster, "apply", "--server-side", "-f", str(ROOT / file))
    operator = await cluster.controlplane.service_account_kubeconfig("modelyard-system", "modelyard")
    await until_children_are_taken(operator)
    return operator


@pytest.fixture(scope="session")
async def mcp_servers() -> AsyncIterator[McpServers]:
    """A real MCP server behind every Service."""
    async with McpServers().serve() as servers:
        yield servers


@pytest.fixture
async def operator(installed: Path, mcp_servers: McpServers, tmp_path: Path) -> AsyncIterator[OperatorProcess]:
    """An operator under its own role, leading."""
    async with running_operator(installed, mcp_servers.port, tmp_path / "operator.log") as running:
        yield running


def watched_resources() -> tuple[Resource, ...]:
    """Return every kind, and what is built in that they cause."""
    return (*(kind.resource for kind in ALL), *_built_in())


def _built_in() -> tuple[Resource, ...]:
    """Return the children of every kind but those that a cluster may lack, their pods, and events."""
    made = (made for kind in ALL for made in (*kind.children, *kind.creates) if not made.optional)
    return tuple(dict.fromkeys((*made, POD, EVENT)))


@pytest.fixture(scope="session")
async def witness(cluster: Cluster) -> AsyncIterator[Witness]:
    """What happens to built-in objects of the whole cluster, for the recorder of each test."""
    async with Witness(cluster.controlplane.admin, _built_in()).running() as running:
        yield running


def recording_all(cluster: Cluster, namespace: str, witness: Witness) -> AbstractAsyncContextManager[Recorder]:
    """Record everything that our kinds cause in a namespace."""
    return recording(cluster.controlplane.admin, watched_resources(), namespace, witness)


@pytest.fixture
async def recorder(cluster: Cluster, installed: Path, witness: Witness, namespace: str) -> AsyncIterator[Recorder]:
    """The history of everything that happens in the namespace; what must always hold is checked at the end."""
    async with recording_all(cluster, namespace, witness) as running:
        yield running
    running.assert_invariants()


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """How long a soak test runs."""
    return float(request.config.getoption("--seconds"))


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """What a soak test chooses by."""
    return random.Random(int(request.config.getoption("--seed")))
