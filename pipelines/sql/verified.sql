-- Prunes each chain to 25, 35, 50 and 70 % of its tokens, and keeps the shortest of these after which the scoring model still
-- states the answer, or the whole chain if there is none. The order of removal is the second line: any
-- score does, such as cot_perplexity(question, cot_steps(cot)). The last step first is the cheapest: the model reads the
-- chain about once. The budget has no effect.
SELECT *
FROM pruned((
    WITH ordered AS (SELECT *, cot_control_scores(cot_steps(cot), 'prefix', 42) AS order_of_removal FROM corpus),
    checked AS (
        SELECT *, cot_shortest_surviving(question, cot_steps(cot), order_of_removal, answer, [0.25, 0.35, 0.5, 0.7, 1.0]) AS rung
        FROM ordered
    )
    SELECT * EXCEPT (order_of_removal, rung), rung['kept'] AS kept, rung['share'] AS rung,
        rung['log_probability'] AS log_probability, rung['stated'] AS stated, rung['survives'] AS survives
    FROM checked
), 'verified')
