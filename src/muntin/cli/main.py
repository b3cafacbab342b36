"""The door of `muntin`: arguments in, exit code out.

Exit codes: 0 done, 1 failed, 2 wrong request, 130 interrupted. A fault that the user can act on is one message on
stderr; a traceback is printed for `--verbose` only. Heavy imports stay inside the commands, so `--help` is quick.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence

from muntin import __version__
from muntin.cli import (
    bench,
    calibrate,
    check,
    compact,
    completion,
    demo,
    doctor,
    explain,
    generate,
    package,
    query,
    rescale,
    run,
    status,
    study,
    top,
    web,
)
from muntin.cli.words import in_flags
from muntin.model import MuntinError

COMMANDS = {
    "demo": demo,
    "run": run,
    "check": check,
    "explain": explain,
    "status": status,
    "query": query,
    "rescale": rescale,
    "doctor": doctor,
    "web": web,
    "top": top,
    "generate": generate,
    "calibrate": calibrate,
    "package": package,
    "bench": bench,
    "study": study,
    "compact": compact,
    "completion": completion,
}
FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    verbose = "--verbose" in arguments
    logging.getLogger().addHandler(logging.NullHandler())  # what libraries log is not what we say to people
    try:
        args = parser().parse_args(arguments)
        return int(COMMANDS[args.command].execute(args))
    except MuntinError as error:
        return report(in_flags(error).render(), error.exit_code, verbose)
    except KeyboardInterrupt:
        return run.INTERRUPTED
    except BrokenPipeError:
        return silence_stdout()
    except OSError as error:
        return report(str(error) or type(error).__name__, FAILED, verbose)
    except Exception as error:
        said = f"unexpected {type(error).__name__}" + (f": {error}" if str(error) else "")
        return report(f"{said}\n  hint: --verbose shows where", FAILED, verbose)


class CommandParser(argparse.ArgumentParser):
    """The parser of one command; what a module says in `more_help` is loaded only when its help is shown."""

    more_help: Callable[[], str] | None = None

    def format_help(self) -> str:
        more = f"\n{self.more_help()}\n" if self.more_help is not None else ""
        return super().format_help() + more


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="muntin",
        description="Run many window-join queries over the same streams as one shared Spark job.",
        epilog="example: muntin demo",
    )
    top.add_argument("--version", action="version", version=f"muntin {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=command.SUMMARY[0].upper() + command.SUMMARY[1:] + ".",
            epilog=command.EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--verbose", action="store_true", help="show the traceback of a failure")
        sub.more_help = getattr(command, "more_help", None)
        command.declare(sub)
    return top


def report(message: str, exit_code: int, verbose: bool) -> int:
    if verbose:
        traceback.print_exc()
    print(f"muntin: {message}", file=sys.stderr)
    return exit_code


def silence_stdout() -> int:
    """The reader of a pipe has gone (`muntin explain | head`): nothing is wrong, and nobody is left to tell."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
