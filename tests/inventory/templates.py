#!/usr/bin/env python3
"""Records anew what ansible-core 2.19 makes of every template in templates.json.

python3 -m venv venv && venv/bin/pip install 'ansible-core==2.19.*' passlib
venv/bin/python tests/inventory/templates.py

Each group has variables (`vars`), files (`files`, made in a temporary directory that is `<DIR>` in answers) and
`cases`: the template `t` and its answer, `is` or `error`. A case whose `ours` stands beside it is a difference that is
meant (`why`); a group with `by_hand` needs a collection that is not on PyPI and is left as it is.
Only the templates have to be written; --check compares and writes nothing.
"""
import json, math, os, pathlib, shutil, sys, tempfile, warnings

warnings.simplefilter("ignore")
os.environ["ANSIBLE_DEPRECATION_WARNINGS"] = "0"
from ansible import __version__ as version

assert version.startswith("2.19."), version
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.parsing.yaml.loader import AnsibleLoader
import yaml
from ansible._internal._datatag._tags import TrustedAsTemplate

init_plugin_loader()
os.environ["VMW_SET"] = "from the environment"
os.environ["VMW_EMPTY"] = ""
os.environ.pop("VMW_UNSET", None)


def trusted(value):
    if isinstance(value, str):
        return TrustedAsTemplate().tag(value)
    if isinstance(value, dict):
        return {key: trusted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [trusted(inner) for inner in value]
    return value


def plain(value, base):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(float(value))]
    if isinstance(value, str):
        return str(value).replace(base, "<DIR>")
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "items"):
        return {str(plain(key, base)): plain(inner, base) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
        return [plain(inner, base) for inner in value]
    return str(value)


def answer(group, case):
    base = tempfile.mkdtemp(prefix="vmw-")
    try:
        for name, text in group.get("files", {}).items():
            path = pathlib.Path(base, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        loader = DataLoader()
        loader.set_basedir(base)
        home = os.getcwd()
        os.chdir(base)
        variables = trusted(group.get("vars", {}))
        variables["playbook_dir"] = base
        try:
            found = Templar(loader=loader, variables=variables).template(trusted(case["t"]))
            return {"is": plain(found, base)}
        except Exception as error:
            if "-v" in sys.argv:
                print(case["t"], "!!", str(error)[:300].replace("\n", " "))
            return {"error": True}
        finally:
            os.chdir(home)
    finally:
        shutil.rmtree(base)


path = pathlib.Path(__file__).with_name("templates.json")
groups = json.loads(path.read_text())
changed = 0
for group in groups:
    if group.get("by_hand"):
        continue
    for case in group["cases"]:
        new = answer(group, case)
        old = {key: case.pop(key) for key in ("is", "error") if key in case}
        rest = {key: case.pop(key) for key in list(case) if key != "t"}
        case.update(new)
        case.update(rest)
        if old != new:
            changed += 1
            if "--check" in sys.argv:
                print("changed:", case["t"], old, "->", new)


def write(groups):
    line = lambda value: json.dumps(value, ensure_ascii=False)
    out = []
    for group in groups:
        head = "".join(f'  {line(key)}: {line(value)},\n' for key, value in group.items() if key != "cases")
        cases = ",\n".join("   " + line(case) for case in group["cases"])
        out.append(" {\n" + head + '  "cases": [\n' + cases + "\n  ]\n }")
    return "[\n" + ",\n".join(out) + "\n]\n"


print(sum(len(group["cases"]) for group in groups), "templates,", changed, "changed")
if "--check" in sys.argv:
    sys.exit(bool(changed))
path.write_text(write(groups))
