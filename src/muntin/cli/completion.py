"""`muntin completion`: what a shell needs to complete commands and options, made from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

SUMMARY = "print a script that lets a shell complete commands and options"
EXAMPLE = """\
examples:
  source <(muntin completion bash)
  source <(muntin completion zsh)
  muntin completion fish > ~/.config/fish/completions/muntin.fish"""
SHELLS = ("bash", "zsh", "fish")
BASH = """\
_muntin() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" command="" word words=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $word" in
{paths}
    esac
  done
  case "$command" in
{options}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _muntin muntin"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"

Tree = dict[tuple[str, ...], list[str]]
"""What may follow each command, by its words: further commands, then options."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that is to complete")


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.main import parser

    tree = words_of(parser())
    print("\n".join(fish(tree)) if args.shell == "fish" else (ZSH if args.shell == "zsh" else "") + bash(tree))
    return 0


def words_of(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Tree:
    """The words of a command and of all commands below it."""
    found: Tree = {path: []}
    options: list[str] = []
    for action in parser._actions:
        options += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            found[path] += action.choices
            for name, below in action.choices.items():
                found |= words_of(below, (*path, name))
        elif not action.option_strings and action.choices is not None:
            found[path] += map(str, action.choices)
    found[path] += options
    return found


def bash(tree: Tree) -> str:
    """A function that walks to the command that has been typed, then offers its words."""
    walks = [(" ".join(path[:-1]), path[-1], " ".join(path)) for path in tree if path]
    paths = "\n".join(f'      "{before} {word}") command="{path}" ;;' for before, word, path in walks)
    options = "\n".join(f'    "{" ".join(path)}") words="{" ".join(words)}" ;;' for path, words in tree.items())
    return BASH.format(paths=paths, options=options)


def fish(tree: Tree) -> Iterator[str]:
    """A line for each word, with the commands after which it may stand."""
    yield "complete -c muntin -f -n __fish_use_subcommand"
    for path, words in tree.items():
        below = [word for word in words if not word.startswith("--")]
        seen = [f"__fish_seen_subcommand_from {word}" for word in path] or ["__fish_use_subcommand"]
        if path and below:
            seen.append(f"not __fish_seen_subcommand_from {' '.join(below)}")
        when = "; and ".join(seen)
        for word in words:
            yield f"complete -c muntin -n '{when}' " + (f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}")
