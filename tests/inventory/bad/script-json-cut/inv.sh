#!/bin/sh
printf '{"g": {\n  "hosts": ["a",'
