#!/usr/bin/env bash
# One part of the GPU check on a machine without a network: bash benchmarks/gpu_offline.sh 1|2|3 FOLDER [OPTION ...]
#
# FOLDER gets the record. PYTHON names another interpreter than python3. Options are passed on to benchmarks.gpu_check. What
# `make gpu-pack` left is used; libraries that are not there are built. The exit code is that of the check, and 2 for bad
# arguments or an interpreter without torch.
set -euo pipefail

started=$(date +%s) # the seconds of a part count from here

if [[ $# -lt 2 || ! $1 =~ ^[123]$ || -z $2 || $2 == -* ]]; then
  echo "usage: [PYTHON=python3] bash benchmarks/gpu_offline.sh 1|2|3 FOLDER [OPTION ...]" >&2
  exit 2
fi
part=$1
python=${PYTHON:-python3}
if [[ $python == */* && -x $python ]]; then # a path of the caller's folder
  python=$(cd -- "$(dirname -- "$python")" && pwd)/$(basename -- "$python")
fi
if ! "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null; then
  came=$(command -v -- "$python" >/dev/null && echo "has none" || echo "cannot be run")
  echo "PYTHON must name an interpreter with torch but $python $came: PYTHON=/path/to/python bash $0 ${*@Q}" >&2
  exit 2
fi
mkdir -p -- "$2"
results=$(cd -- "$2" && pwd)
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
shopt -s nullglob
wheels=(.whl/*.whl)
without="what is compared with pycocotools is left out, unless it is installed here"
if [[ ${#wheels[@]} -eq 0 ]]; then
  echo "no wheel lies in .whl (make gpu-pack fetches it): $without"
else
  names=("${wheels[@]##*/}")
  pip=("$python" -m pip install -q --no-index --find-links .whl --no-deps --no-compile --no-cache-dir --target "$scratch")
  for name in $(printf '%s\n' "${names[@]%%-*}" | sort -u); do # pip takes the newest version that fits
    "${pip[@]}" "$name" || echo "pip could not install $name from .whl: $without"
  done
fi
if [[ -n $(ls -A -- "$scratch") ]]; then
  export PYTHONPATH=$scratch${PYTHONPATH:+:$PYTHONPATH}
fi
export PYTHONUNBUFFERED=1
# The check then writes its record and its summary. The trap is there before the check, which may begin at once.
trap 'if [[ -n ${!:-} ]]; then kill -TERM "$!"; else exit 143; fi' INT TERM HUP
"$python" -u -m benchmarks.gpu_check --part "$part" --started "$started" --results "$results" "${@:3}" &
check=$!
code=256
while ((code > 128)); do # a signal may have ended the wait alone
  again=0
  wait "$check" || again=$?
  if ((again == 127)) || { ((again == code)) && ! kill -0 "$check" 2>/dev/null; }; then # the check ended by a signal
    break
  fi
  code=$again
done
exit "$code"
