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
from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
from modelyard.kinds.modeldeployment import naming, version, weights
from modelyard.kinds.modeldeployment.api import WEIGHTS_LABEL, Autoscaling
from modelyard.kinds.modeldeployment.placement import GPU, placement
from modelyard.kinds.shared import autoscale, engine_pod, pods, workloads
from modelyard.kinds.shared.autoscale import AutoscalerConfig
from modelyard.kinds.shared.gpu import NVIDIA, Devices
from modelyard.kinds.shared.model_volumes import Storage
from modelyard.kinds.shared.resolved_pod import ResolvedPod

if TYPE_CHECKING:
    from modelyard.core.plan import Child, Replicas
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec

Json = dict[str, Any]

OWN: Final = Owned(DEPLOYMENT)
MOST_REPLICAS: Final = 10
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
        annotations=version.as_annotation(spec),
    )


def service(name: str, port: int, *, closed: bool = False) -> Child:
    """Return the Service in front of the pods; a closed one leads to none of them."""
    selector = naming.closed_selector(name) if closed else naming.selector(name)
    return workloads.service(name, naming.child_labels(name), selector, port)


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
    spec = md.spec
    # Weights that are there are all that the server needs of the hub.
    offline = () if weights.loads_file(spec) else (plain("HF_HUB_OFFLINE", "1"),)
    described = InferenceServiceSpec(model_ref=md.meta.name, runtime=spec.engine, env=(*offline, *spec.env))
    pod = engine_pod.pod_spec(described, _resolved(md, seen.policy), seen.policy)
    (container,) = pod["containers"]
    return {**pod, "containers": [{**container, "resources": _resources(spec)}], **placement(md, seen)}


def _resolved(md: Object[ModelDeploymentSpec], policy: Policy) -> ResolvedPod:
    spec, engine, gpus = md.spec, ENGINES[md.spec.engine], Gpus(count=md.spec.gpus)
    fetched = weights.storage(md, policy)
    mounted = {mount["name"] for mount in fetched.mounts}
    volumes = tuple(volume for volume in fetched.volumes if volume["name"] in mounted)
    image = spec.image or policy.images.get(engine.name) or engine.image(gpus)
    place = Place(model=fetched.model, port=spec.port, gpus=gpus, default_image=image == engine.image(gpus))
    return ResolvedPod(
        engine=engine,
        image=image,
        known_image=not spec.image or names.image_name(spec.image) == names.image_name(engine.image(gpus)),
        port=spec.port,
        devices=Devices(count=spec.gpus, vendor=NVIDIA, resource=GPU, taint=GPU),
        storage=Storage(model=fetched.model, volumes=volumes, mounts=fetched.mounts),
        launch=engine.launch(engine.options(extra_args=(*_names(md), *spec.args)), place),
    )


def _names(md: Object[ModelDeploymentSpec]) -> tuple[str, ...]:
    """Return the flag that names the model for clients; empty: the user gives it, or the engine has none.

    vLLM refuses all other names, and `door_models` lists the name of the object as well. The first is the one it uses.
    """
    spec = md.spec
    flag = _NAME_FLAGS.get(spec.engine, "")
    if not flag or has_flag(spec.args, flag):
        return ()
    also = (md.meta.name,) if spec.engine == "vllm" and md.meta.name != spec.model_name else ()
    return (flag, spec.model_name, *also)


def _resources(spec: ModelDeploymentSpec) -> Json:
    asked = pods.resources(spec.resources)
    if not spec.gpus:
        return asked
    return {**asked, "limits": {**asked.get("limits", {}), GPU: str(spec.gpus)}}


def served_key(seen: Seen) -> str:
    """Return the key of the weights that the Deployment serves; empty: there is none."""
    found = seen.one(OWN)
    return found.meta.label(WEIGHTS_LABEL) if found else ""
