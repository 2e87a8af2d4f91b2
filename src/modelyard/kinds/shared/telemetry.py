"""`spec.telemetry` of the inference-gateway kinds: Gateway, Agent and Orchestrator share its shape.

The names are those of OpenTelemetry. Which of them a program reads is said in the environment of each kind, and the
condition FieldsIgnored names those that it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from modelyard.core.conditions import FIELDS_IGNORED, Condition, Problem, Truth, failing
from modelyard.core.pod_fields import HttpUrl
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

Port = Annotated[int, Meta(ge=1024, le=65535)]


class Otlp(Struct, frozen=True, rename="camel"):
    """An OpenTelemetry collector."""

    endpoint: Annotated[HttpUrl, Meta(description="Its URL, such as http://collector:4318.")] = ""
    protocol: Annotated[Literal["", "grpc", "http/protobuf"], Meta(description="How it is spoken to.")] = ""


class Prometheus(Struct, frozen=True, rename="camel"):
    """A page of metrics that Prometheus reads."""

    host: Annotated[str, Meta(description="The address to listen on.", max_length=253)] = ""
    port: Annotated[Port, Meta(description="The port of the page.")] = 9464


class MetricsExporter(Struct, frozen=True, rename="camel"):
    """Where metrics go. With both, they go to the collector."""

    otlp: Annotated[Otlp | None, Meta(description="Send metrics to a collector.")] = None
    prometheus: Annotated[Prometheus | None, Meta(description="Serve metrics for Prometheus.")] = None


class Metrics(Struct, frozen=True, rename="camel"):
    """Metrics of the program."""

    enabled: Annotated[bool, Meta(description="Serve metrics for Prometheus, if no exporter is named.")] = False
    port: Annotated[Port, Meta(description="The port of the metrics, if no exporter is named.")] = 9464
    exporter: Annotated[MetricsExporter | None, Meta(description="Where metrics go.")] = None

    @property
    def otlp(self) -> Otlp | None:
        """The collector of metrics; None: they are not sent."""
        return self.exporter.otlp if self.exporter else None

    @property
    def page(self) -> Prometheus | None:
        """The page of metrics; None: there is none."""
        if self.exporter and self.exporter.prometheus:
            return self.exporter.prometheus
        return Prometheus(port=self.port) if self.enabled and self.otlp is None else None


class TracesExporter(Struct, frozen=True, rename="camel"):
    """Where traces go."""

    otlp: Annotated[Otlp | None, Meta(description="Send traces to a collector.")] = None


class Traces(Struct, frozen=True, rename="camel"):
    """Traces of the program."""

    exporter: Annotated[TracesExporter | None, Meta(description="Where traces go.")] = None

    @property
    def otlp(self) -> Otlp | None:
        """The collector of traces; None: they are not sent."""
        return self.exporter.otlp if self.exporter else None


class Receiver(Struct, frozen=True, rename="camel"):
    """A port at which others send traces and metrics. Only Orchestrators have one."""

    enabled: Annotated[bool, Meta(description="Whether it is open. Only Orchestrators have one.")] = False
    port: Annotated[Port, Meta(description="Its number.")] = 4318


def collector(traces: Traces | None, metrics: Metrics) -> Otlp:
    """Return the one collector that a program sends to, that of traces first; empty fields: none is named."""
    asked = [each for each in (traces.otlp if traces else None, metrics.otlp) if each]
    return next((each for each in asked if each.endpoint), next(iter(asked), Otlp()))


def ignored(named: Sequence[str], why: str) -> tuple[Condition, ...]:
    """Return the condition FieldsIgnored about these fields; empty: there are none."""
    if not named:
        return ()
    message = f"{' and '.join(named)} without effect: {why}"
    problem = Problem(Reason.FIELD_IGNORED, message, "remove what has no effect")
    return (failing(FIELDS_IGNORED, problem, Truth.TRUE),)
