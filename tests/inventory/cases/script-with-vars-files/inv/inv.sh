#!/bin/sh
echo '{"g": {"hosts": ["a"], "vars": {"v": "script"}}, "_meta": {"hostvars": {"a": {"h": "script"}}}}'
