"""Does a pod template pass Pod Security `restricted`? Every rule of that standard that a template can break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
}
SECCOMP = {"RuntimeDefault", "Localhost"}
CAPABILITIES = {"NET_BIND_SERVICE"}


def violations(template: Json) -> list[str]:
    """Return what of a pod template the standard does not allow."""
    spec = template["spec"]
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ()), *spec.get("ephemeralContainers", ())]
    return [*_pod(spec), *(f"{one['name']}: {wrong}" for one in containers for wrong in _container(one, spec))]


def _pod(spec: Json) -> Iterator[str]:
    security = spec.get("securityContext", {})
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    yield from (f"volume {one['name']}" for one in spec.get("volumes", ()) if not one.keys() - {"name"} <= VOLUMES)
    yield from (f"sysctl {one['name']}" for one in security.get("sysctls", ()) if one["name"] not in SYSCTLS)
    yield from _identity(security)


def _container(body: Json, spec: Json) -> Iterator[str]:
    own = body.get("securityContext", {})
    security = {**spec.get("securityContext", {}), **own}
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if own.get("privileged"):
        yield "privileged"
    if own.get("procMount", "Default") != "Default":
        yield "procMount"
    if security.get("runAsNonRoot") is not True:
        yield "runAsNonRoot"
    if security.get("seccompProfile", {}).get("type") not in SECCOMP:
        yield "seccompProfile"
    yield from _identity(own)
    yield from _capabilities(own.get("capabilities", {}))
    yield from (f"hostPort of {port}" for port in body.get("ports", ()) if port.get("hostPort"))


def _identity(security: Json) -> Iterator[str]:
    if security.get("runAsUser") == 0:
        yield "runAsUser 0"
    if security.get("windowsOptions", {}).get("hostProcess"):
        yield "hostProcess"
    if security.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield "appArmorProfile"
    if security.get("seLinuxOptions", {}).keys() & {"user", "role"}:
        yield "seLinuxOptions"


def _capabilities(given: Json) -> Iterator[str]:
    if "ALL" not in given.get("drop", ()):
        yield "capabilities are not dropped"
    yield from (f"capability {name}" for name in given.get("add", ()) if name not in CAPABILITIES)
