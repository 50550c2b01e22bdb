"""The paper's experiment: compare pipelines by the models that are trained on their outputs, and draw the paper's figure 2.

    python -m asap.paper run docs/recipes/paper/smoke.toml
    python -m asap.paper figure2 --from data/sample --to out/figure2
"""
