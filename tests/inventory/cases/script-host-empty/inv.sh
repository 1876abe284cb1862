#!/bin/sh
if [ "$1" = --list ]; then echo '{"g": ["a", "b", "c"]}'; elif [ "$2" = a ]; then echo '{"x": 1, "ansible_port": 22}'; elif [ "$2" = b ]; then echo '{}'; fi
