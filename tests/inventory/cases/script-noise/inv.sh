#!/bin/sh
echo "warning: something" >&2
echo '{"g": {"hosts": ["a"]}, "_meta": {"hostvars": {"a": {"x": "1"}}}}'
