"""`modelyard ask`: a question to a model, and how fast the answer came."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from modelyard.cli.on_cluster import Context, Form, Kubeconfig, Namespace, on_cluster, remark, say
from modelyard.cli.one_machine import local_services
from modelyard.cluster import ask as questions
from modelyard.cluster.answer import shown
from modelyard.cluster.output import Output, encoded
from modelyard.cluster.session import Place

if TYPE_CHECKING:
    from modelyard.cluster.ask import Answer


def ask(
    target: Annotated[str, typer.Argument(metavar="NAME", help="A name, or KIND/NAME where several kinds have it.")],
    question: Annotated[str, typer.Argument(help="What to ask.")],
    model: Annotated[str, typer.Option(help="The model, of an object that offers several.")] = "",
    max_tokens: Annotated[int, typer.Option(min=0, help="The longest answer; 0: as the server likes.")] = 0,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Namespace = "",
    output: Form = Output.TABLE,
) -> None:
    """Ask a model of the cluster a question; the answer is streamed, and its speed is told."""
    asked = questions.Question(question, model, max_tokens)
    tell = _ignore if output.is_for_programs else _tell
    place = Place(kubeconfig, context, namespace)
    local = local_services(kubeconfig)
    answer = on_cluster(place, lambda session: questions.ask(session, target, asked, local, tell))
    if output.is_for_programs:
        say(encoded(answer, output))
        return
    say("\n")
    remark(_figures(answer, is_wide=output is Output.WIDE))


def _tell(piece: str) -> None:
    sys.stdout.write(shown(piece))
    sys.stdout.flush()


def _ignore(piece: str) -> None:
    del piece


def _figures(answer: Answer, *, is_wide: bool) -> str:
    told = answer.figures
    speed = f", {told.tokens_per_second} tokens/s" if told.tokens_per_second else ""
    line = f"first token after {told.first_token_seconds} s, {told.tokens} tokens in {told.seconds} s{speed}"
    return f"{line} ({answer.object}, model {answer.model})" if is_wide else line
