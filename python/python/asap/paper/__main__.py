import argparse
import signal
import sys

from asap import _asap, _sft
from asap.paper import _estimate, _figure2, _plan, _run


def arguments() -> argparse.Namespace:
    parser = _sft.Parser(prog="python -m asap.paper", description="Compare pipelines as the ASAP paper does.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="prune, train and evaluate the arms of a plan, and write its tables")
    run.add_argument("plan", metavar="PLAN.toml", help="read this plan")
    run.add_argument("--to", metavar="FOLDER", help="write to this folder instead of the folder that the plan names")
    run.add_argument("--arms", type=lambda text: text.split(","), metavar="NAME,…", help="run only these arms")
    run.add_argument("--seeds", type=lambda text: list(map(_sft.whole(0), text.split(","))), metavar="N,…", help="run only these seeds, which replace those of the plan")
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                     help="change a key of the plan, such as train.epochs=1; without a value, remove the key; may be repeated")
    run.add_argument("--dry-run", action="store_true", help="print the commands, what is missing, and estimates of calls, tokens, hours, disk and money")
    figure = commands.add_parser("figure2", help="draw where a model is uncertain: at the first token of a step, or elsewhere")
    figure.add_argument("--from", dest="source", required=True, metavar="LOC", help="read these chains")
    figure.add_argument("--to", required=True, metavar="FOLDER", help="write the CSV files and the SVG to this folder")
    figure.add_argument("--limit", type=_sft.whole(1), metavar="N", help="read at most N chains")
    figure.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="set a setting, such as scorer.model=DIR; may be repeated")
    return parser.parse_args()


def main() -> int | None:
    # Both signals interrupt a check or an estimate in the same way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    args = arguments()
    try:
        if args.command == "figure2":
            return _figure2.draw(args)
        plan = _plan.Plan(args.plan, args.to, args.arms, args.seeds, args.set)
        return _estimate.estimate(plan) if args.dry_run else _run.Run(plan).run()
    except (_plan.Failed, _asap.Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "code", 1)
    except KeyboardInterrupt:
        print("error: interrupted before anything was written", file=sys.stderr)
        return 130


sys.exit(main())
