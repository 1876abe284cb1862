#!/bin/sh
echo '{"g": {"vars": []}}'
