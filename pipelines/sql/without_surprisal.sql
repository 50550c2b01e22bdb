-- Stage 1 alone, the paper's ablation "w/o surprisal": the direct thought anchors a coarse pruning of the chain
-- (Algorithm 1), and all of its steps remain. The budget has no effect.
-- As published with a language model.
SELECT *
FROM pruned((
    WITH anchored AS (SELECT *, cot_anchor(question, answer) AS direct FROM corpus),
    coarsened AS (SELECT *, cot_coarse(cot, direct['thought']) AS coarse FROM anchored)
    SELECT *, generate_series(1, array_length(cot_steps(coarse['cot']))) AS kept
    FROM coarsened
), 'none')
