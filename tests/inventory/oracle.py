"""Asks the real ansible-inventory many questions in one process, since starting it takes most of a second.

    python oracle.py                 requests from standard input, one JSON object a line; an answer a line, in order
    python oracle.py record [CASE..] writes list.json and hosts.json of the cases, and the patterns' answers

A request is {"cwd": DIR, "args": [..], "patterns": [..], "limits": [..]}. The answer holds what `ansible-inventory --list`
prints (`list`), what `--host` prints for every host (`hosts`), what `ansible PATTERN --list-hosts` selects (`patterns`; null
where it is an error), the same for `--limit` (`limits`), and what was warned of (`stderr`). Each request is answered by a
process of its own, forked after the imports.
"""

import collections
import json
import os
import pathlib
import sys
import tempfile
import traceback

# Ansible keeps groups of one level in sets, so the order of their hosts depends on this seed; with it, it is that of the file.
SEED = "1"
if os.environ.get("PYTHONHASHSEED") != SEED:
    os.environ["PYTHONHASHSEED"] = SEED
    os.execv(sys.executable, [sys.executable, *sys.argv])

for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
    del os.environ[name]
os.environ["ANSIBLE_DEPRECATION_WARNINGS"] = "0"
os.environ["ANSIBLE_LOCALHOST_WARNING"] = "0"
os.environ["ANSIBLE_NOCOLOR"] = "1"
os.environ.setdefault("LC_ALL", "C.UTF-8")
# The configuration file of a home directory must not matter.
os.environ["ANSIBLE_CONFIG"] = str(pathlib.Path(__file__).resolve().parent / "ansible.cfg")

from ansible.cli.inventory import InventoryCLI  # noqa: E402
from ansible.plugins.loader import inventory_loader  # noqa: E402

for warm in ("host_list", "script", "auto", "yaml", "ini", "toml"):
    inventory_loader.get(warm)


def load(text):
    """JSON, where infinite numbers become text: JSON has none."""
    return json.loads(text, parse_constant=str)


def answer(request):
    """Runs in the child: the answer to one request."""
    out = {}
    os.chdir(request["cwd"])
    arguments = list(request["args"])
    if "--host" not in arguments:
        arguments.insert(0, "--list")
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as warned:
        os.dup2(printed.fileno(), 1)
        os.dup2(warned.fileno(), 2)
        cli = InventoryCLI(["ansible-inventory", *arguments])
        try:
            cli.run()
        except SystemExit as exit:
            out["rc"] = exit.code or 0
        except BaseException:
            out["rc"] = 1
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        printed.seek(0)
        warned.seek(0)
        text = printed.read().decode()
        out["stderr"] = warned.read().decode(errors="replace")
        try:
            out["list"] = load(text)
        except ValueError:
            out["list"] = None
    if out["list"] is None or "--host" in arguments:
        return out
    out["hosts"] = {}
    for host in cli.inventory.get_hosts("all"):
        out["hosts"][host.name] = load(cli.dump(cli._get_host_variables(host)))
    out["patterns"] = {}
    for pattern in request.get("patterns", []):
        try:
            out["patterns"][pattern] = [str(host) for host in cli.inventory.list_hosts(pattern)]
        except Exception:
            out["patterns"][pattern] = None
    out["limits"] = {}
    for limit in request.get("limits", []):
        try:
            cli.inventory.subset(limit)
            cli.inventory.clear_caches()
            out["limits"][limit] = [str(host) for host in cli.inventory.list_hosts("all")]
        except Exception:
            out["limits"][limit] = None
    return out


def start(request):
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    os.close(read)
    try:
        try:
            data = json.dumps(answer(request))
        except BaseException:
            data = json.dumps({"rc": 1, "list": None, "stderr": traceback.format_exc()})
        with os.fdopen(write, "wb") as pipe:
            pipe.write(data.encode())
    finally:
        os._exit(0)


def finish(child, read):
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return data.decode()


def answers(requests):
    """The answers as JSON, in order; as many at a time as there are processors."""
    running = collections.deque()
    for request in requests:
        running.append(start(request))
        if len(running) >= (os.cpu_count() or 1):
            yield finish(*running.popleft())
    while running:
        yield finish(*running.popleft())


def case_arguments(case):
    if (case / "cmd").exists():
        return (case / "cmd").read_text().splitlines()
    for name in ("hosts.yml", "hosts.toml"):
        if (case / name).exists():
            return ["-i", name]
    return ["-i", "hosts.ini"]


def dump(path, value):
    path.write_text(json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False) + "\n")


def record(names):
    """Writes the recordings of cases; false if one fails."""
    root = pathlib.Path(__file__).resolve().parent
    cases = [root / "cases" / name for name in names] if names else sorted((root / "cases").iterdir())
    requests = []
    for case in cases:
        request = {"cwd": str(case), "args": case_arguments(case)}
        table = case / "patterns.json"
        if table.exists():
            tables = json.loads(table.read_text())
            request["patterns"] = list(tables["patterns"])
            request["limits"] = list(tables["limits"])
        requests.append(request)
    good = True
    for case, request, text in zip(cases, requests, answers(requests)):
        got = json.loads(text)
        if got["rc"] != 0 or "Unable to parse" in got["stderr"]:
            print(f"{case.name}: not read by Ansible:\n{got['stderr']}", file=sys.stderr)
            good = False
            continue
        dump(case / "list.json", got["list"])
        if "hosts" in got:
            dump(case / "hosts.json", got["hosts"])
        if "patterns" in request:
            # The order of the table is that of the file, for people.
            tables = {
                "patterns": {pattern: got["patterns"][pattern] for pattern in request["patterns"]},
                "limits": {limit: got["limits"][limit] for limit in request["limits"]},
            }
            lines = [
                f'  {json.dumps(kind)}: {{\n'
                + ",\n".join(f"    {json.dumps(k, ensure_ascii=False)}: {json.dumps(v, ensure_ascii=False)}" for k, v in table.items())
                + "\n  }"
                for kind, table in tables.items()
            ]
            (case / "patterns.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return good


def main():
    if sys.argv[1:2] == ["record"]:
        sys.exit(0 if record(sys.argv[2:]) else 1)
    requests = (json.loads(line) for line in sys.stdin if line.strip())
    output = os.fdopen(os.dup(1), "w")
    for text in answers(requests):
        output.write(text + "\n")
        output.flush()


main()
