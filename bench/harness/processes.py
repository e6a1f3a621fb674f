"""Processes that end with this program, whatever ends it."""

import os
import signal
import subprocess
import time

STOP_SECONDS = 20
TAIL_LINES = 12

_started = []


class Failed(Exception):
    """A program could not be run, and why."""


def start(command, log, environment=None, directory=None):
    """Starts a program in a process group of its own. What it says goes to `log`."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            cwd=directory,
            start_new_session=True,
        )
    _started.append(process)
    return process


def output_of(command, seconds):
    """Runs a program to its end and gives back what it printed."""
    process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _started.append(process)
    try:
        printed, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"no result within {seconds} s") from None
    finally:
        stop(process)
    if process.returncode != 0:
        raise Failed(f"it ended with {process.returncode}: {tail(said or printed)}")
    return printed


def stop(process):
    """Ends a process that `start` made, and its children."""
    if process in _started:
        _started.remove(process)
    if process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
    # Children may outlive their parent; the group is ours alone.
    _signal_group(process, signal.SIGKILL)
    process.wait()


def stop_all():
    """Ends all that is still running."""
    for process in list(_started):
        stop(process)


def wait_until(ready, process, log, seconds=60):
    """Waits until `ready()` holds; fails when the process ends or the time is over."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise Failed(f"it ended at its start: {tail(_read(log))}")
        if time.monotonic() > deadline:
            raise Failed(f"it was not ready within {seconds} s: {tail(_read(log))}")
        time.sleep(0.05)


def descendant(pid, name):
    """The process below `pid` that runs the program `name`, if there is one."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = _read(f"/proc/{entry}/stat")
            except OSError:
                continue
            names[int(entry)] = stat[stat.index("(") + 1 : stat.rindex(")")]
            parents[int(entry)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    for found, called in names.items():
        above = found
        while called == name and above in parents:
            if above == pid:
                return found
            above = parents[above]
    return None


def tail(text):
    return " | ".join(text.strip().splitlines()[-TAIL_LINES:])[-800:]


def _signal_group(process, which):
    try:
        os.killpg(process.pid, which)
    except ProcessLookupError:
        pass


def _read(path):
    with open(path, errors="replace") as file:
        return file.read()
