#!/bin/sh
[ "$1" = --list ] && { echo '{"g": ["a"]}'; exit 0; }
echo nonsense
