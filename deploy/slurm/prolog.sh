#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prolog and Epilog of Slurm (slurm.conf: both name this file): the host's agent gets the label slurm_job=ID while a job has the host, so that
#   tutti capture --hosts slurm_job=4711
# captures the hosts of a job. Needs the unit of the Debian package. Hosts that jobs share carry the label of the one that began last.
set -u

settings=/run/tutti-agent.env
case ${SLURM_SCRIPT_CONTEXT:-} in
prolog_slurmd) printf 'TUTTI_LABEL=slurm_job=%s\n' "$SLURM_JOB_ID" >"$settings" ;;
epilog_slurmd) grep -qsx "TUTTI_LABEL=slurm_job=$SLURM_JOB_ID" "$settings" && rm -f "$settings" ;;
*) echo "prolog.sh: Slurm runs this, as Prolog and Epilog" >&2; exit 2 ;;
esac
# A profiler that does not start is no reason to drain a node.
systemctl try-restart tutti-agent.service || true
exit 0
