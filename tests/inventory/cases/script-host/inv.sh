#!/bin/sh
if [ "$1" = --list ]; then echo '{"web": {"hosts": ["w1", "w2"]}}'
elif [ "$2" = w1 ]; then echo '{"a": 1}'
fi
