#!/bin/sh
cat <<'X'
{"list": ["h1", "h2"], "g": {"hosts": ["h2"], "vars": {"a": 1, "t": "{{ a }}"}, "children": ["list", "new"]}, "h3": {"x": 1, "y": [2]}, "empty": {"hosts": []}, "novars": {"vars": {}},
 "_meta": {"hostvars": {"h1": {"v": 1.5, "n": null}, "nobody": {"q": 1}}}}
X
