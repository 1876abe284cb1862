#!/bin/sh
[ "$1" = --list ] && { echo '{"g": ["a", "b"]}'; exit 0; }
echo "no such host $2" >&2
exit 1
