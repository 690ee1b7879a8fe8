"""`windlass completion`: the script that lets a shell complete commands, and the names that it completes.

Names come from the store, where there is one: opened, asked for its kept counters, closed. Whatever goes wrong then
is no business of somebody who pressed Tab: there are no names.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from windlass.engines.protocol import Tally

LARGEST = 256 * 1024 * 1024
"""A store that was not closed cleanly is looked through when it is opened: no names from one that takes long."""


@click.command(
    epilog="""\b
Examples:
  windlass completion bash
\b
Install it:
  bash   windlass completion bash > ~/.local/share/bash-completion/completions/windlass
  zsh    windlass completion zsh > ~/.zfunc/_windlass     with ~/.zfunc in fpath, before compinit
  fish   windlass completion fish > ~/.config/fish/completions/windlass.fish
Or for this shell only: eval "$(windlass completion bash)"."""
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete commands, options, tasks, queues and workers."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "windlass", "_WINDLASS_COMPLETE").source())


def task_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tasks that a worker knows or a job names, whole or by their last part."""
    tally = _tally(ctx)
    if tally is None:
        return []
    names = {name for card in tally.cards for name in card.tasks or ()} | {count.task for count in tally.counts}
    whole = _items(names, incomplete)
    return whole or _items((name.rpartition(".")[2] for name in names), incomplete)


def queue_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Queues that have jobs or that a worker names; the last one where several are written, apart by commas."""
    tally = _tally(ctx)
    if tally is None:
        return []
    before, comma, last = incomplete.rpartition(",")
    names = {name for card in tally.cards for name in card.queues or ()} | {count.queue for count in tally.counts}
    return _items((f"{before}{comma}{name}" for name in names), f"{before}{comma}{last}")


def worker_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Workers that live: by name, by `name@host` where a name is shared, by id where that is shared too."""
    from windlass.core.ids import show_id
    from windlass.ops.cards import label

    tally = _tally(ctx)
    called = [] if tally is None else [(card.name, label(card), show_id(card.worker)) for card in tally.cards]
    counts = Counter(word for words in called for word in set(words))
    return _items((next(word for word in words if word and counts[word] == 1) for words in called), incomplete)


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(incomplete)]


def _tally(ctx: click.Context) -> Tally | None:
    import logging

    from windlass.cli.options import store
    from windlass.core.settings import load
    from windlass.engines.connect import sqlite_path
    from windlass.engines.protocol import TallyQuery

    logging.disable()
    try:
        url = load({"url": ctx.params.get("url")}).settings.url
        if url.startswith("sqlite:") and sqlite_path(url).stat().st_size > LARGEST:
            return None
        with store(None, url) as here:
            return here.engine.tally(TallyQuery())
    except Exception:
        return None
