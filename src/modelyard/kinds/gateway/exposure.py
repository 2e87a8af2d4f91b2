"""The blocks of a Gateway's spec about the way in: Service, Ingress, and the routes of the Gateway API. Types only."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from modelyard.core.pod_fields import Annotations, HostName, ObjectName

Host = Annotated[HostName, Meta(min_length=1)]
Issuer = Annotated[str, Meta(max_length=253)]

INGRESS_CLASS: Final = "nginx"
GATEWAY_CLASS: Final = "envoy"


class ServiceBlock(Struct, frozen=True, rename="camel"):
    """The Service in front of the pods."""

    type: Annotated[Literal["ClusterIP", "NodePort", "LoadBalancer"], Meta(description="Its type.")] = "ClusterIP"
    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None, Meta(description="Its port. Left out: server.port.")
    ] = None
    annotations: Annotated[Annotations, Meta(description="Its annotations, for load balancers.", max_length=64)] = {}


class IngressPath(Struct, frozen=True, rename="camel"):
    """A path that leads to the gateway."""

    path: Annotated[str, Meta(description="The path.", pattern="^/", max_length=1024)]
    path_type: Annotated[
        Literal["Exact", "Prefix", "ImplementationSpecific"], Meta(description="How it is compared.")
    ] = "Prefix"


class IngressHost(Struct, frozen=True, rename="camel"):
    """A host name, and its paths."""

    host: Annotated[Host, Meta(description="The host name.")]
    paths: Annotated[tuple[IngressPath, ...], Meta(description="Its paths. Left out: all.", max_length=64)] = ()


class IngressTlsEntry(Struct, frozen=True, rename="camel"):
    """A certificate for some hosts."""

    secret_name: Annotated[ObjectName, Meta(description="The Secret with the certificate.", min_length=1)]
    hosts: Annotated[tuple[Host, ...], Meta(description="The hosts that it is for.", max_length=64)] = ()


class IngressTls(Struct, frozen=True, rename="camel"):
    """HTTPS at the Ingress."""

    enabled: Annotated[bool, Meta(description="Whether the Ingress speaks HTTPS.")] = True
    issuer: Annotated[Issuer, Meta(description="The ClusterIssuer of cert-manager that makes certificates.")] = ""
    secret_name: Annotated[
        ObjectName, Meta(description="The Secret for hosts that config does not name. Left out: NAME-tls.")
    ] = ""
    config: Annotated[
        tuple[IngressTlsEntry, ...], Meta(description="Certificates for some of the hosts.", max_length=64)
    ] = ()


class IngressBlock(Struct, frozen=True, rename="camel"):
    """An Ingress that leads to the gateway."""

    enabled: Annotated[bool, Meta(description="Whether there is one.")] = False
    host: Annotated[HostName, Meta(description="A host name for all paths, in place of hosts.")] = ""
    class_name: Annotated[ObjectName, Meta(description="Its class. Empty: the default.")] = INGRESS_CLASS
    annotations: Annotated[Annotations, Meta(description="Its annotations. They win over ours.", max_length=64)] = {}
    hosts: Annotated[tuple[IngressHost, ...], Meta(description="Host names and their paths.", max_length=64)] = ()
    tls: Annotated[IngressTls | None, Meta(description="HTTPS at the Ingress. Left out: plain HTTP.")] = None


class ParentRef(Struct, frozen=True, rename="camel"):
    """A Gateway of the Gateway API that routes attach to."""

    name: Annotated[ObjectName, Meta(description="Its name.", min_length=1)]
    namespace: Annotated[ObjectName, Meta(description="Its namespace. Left out: that of the object.")] = ""
    group: Annotated[ObjectName, Meta(description="Its group.")] = "gateway.networking.k8s.io"
    kind: Annotated[str, Meta(description="Its kind.", min_length=1, max_length=63)] = "Gateway"
    section_name: Annotated[ObjectName, Meta(description="One listener of it.")] = ""
    port: Annotated[Annotated[int, Meta(ge=1, le=65535)] | None, Meta(description="One port of it.")] = None


class RouteTls(Struct, frozen=True, rename="camel"):
    """HTTPS at the listener."""

    enabled: Annotated[bool, Meta(description="Whether the listener speaks HTTPS.")] = False
    issuer: Annotated[Issuer, Meta(description="The ClusterIssuer of cert-manager that makes the certificate.")] = ""
    secret_name: Annotated[ObjectName, Meta(description="The Secret of the certificate. Left out: NAME-tls.")] = ""


class ApiGateway(Struct, frozen=True, rename="camel"):
    """The Gateway of the Gateway API that the route attaches to."""

    gateway_class_name: Annotated[ObjectName, Meta(description="Its class. Empty: the default.")] = GATEWAY_CLASS
    parent_refs: Annotated[
        tuple[ParentRef, ...], Meta(description="Existing ones to attach to; then none is created.", max_length=32)
    ] = ()
    tls: Annotated[RouteTls, Meta(description="HTTPS at the listener.")] = RouteTls()


class HttpRoute(Struct, frozen=True, rename="camel"):
    """The HTTPRoute."""

    hostnames: Annotated[tuple[Host, ...], Meta(description="Its host names. Left out: all.", max_length=16)] = ()


class GatewayApi(Struct, frozen=True, rename="camel"):
    """A route of the Gateway API that leads to the gateway."""

    enabled: Annotated[bool, Meta(description="Whether there is one.")] = False
    gateway: Annotated[ApiGateway, Meta(description="What the route attaches to.")] = ApiGateway()
    http_route: Annotated[HttpRoute, Meta(description="The route itself.")] = HttpRoute()
