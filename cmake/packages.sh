# Sourced by bench/run, examples/run and tests/run.

# need PACKAGE...: installs the missing Debian packages if $install is yes and no password is needed. If packages are
# then still missing, prints the command that installs them and returns 1.
need() {
  local missing=()
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local sudo=""
  if [ "$(id -u)" -ne 0 ]; then
    sudo="sudo "
  fi
  local command="${sudo}apt-get install -y ${missing[*]}"
  if [ "$install" = yes ] && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; then
    echo "installing ${missing[*]}"
    if ${sudo}apt-get update -qq && DEBIAN_FRONTEND=noninteractive ${sudo}apt-get install -y -qq "${missing[@]}" >/dev/null; then
      return 0
    fi
  fi
  echo "missing: ${missing[*]}. This installs them: $command" >&2
  return 1
}

# These environment variables can slow OpenBLAS down.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS
