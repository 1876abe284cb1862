#!/bin/sh
printf '{"g": ["\377"]}'
