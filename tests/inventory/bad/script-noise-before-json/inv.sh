#!/bin/sh
echo 'DEBUG: x'
echo '{"g": ["a"]}'
