#!/bin/sh
echo '{"a": {"children": ["b"]}, "b": {"children": ["a"]}, "_meta": {"hostvars": {}}}'
