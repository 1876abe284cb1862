#!/bin/sh
echo '{"g": 1}'
