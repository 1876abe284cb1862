#!/bin/sh
echo '{"a": {"hosts": ["a", "b"]}, "_meta": {"hostvars": {"a": {"x": 1}, "b": {"y": 2}}}}'
