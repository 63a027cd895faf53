"""The command line: `python -m jakiro trace | validate | explain | replay | bench | tune | doctor | train | ...`."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence

from jakiro.commands.arguments import parser
from jakiro.commands.checks import in_words
from jakiro.commands.decoding import bench, card, doctor, trace, tune
from jakiro.commands.learning import experiment, train
from jakiro.commands.sharing import explain, replay, validate
from jakiro.files import release
from jakiro.memory import out_of_memory


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Bad input prints one line that says what to do, and returns 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a redirected one may lack letters of the tables
    options = parser().parse_args(arguments)
    options.line = shlex.join(["python", "-m", "jakiro", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        status = COMMANDS[options.command](options)
        print(end="", flush=True)
        return status
    except BrokenPipeError:  # who reads has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
        return 141
    except (ValueError, OSError) as error:
        print(f"jakiro {options.command}: {in_words(error)}", file=sys.stderr)
        return 2
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        less = "--max-new-tokens, total_tokens, or in training the recipe's `rows`"
        why = f"the memory does not suffice: ask for less ({less}), or use another --dtype or --device"
        print(f"jakiro {options.command}: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\njakiro {options.command}: interrupted{GOES_ON.get(options.command, '')}", file=sys.stderr)
        return 130
    finally:
        release()


GOES_ON = {  # after an interrupt
    "bench": "; the same command goes on where it was",
    "train": "; the same command goes on from what was saved last",
    "experiment": "; the same command goes on from what was saved last",
}
_ALL = (trace, validate, explain, replay, bench, tune, doctor, train, experiment, card)
COMMANDS = {command.__name__: command for command in _ALL}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else what is half-written is left behind
    sys.exit(main())
