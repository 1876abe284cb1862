#!/bin/sh
cat <<'X'
{"_meta": {"hostvars": {"a": {"s": {"__ansible_unsafe": "{{ x }}"}, "k": "v"}}, "profile": "inventory_legacy"}, "all": {"children": ["ungrouped", "g"]}, "g": {"hosts": ["a"]}}
X
