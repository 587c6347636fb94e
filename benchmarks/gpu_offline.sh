#!/usr/bin/env bash
# One part of the GPU check on a machine without a network: bash benchmarks/gpu_offline.sh 1|2|3 FOLDER
#
# FOLDER gets the record. PYTHON names another interpreter than python3. What `make gpu-pack` left is used; libraries that
# are not there are built. The exit code is that of the check, and 2 for bad arguments.
set -euo pipefail

started=$(date +%s) # the seconds of a part count from here

if [[ $# -ne 2 || ! $1 =~ ^[123]$ || -z $2 ]]; then
  echo "usage: bash benchmarks/gpu_offline.sh 1|2|3 FOLDER" >&2
  exit 2
fi
part=$1
mkdir -p -- "$2"
results=$(cd -- "$2" && pwd)
python=${PYTHON:-python3}
if [[ $python == */* ]]; then # a path of the caller's folder
  python=$(cd -- "$(dirname -- "$python")" && pwd)/$(basename -- "$python")
fi
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
shopt -s nullglob
wheels=(.whl/*.whl)
without="what is compared with pycocotools is left out, unless it is installed here"
if [[ ${#wheels[@]} -eq 0 ]]; then
  echo "no wheel lies in .whl (make gpu-pack fetches it): $without"
elif "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$scratch" "${wheels[@]}"; then
  export PYTHONPATH=$scratch${PYTHONPATH:+:$PYTHONPATH}
else
  echo "pip could not install ${wheels[*]}: $without"
fi

export PYTHONUNBUFFERED=1
"$python" -u -m benchmarks.gpu_check --part "$part" --started "$started" --results "$results" &
check=$!
trap 'kill -TERM "$check"' INT TERM HUP # the check then writes its record and its summary
code=0
wait "$check" || code=$?
if kill -0 "$check" 2>/dev/null; then # a signal has ended the first wait
  code=0
  wait "$check" || code=$?
fi
exit "$code"
