"""The server of a ModelDeployment: its Deployment, its Service and perhaps an autoscaler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core import names
from modelyard.core.resources import DEPLOYMENT
from modelyard.engines import ENGINES
from modelyard.engines.contract import Gpus, Place
from modelyard.engines.environment import plain
from modelyard.engines.flags import names as has_flag
from modelyard.kinds.contract import Owned
from modelyard.kinds.modeldeployment import naming, weights
from modelyard.kinds.modeldeployment.api import WEIGHTS_LABEL, Autoscaling
from modelyard.kinds.modeldeployment.placement import GPU, placement
from modelyard.kinds.shared import autoscale, pods, workloads
from modelyard.kinds.shared.autoscale import AutoscalerConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.plan import Child, Replicas
    from modelyard.core.policy import Policy
    from modelyard.engines.contract import Engine, Launch
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec
    from modelyard.kinds.shared.model_volumes import Storage

Json = dict[str, Any]

OWN: Final = Owned(DEPLOYMENT)
MOST_REPLICAS: Final = 10
_HOME: Final = "/home/modelyard"
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a folder of the container, where CUDA libraries look for it
_NAME_FLAGS: Final = {"vllm": "--served-model-name", "llamacpp": "--alias"}
"""Text Generation Inference serves one model under every name."""
_OF_NODES: Final = ("cpu", "memory")


def deployment(md: Object[ModelDeploymentSpec], seen: Seen, replicas: Replicas | None = None) -> Child:
    """Return the Deployment. With GPUs its strategy is Recreate: there may be no spare GPU for a new pod.

    `replicas` are those of a Deployment that is to stop; None: as the spec says.
    """
    spec, name = md.spec, md.meta.name
    weights_label = {WEIGHTS_LABEL: weights.key(spec)}
    template = pods.pod_template({**naming.pod_labels(name, naming.SERVER), **weights_label}, _pod(md, seen))
    return workloads.deployment(
        name,
        {**naming.child_labels(name), **weights_label},
        naming.selector(name),
        replicas or autoscale.replicas(spec.replicas, scaling(spec), seen),
        template,
        strategy="Recreate" if spec.gpus else "RollingUpdate",
    )


def service(name: str, spec: ModelDeploymentSpec, *, closed: bool = False) -> Child:
    """Return the Service in front of the pods; a closed one leads to none of them."""
    selector = naming.closed_selector(name) if closed else naming.selector(name)
    return workloads.service(name, naming.child_labels(name), selector, spec.port)


def autoscaler(name: str, spec: ModelDeploymentSpec) -> tuple[Child, ...]:
    """Return the autoscaler; empty: none is wanted."""
    return autoscale.autoscaler(name, naming.child_labels(name), scaling(spec), target=name)


def scaling(spec: ModelDeploymentSpec) -> AutoscalerConfig | None:
    """Return the bounds and the metric of the autoscaler; None: none is wanted."""
    if not spec.auto_scaling:
        return None
    asked = spec.autoscaling or Autoscaling()
    least = asked.min_replicas or min(max(1, spec.replicas), asked.max_replicas or MOST_REPLICAS)
    return AutoscalerConfig(asked.max_replicas or max(MOST_REPLICAS, least), least, (_metric(spec.engine, asked),))


def _metric(engine: str, asked: Autoscaling) -> Json:
    name = asked.metric or ENGINES[engine].metric
    if name in _OF_NODES:
        target = {"type": "Utilization", "averageUtilization": asked.target}
        return {"type": "Resource", "resource": {"name": name, "target": target}}
    target = {"type": "AverageValue", "averageValue": str(asked.target)}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}


def endpoint(child_name: str, namespace: str, port: int) -> str:
    """Return the URL of the model inside the cluster: the root, below which each engine has its paths."""
    return f"http://{names.service_host(child_name, namespace)}:{port}"


def _pod(md: Object[ModelDeploymentSpec], seen: Seen) -> Json:
    spec, engine = md.spec, ENGINES[md.spec.engine]
    storage = weights.storage(md, seen.policy)
    mounted = {mount["name"] for mount in storage.mounts}
    scratch = dict(_scratch_folders(spec, engine))
    return {
        "containers": [_container(spec, engine, storage, scratch, seen.policy)],
        "volumes": [
            *(volume for volume in storage.volumes if volume["name"] in mounted),
            *({"name": _volume_name(folder), "emptyDir": kind} for folder, kind in scratch.items()),
        ],
        "securityContext": _security(spec, engine, seen.policy),
        "enableServiceLinks": None if engine.service_links else False,
        **placement(md, seen),
    }


def _container(
    spec: ModelDeploymentSpec, engine: Engine, storage: Storage, scratch: dict[str, Json], policy: Policy
) -> Json:
    launch = _launch(spec, engine, storage)
    offline = () if weights.loads_file(spec) else (plain("HF_HUB_OFFLINE", "1"),)
    mounts = [{"name": _volume_name(folder), "mountPath": folder} for folder in scratch]
    body = {
        "name": engine.container,
        "image": _image(spec, engine, policy),
        "command": list(launch.command),
        "args": list(launch.args),
        "env": pods.unique_env([plain("HOME", _HOME)], offline, launch.env, spec.env),
        "ports": [{"name": "http", "containerPort": spec.port, "protocol": "TCP"}],
        "resources": _resources(spec),
        # Half an hour: large models load slowly.
        "startupProbe": _probe(engine, periodSeconds=10, failureThreshold=180),
        "livenessProbe": _probe(engine, periodSeconds=15, failureThreshold=3),
        "readinessProbe": _probe(engine, periodSeconds=10, failureThreshold=3),
        "volumeMounts": [*storage.mounts, *mounts],
        "securityContext": pods.container_security(None),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return pods.without_empty(body)


def _launch(spec: ModelDeploymentSpec, engine: Engine, storage: Storage) -> Launch:
    flag = _NAME_FLAGS.get(engine.name, "")
    name = (flag, spec.model_name) if flag and not has_flag(spec.args, flag) else ()
    place = Place(model=storage.model, port=spec.port, gpus=Gpus(count=spec.gpus), default_image=not spec.image)
    return engine.launch(engine.options(extra_args=(*name, *spec.args)), place)


def _image(spec: ModelDeploymentSpec, engine: Engine, policy: Policy) -> str:
    return spec.image or policy.images.get(engine.name) or engine.image(Gpus(count=spec.gpus))


def _resources(spec: ModelDeploymentSpec) -> Json:
    asked = pods.resources(spec.resources)
    if not spec.gpus:
        return asked
    return {**asked, "limits": {**asked.get("limits", {}), GPU: str(spec.gpus)}}


def _security(spec: ModelDeploymentSpec, engine: Engine, policy: Policy) -> Json:
    """Return the securityContext of the pod. runAsUser is set for known images; others run as the user they name."""
    known = not spec.image or names.image_name(spec.image) == names.image_name(engine.image(Gpus(count=spec.gpus)))
    user = {"runAsUser": engine.user} if known and policy.chooses_users and engine.user else {}
    return pods.pod_security({**user, **policy.volume_group})


def _probe(engine: Engine, **timing: int) -> Json:
    return {"httpGet": {"path": engine.health, "port": "http"}, "timeoutSeconds": 5, **timing}


def _scratch_folders(spec: ModelDeploymentSpec, engine: Engine) -> Iterator[tuple[str, Json]]:
    """Yield the folders that the engine writes to, each with its emptyDir."""
    for folder in (_HOME, *engine.folders):
        yield folder, {}
    if engine.shared_memory and spec.gpus > 1:
        yield _SHARED_MEMORY, {"medium": "Memory"}


def _volume_name(folder: str) -> str:
    return names.dns_label(folder.strip("/").replace("/", "-"))


def served_key(seen: Seen) -> str:
    """Return the key of the weights that the Deployment serves; empty: there is none."""
    found = seen.one(OWN)
    return found.meta.label(WEIGHTS_LABEL) if found else ""
