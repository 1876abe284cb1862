#!/bin/sh
echo 'starting up'
echo '{}'
