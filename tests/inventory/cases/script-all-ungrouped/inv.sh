#!/bin/sh
echo '{"all": {"hosts": ["a", "b"], "vars": {"x": 1}, "children": ["ungrouped", "g"]}, "ungrouped": {"hosts": ["c"]}, "g": {"hosts": ["b"]}, "_meta": {"hostvars": {}}}'
