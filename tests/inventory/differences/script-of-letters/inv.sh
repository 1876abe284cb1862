#!/bin/sh
echo '{"g": {"children": "ab"}, "_meta": {"hostvars": {}}}'
