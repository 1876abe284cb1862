#!/bin/sh
cat <<'X'
{"web": {"hosts": ["w1", "w2"], "vars": {"g": 1, "t": "{{ x }}"}, "children": ["eu"]},
 "eu": ["e1"], "lone": {"hosts": ["l1"]}, "old": {"v": 1},
 "_meta": {"hostvars": {"w1": {"a": 1, "f": 1.5, "u": {"__ansible_unsafe": "{{ y }}"}}, "nobody": {"b": 1}}}}
X
