"""`modelyard ask`: a question to a model, and how fast the answer came."""

from __future__ import annotations

import os
import sys
from pathlib import Path  # noqa: TC003 - typer reads the type when it runs
from typing import TYPE_CHECKING, Annotated, Final

import typer

from modelyard.cli.completing import complete_talking
from modelyard.cli.on_cluster import Context, Form, Kubeconfig, Namespace, on_cluster, remark, say
from modelyard.cli.one_machine import local_services
from modelyard.cli.place import chosen_place
from modelyard.cluster import ask as questions
from modelyard.cluster.answer import shown
from modelyard.cluster.api_key import read_key
from modelyard.cluster.conversation import Ways
from modelyard.cluster.output import Output, encoded

if TYPE_CHECKING:
    from modelyard.cluster.ask import Answer
    from modelyard.cluster.session import Session

_KEY: Final = "MODELYARD_API_KEY"


def ask(
    target: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A name, or KIND/NAME where several kinds have it.",
            autocompletion=complete_talking,
        ),
    ],
    question: Annotated[str, typer.Argument(help="What to ask.")],
    model: Annotated[str, typer.Option(help="The model, of an object that offers several.")] = "",
    max_tokens: Annotated[int, typer.Option(min=0, help="The longest answer; 0: as the server likes.")] = 0,
    key_file: Annotated[
        Path | None, typer.Option(help="A file with the API key that the server wants. Or set MODELYARD_API_KEY.")
    ] = None,
    key_secret: Annotated[
        str, typer.Option(metavar="NAME/ENTRY", help="A Secret of the namespace with it, that you may read.")
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Namespace = "",
    output: Form = Output.TABLE,
) -> None:
    """Ask a model of the cluster a question; the answer is streamed, and its speed is told."""
    tell = _ignore if output.is_for_programs else _tell
    place = chosen_place(kubeconfig, context, namespace)
    ways = Ways(local_services(place.kubeconfig), place)

    async def work(session: Session) -> Answer:
        key = await read_key(session, key_secret) if key_secret else _key(key_file)
        return await questions.ask(session, target, questions.Question(question, model, max_tokens, key), ways, tell)

    answer = on_cluster(place, work)
    if output.is_for_programs:
        say(encoded(answer, output))
        return
    say("\n")
    remark(_figures(answer, is_wide=output is Output.WIDE))


def _key(file: Path | None) -> str:
    if file is None:
        return os.environ.get(_KEY, "")
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--key-file: {error}") from error


def _tell(piece: str) -> None:
    sys.stdout.write(shown(piece))
    sys.stdout.flush()


def _ignore(piece: str) -> None:
    del piece


def _figures(answer: Answer, *, is_wide: bool) -> str:
    told = answer.figures
    speed = f", {told.tokens_per_second} tokens/s" if told.tokens_per_second else ""
    line = f"first token after {told.first_token_seconds} s, {told.tokens} tokens in {told.seconds} s{speed}"
    line += f", by the {answer.track}" if answer.track else ""
    return f"{line} ({answer.object}, model {answer.model})" if is_wide else line
