#!/bin/sh
exec "${HELIOGRAPH:-$(dirname -- "$0")/../heliograph}" connectors "$@"
