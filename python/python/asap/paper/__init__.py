"""The paper's experiment: compare pipelines by the models that are trained on their outputs, and draw the paper's figure 2."""
