-- The whole method. Stage 1: a direct thought anchors a coarse pruning of the chain (Algorithm 1). Stage 2: of the
-- remaining steps, drops the one with the least surprising first token, one by one, until the chain has at most
-- asap.refine.max_tokens tokens (Algorithm 2).
-- As published with a language model, with one exception: if Algorithm 2 drops every step, steps longer than the
-- budget are dropped before the others. refined_by names the rule.
SELECT *
FROM pruned((
    WITH anchored AS (SELECT *, cot_anchor(question, answer) AS direct FROM corpus),
    coarsened AS (SELECT *, cot_coarse(cot, direct['thought']) AS coarse FROM anchored),
    scored AS (SELECT *, cot_surprisal(question, cot_steps(coarse['cot'])) AS surprisal FROM coarsened),
    refined AS (
        SELECT *, cot_refine_or_fit(cot_steps(coarse['cot']), surprisal, cot_budget(cot_tokens(cot))) AS refined FROM scored
    )
    SELECT * EXCEPT (refined), refined['kept'] AS kept, refined['by'] AS refined_by
    FROM refined
))
