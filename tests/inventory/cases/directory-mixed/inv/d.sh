#!/bin/sh
printf '{"web": {"hosts": ["w1"], "vars": {"v": "script"}}, "_meta": {"hostvars": {"w1": {"d": 4}}}}'
