#!/usr/bin/env bash
# A run as a Slurm array: each task does one of 64 parts.
#
#   FROM=/shared/traces TO=/shared/pruned sbatch docs/recipes/slurm.sh
#
# FROM and TO are locations that all machines see. To resume, submit the same array again, or the parts that failed:
# sbatch --array=3,17. With a limit on cost, all parts share it. Limits on calls hold for each part.
#SBATCH --job-name=asap
#SBATCH --array=1-64%16
#SBATCH --cpus-per-task=8
#SBATCH --mem=32G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail

PARTS=${PARTS:-64}   # the same for all submissions: the array may be only some of the parts
# Slurm sends SIGTERM before the time limit. asap then commits the finished rows.
exec asap run "${PIPELINE:-asap}" --from "$FROM" --to "$TO" --part "$SLURM_ARRAY_TASK_ID/$PARTS" "$@"
