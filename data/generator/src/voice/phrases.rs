//! Templates in both voices, none of them bound to one label. They begin in lower case and end without a full stop.
//!
//! `{name}`, `{value}`, `{unit}` and `{expr}` are a quantity, its value, the unit with a space before it, and what it
//! is computed from; `{a}` and `{b}` name the two operands; `{what}`, `{code}` and `{result}` are a stage of a program,
//! its line and what it leaves of the example; `{answer}` is an answer.

use super::Words;

/// What may stand before any sentence.
pub const ASIDES: [Words; 16] = [
    ["okay,", "fine,"],
    ["wait,", "hang on,"],
    ["hmm,", "uh,"],
    ["actually,", "in fact,"],
    ["right,", "good,"],
    ["alright,", "very well,"],
    ["well,", "listen,"],
    ["hold on,", "one moment,"],
    ["ok —", "yes —"],
    ["but", "though"],
    ["now,", "at this point"],
    ["and", "besides,"],
    ["let's see:", "look:"],
    ["to be honest,", "admittedly,"],
    ["yes,", "indeed,"],
    ["also,", "plus,"],
];

/// What may stand before a sentence with content.
pub const LINKS: [Words; 16] = [
    ["so", "hence"],
    ["then", "after that"],
    ["next,", "following on,"],
    ["alternatively,", "or instead,"],
    ["first,", "to begin,"],
    ["therefore,", "consequently,"],
    ["thus", "accordingly"],
    ["again,", "once more,"],
    ["finally,", "lastly,"],
    ["from that,", "given this,"],
    ["in other words,", "put differently,"],
    ["to be careful,", "being cautious,"],
    ["perhaps", "possibly"],
    ["since we are here,", "while at it,"],
    ["here", "over here"],
    ["on the other hand,", "conversely,"],
];

/// First sentences of a chain.
pub const OPENINGS: [Words; 10] = [
    ["okay, let me read the question properly", "right then, what exactly does the exercise tell us"],
    ["alright, there are a few things to keep apart here", "fine, several facts have to be held apart"],
    ["let me start by going through what is given", "to begin, I go over everything the exercise supplies"],
    ["I have to work this out from the text", "my job is to dig the result out of this paragraph"],
    ["hmm, quite a few numbers. Let me order them", "uh, plenty of figures. Sorting them comes before anything else"],
    ["first I want to understand what is asked", "before calculating, it pays to grasp the goal"],
    ["okay, this looks like several small steps in a row", "good, a handful of little computations, it seems"],
    ["let me try to do this slowly and in order", "a patient walk through the facts should do"],
    ["right, one thing after another", "well now, in sequence please"],
    ["I will go through this piece by piece", "bit by bit then"],
];

/// Thoughts that carry nothing.
pub const MUSE: [Words; 36] = [
    ["let me think about this for a second", "give me a moment with this"],
    ["I want to be careful here", "caution is in order"],
    ["this is getting long, but that is fine", "the path grows lengthy, never mind"],
    ["there may be a shorter way, I don't see it yet", "possibly a quicker trick exists; none comes to my mind"],
    ["I keep going back and forth on this", "my mind wanders between two readings"],
    ["no need to rush", "there's plenty of time"],
    ["let me slow down a bit", "slower, please"],
    ["the wording matters here, I think", "exact phrasing counts in such exercises"],
    ["this kind of problem always looks harder than it is", "exercises of this type scare more than they bite"],
    ["it helps to say it out loud", "speaking the steps aloud is useful"],
    ["I should keep track of what I have", "bookkeeping is everything"],
    ["let me write that down properly", "this belongs on paper, neatly"],
    ["maybe I am overthinking it", "perhaps my worries are exaggerated"],
    ["that part of the text is easy to misread", "people stumble over that sentence"],
    ["let me read that line once more", "once again through that sentence"],
    ["one could probably do this in the head", "mental calculation would almost suffice"],
    ["I always mix up the order in these", "sequence errors are my usual mistake"],
    ["a picture might help — or not", "sketching could be useful — perhaps"],
    ["let me keep the notation simple", "short symbols are best"],
    ["I wonder what the intended route is", "which approach did the author plan"],
    ["it is only arithmetic in the end", "plain calculating, after all"],
    ["there is nothing deep about this", "no hidden theory in sight"],
    ["I feel like I'm close", "the goal can't be far away"],
    ["let me put the pieces next to each other", "side by side the parts become clearer"],
    ["the rest should follow from there", "everything else will fall into place"],
    ["it's easy to lose a factor in a place like this", "dropping a multiplier happens quickly in such spots"],
    ["this deserves a second look", "worth inspecting again"],
    ["I don't want to guess", "guessing is not an option"],
    ["where was I?", "what did I have?"],
    [
        "it would be nice to have a sanity bound, say something ≤ what we started with",
        "some bound would be comforting, perhaps result ≥ zero at least",
    ],
    ["I'd rather do it by hand", "manual work is more trustworthy to me"],
    ["nothing surprising up to this point", "as anticipated, all of it"],
    ["let me not skip anything", "skipping would be dangerous"],
    ["the question is a bit long-winded", "whoever wrote this likes many words"],
    ["each piece is simple when taken alone", "in isolation every part is trivial"],
    ["one more thought before moving on", "a brief pause before continuing"],
];

/// Questions to oneself.
pub const DOUBT: [Words; 20] = [
    ["is that really what is being asked?", "do they truly want this?"],
    ["does that make sense?", "is it plausible?"],
    ["did I read the question correctly?", "was my reading of the exercise accurate?"],
    ["could it be the other way round?", "might the reverse be true?"],
    ["am I missing something?", "have I overlooked anything?"],
    ["that feels a bit small", "somewhat low, it seems"],
    ["that feels a bit large", "somewhat high, it seems"],
    ["am I sure about the order?", "which goes before which?"],
    ["is there a catch?", "do they hide a trap?"],
    ["I'm not fully convinced", "conviction is lacking"],
    ["should I count that twice?", "does it enter two times?"],
    ["is anything left out?", "has some fact gone unused?"],
    ["what if I misread a number?", "suppose a figure was copied wrongly?"],
    ["is it meant differently?", "unless another meaning was intended?"],
    ["is that allowed?", "may one do so?"],
    ["can that be right?", "surely not?"],
    ["I have some doubts about it", "my trust in it is limited"],
    ["is the unit the right one?", "do the units agree?"],
    ["why would they mention it otherwise?", "for what other reason would it be stated?"],
    ["not sure that is the best use of it", "there might be smarter ways to employ it"],
];

/// Contentment.
pub const APPROVE: [Words; 20] = [
    ["that looks fine", "no problem visible"],
    ["good", "fine by me"],
    ["that seems reasonable", "plausible enough"],
    ["that fits so far", "everything matches until now"],
    ["no objection to that", "I see nothing against it"],
    ["nice 🙂", "lovely 🎉"],
    ["that works out", "this comes out well"],
    ["a whole number, as it should be", "integers only, as hoped"],
    ["that agrees with what I expected", "my expectation is met"],
    ["that is consistent", "no conflict"],
    ["I'm happy with that", "I can accept it"],
    ["that is about the size I had in mind", "roughly what one would imagine"],
    ["that holds together", "the parts support each other"],
    ["great", "splendid"],
    ["makes sense", "sounds logical"],
    ["clean", "neat outcome"],
    ["the arithmetic is fine", "calculation done properly"],
    ["that was easy enough", "not difficult at all"],
    ["looks correct to me", "I find no error"],
    ["this seems solid", "a firm footing"],
];

/// Turning away from what was tried.
pub const DROP: [Words; 20] = [
    ["that leads nowhere", "dead end, clearly"],
    ["scrap that", "delete this"],
    ["that is not what the text says, so back up", "the exercise states otherwise; return"],
    ["let me drop this idea", "away with this thought"],
    ["that was a detour", "an unnecessary loop, that"],
    ["I should go back to before that", "better resume from the earlier place"],
    ["never mind that attempt", "ignore what I just tried"],
    ["that can't be what they mean", "surely they had something else in mind"],
    ["forget it, this does not use the given facts", "useless, as the supplied facts play no part"],
    ["not like that", "differently then"],
    ["this road is closed", "no passage on this side"],
    ["wrong turn, let me return to where I was", "misstep; resuming at the previous position"],
    ["I'll leave that aside", "put this on the shelf"],
    ["that idea is out", "consider the thought rejected"],
    ["that doesn't fit the story, so discard it", "the tale says something else, away with it"],
    ["no good", "unusable"],
    ["that contradicts the question, back to the earlier line", "in conflict with the exercise, resume above"],
    ["let me undo that", "rewind"],
    ["the attempt fails", "this trial breaks down"],
    ["I don't believe that any more", "my faith in it is gone"],
];

/// What to do next, with `{name}`.
pub const PLAN: [Words; 14] = [
    ["next I need {name}", "upcoming: {name}"],
    ["what about {name}?", "and {name}, how large is it?"],
    ["the thing to find now is {name}", "the current target: {name}"],
    ["let me look at {name}", "attention goes to {name}"],
    ["I'd like to know {name}", "{name} would be useful to have"],
    ["that brings me to {name}", "which leads over to {name}"],
    ["the key seems to be {name}", "{name} appears decisive"],
    ["let me turn to {name}", "moving over to {name}"],
    ["it all depends on {name}", "everything hangs on {name}"],
    ["to go on I want {name}", "{name} is required before continuing"],
    ["let me double-check {name}", "{name} deserves another inspection"],
    ["how do I get {name}?", "by which means do we obtain {name}?"],
    ["I still have to think about {name}", "{name} remains to be considered"],
    ["about {name}", "regarding {name}"],
];

/// What is known, with `{name}`, `{value}`, `{unit}`.
pub const RESTATE: [Words; 14] = [
    ["I know that {name} is {value}", "it is established: {name} amounts to {value}"],
    ["{name} is {value}{unit}", "{name} amounts to {value}{unit}"],
    ["remember that {name} is {value}", "don't forget {name}, namely {value}"],
    ["we have {value} for {name}", "{value} stands for {name}"],
    [
        "according to the text and what I have, {name} is {value}",
        "from the exercise and my notes, {name} has the size {value}",
    ],
    ["{name}: {value}{unit}", "{name} → {value}{unit}"],
    ["as noted, {name} equals {value}", "mentioned before: {name} has value {value}"],
    ["{value} is {name}", "{value}, the size of {name}"],
    ["given {name} = {value}", "known is {name}, {value}"],
    ["keep in mind {name} is {value}{unit}", "bear in mind {name} with its {value}{unit}"],
    ["the {value} belongs to {name}", "{value} goes with {name}"],
    ["I take {name} as {value}", "my figure for {name} reads {value}"],
    ["note that {name} was {value}{unit}", "observe {name} at {value}{unit}"],
    ["here {name} stays {value}", "in this place {name} remains {value}"],
];

/// A quantity computed, with `{name}`, `{expr}`, `{value}`, `{unit}`.
pub const DERIVE: [Words; 24] = [
    ["{name} is {expr} = {value}", "{name} amounts to {expr} = {value}"],
    ["{expr} = {value}, so {name} is {value}", "as {expr} = {value}, {name} amounts to {value}"],
    ["{name}: {expr} = {value}{unit}", "{name} → {expr} = {value}{unit}"],
    ["for {name} I get {expr}, which is {value}", "{expr}, or {value}, results for {name}"],
    [
        "that makes {value} for {name}, since {expr} = {value}",
        "{value} results for {name}, given that {expr} = {value}",
    ],
    ["{expr} = {value}", "{expr} → {value}"],
    ["{name} = {expr} = {value}", "{name} := {expr} = {value}"],
    ["let me compute {name}: {expr} = {value}", "calculating {name} yields {expr} = {value}"],
    ["let me check {name}. {expr} comes to {value}", "inspecting {name}, {expr} turns into {value}"],
    [
        "I can write {name} as {expr}, and {expr} = {value}",
        "{name} may be expressed through {expr}, where {expr} = {value}",
    ],
    [
        "if I take {expr} I end up with {value}{unit}, and that is {name}",
        "evaluating {expr} we arrive at {value}{unit}, namely {name}",
    ],
    ["{name} should be {expr}, i.e. {value}", "{name} ought to be {expr}, hence {value}"],
    ["{name} comes out as {value} ({expr})", "one finds {value} as {name} ({expr})"],
    ["\\[ {expr} = {value} \\]", "$$ {expr} = {value} $$"],
    ["with {expr} = {value} in hand, {name} is settled — {value}", "having {expr} = {value}, we know {name} — {value}"],
    ["{expr}... that's {value}. So {name} is {value}", "{expr}, hmm, {value}. Thereby {name} has value {value}"],
    ["we have {name} = {expr}, giving {value}", "{name} can be had from {expr} with outcome {value}"],
    ["maybe {name} is just {expr}? That would be {value}{unit}", "could {name} simply be {expr}? Then {value}{unit}"],
    ["it follows that {name} equals {expr}, or {value}", "by necessity {name} has size {expr}, meaning {value}"],
    ["{name} must be {value} because {expr} = {value}", "{value} has to be {name}, for {expr} = {value}"],
    ["what is {name}? {expr}, so {value}", "how large is {name}? As large as {expr}, hence {value}"],
    [
        "counting it out, {expr} is {value}; that is {name}",
        "evaluating carefully, {expr} turns out {value}; there is {name}",
    ],
    ["\\( {expr} = {value} \\), which I read as {name}", "$ {expr} = {value} $, in words {name}"],
    ["suppose {name} is {expr}. Then it is {value}", "assume {name} to be {expr}. It has size {value} in that case"],
];

/// The same for a sum, with `{a}` and `{b}` too.
pub const ADD: [Words; 5] = [
    ["adding {a} and {b} gives {expr} = {value}", "the sum of {a} and {b} reads {expr} = {value}"],
    ["{a} plus {b}: {expr} = {value}", "{a} joined by {b} → {expr} = {value}"],
    [
        "{name} is {a} together with {b}, so {expr} = {value}{unit}",
        "{name} unites {a} with {b}, hence {expr} = {value}{unit}",
    ],
    ["put {a} and {b} together: {expr}, that is {value}", "combine {a} with {b}, {expr}, to obtain {value}"],
    [
        "I add up {a} and {b} and get {value}, because {expr} = {value}",
        "{value} results from summing {a} with {b}, as {expr} = {value}",
    ],
];

/// The same for a difference.
pub const SUBTRACT: [Words; 5] = [
    ["taking {b} away from {a} leaves {expr} = {value}", "{a} less {b} reads {expr} = {value}"],
    ["{a} minus {b}: {expr} = {value}", "{a} reduced by {b} → {expr} = {value}"],
    [
        "{name} is what {a} has over {b}, so {expr} = {value}{unit}",
        "{name} is how far {a} exceeds {b}, hence {expr} = {value}{unit}",
    ],
    ["from {a} remove {b}: {expr}, that is {value}", "deduct {b} from {a}, {expr}, to obtain {value}"],
    [
        "the gap between {a} and {b} is {value}, because {expr} = {value}",
        "{value} separates {a} from {b}, as {expr} = {value}",
    ],
];

/// The same for a product.
pub const MULTIPLY: [Words; 5] = [
    ["multiplying {a} by {b} gives {expr} = {value}", "{a} multiplied with {b} reads {expr} = {value}"],
    ["{a} times {b}: {expr} = {value}", "{a} × {b} in words → {expr} = {value}"],
    [
        "{name} takes {a} as often as {b} says, so {expr} = {value}{unit}",
        "{name} repeats {a} according to {b}, hence {expr} = {value}{unit}",
    ],
    ["scale {a} by {b}: {expr}, that is {value}", "enlarge {a} through {b}, {expr}, to obtain {value}"],
    [
        "the product of {a} and {b} is {value}, because {expr} = {value}",
        "{value} results from repeating {a} with {b}, as {expr} = {value}",
    ],
];

/// The same for a quotient.
pub const DIVIDE: [Words; 5] = [
    ["dividing {a} by {b} gives {expr} = {value}", "{a} divided through {b} reads {expr} = {value}"],
    ["{a} over {b}: {expr} = {value}", "{a} per {b} → {expr} = {value}"],
    [
        "{name} is {a} cut into parts by {b}, so {expr} = {value}{unit}",
        "{name} distributes {a} according to {b}, hence {expr} = {value}{unit}",
    ],
    ["split {a} by {b}: {expr}, that is {value}", "partition {a} through {b}, {expr}, to obtain {value}"],
    [
        "the quotient of {a} and {b} is {value}, because {expr} = {value}",
        "{value} results from sharing {a} over {b}, as {expr} = {value}",
    ],
];

/// An answer, right or tried, with `{answer}`.
pub const CONCLUDE: [Words; 14] = [
    ["the answer is {answer}", "{answer} solves the exercise"],
    ["the answer would be {answer}", "{answer} might solve the exercise"],
    ["that would make the answer \\boxed{{answer}}", "by this the outcome were \\boxed{{answer}}"],
    ["I get \\boxed{{answer}} for it", "\\boxed{{answer}} emerges for this exercise"],
    ["that means the final answer is {answer}", "in the end one reports {answer}"],
    ["{answer} is what the question asks for", "they want {answer}"],
    ["**Answer: {answer}**", "**Outcome: {answer}**"],
    ["this points to {answer} as the answer", "all of this suggests {answer} as solution"],
    ["with that we land at \\( \\boxed{{answer}} \\)", "we finish with \\( \\boxed{{answer}} \\)"],
    ["as a final value that is {answer}", "closing value {answer}"],
    ["{answer} answers the question", "{answer} satisfies what was requested"],
    ["I arrive at {answer}", "my solution: {answer}"],
    ["it comes to {answer}", "the outcome can be read as {answer}"],
    ["the whole thing gives {answer}", "altogether {answer} comes out"],
];

/// A line of a program within a sentence, with `{what}`, `{code}`, `{result}`.
pub const INLINE_CODE: [Words; 16] = [
    [
        "to {what} I can use {code}, and the example gives {result}",
        "{code} is a way to {what}, the sample becoming {result}",
    ],
    ["{code} should {what}: {result}", "by {code} we {what} and see {result}"],
    ["I {what} with {code}, so the example is now {result}", "{code} serves to {what}; the sample reads {result}"],
    ["{code} leaves {result}", "{code} produces {result}"],
    [
        "for the line that has to {what}, {code} works and gives {result}",
        "where one has to {what}, put {code}, so {result}",
    ],
    [
        "let me {what}: {code}, i.e. {result} on the example",
        "go on and {what} through {code}, meaning {result} for the sample",
    ],
    ["{what} — {code} — which yields {result}", "{what} / {code} / {result}"],
    ["with {code} the example turns into {result}", "{code} transforms the sample into {result}"],
    ["{what} by {code}; the example becomes {result}", "afterwards {what} using {code}, the sample reading {result}"],
    ["trying {code} on the example: {result}", "applying {code} to the sample produces {result}"],
    ["we {what} here: {code} → {result}", "here one has to {what}, {code} ⇒ {result}"],
    ["if I {what} the example is {result}, so {code}", "having to {what} we reach {result}, thereby {code}"],
    ["{result} is what {code} returns", "{result} comes from {code}"],
    [
        "let me check {code}: it has to {what}, and I see {result}",
        "inspecting {code}, which must {what}, one finds {result}",
    ],
    ["I write {code} to {what}; result {result}", "{code} stands to {what}; outcome {result}"],
    ["{code} and I am at {result}", "{code} brings us to {result}"],
];

/// A line of a program below a sentence, with `{what}` and `{result}`.
pub const BLOCK_CODE: [Words; 8] = [
    ["to {what}, the line is (example: {result})", "a statement to {what} (sample: {result})"],
    ["{what}. The example is then {result}", "{what}, whereby the sample turns to {result}"],
    ["in Python, to {what} and reach {result}", "Python to {what}, arriving at {result}"],
    ["this would {what} and leave {result}", "the following would {what}, producing {result}"],
    ["let me {what}; I expect {result}", "go ahead and {what}, hopefully {result}"],
    ["code to {what} ({result} for the example)", "statement made to {what} ({result} in the sample)"],
    ["we {what} like this, which gives {result}", "thus one may {what}, producing {result}"],
    ["trying to {what}, example at {result}", "an attempt to {what}, sample being {result}"],
];

/// A stage of a program computed by hand, with `{what}` and `{result}`.
pub const BY_HAND: [Words; 8] = [
    ["by hand: {what} and the example reads {result}", "manually {what}, the sample says {result}"],
    ["when I {what} the example I see {result}", "having to {what}, we see {result} appear"],
    ["{what} → {result}", "{what} ⇒ {result}"],
    [
        "the example after that is {result}, since we {what}",
        "the sample afterwards shows {result}, because we have to {what}",
    ],
    ["we {what} and hold {result}", "thereby we {what}, holding {result}"],
    ["going through the example, I {what} and get {result}", "walking the sample, one has to {what}, hence {result}"],
    ["let me {what} on paper: {result}", "with a pencil, {what}: {result}"],
    ["{result} is left once we {what}", "{result} survives when we {what}"],
];

/// A whole program below a sentence.
pub const PROGRAM: [Words; 10] = [
    ["putting it together", "assembled"],
    ["the whole function would be", "a complete routine"],
    ["as one piece of code", "everything joined into code"],
    ["the program reads", "the routine then says"],
    ["let me write out everything", "all lines written down"],
    ["full code", "entire listing"],
    ["in Python this becomes", "expressed through Python"],
    ["collected into a function", "wrapped as a routine"],
    ["the function in one go", "the routine at once"],
    ["here is how it looks as a program", "shown as source text"],
];

/// What the task says, with `{what}`.
pub const TASK: [Words; 8] = [
    ["the task says to {what}", "the exercise demands to {what}"],
    ["we are told to {what}", "our orders are to {what}"],
    ["somewhere we have to {what}", "at some place one must {what}"],
    ["the statement wants us to {what}", "the description asks to {what}"],
    ["I must not forget to {what}", "don't omit to {what}"],
    ["do we really have to {what}?", "is it needed to {what}?"],
    ["one stage is to {what}", "among the stages: {what}"],
    ["it says we should {what}", "we ought to {what}, it reads"],
];

/// Before a list of lines.
pub const LIST: [Words; 8] = [
    ["in short:", "briefly:"],
    ["writing it as a list:", "as bullet points:"],
    ["two things:", "a pair of facts:"],
    ["line by line:", "each on its own line:"],
    ["let me note:", "noting down:"],
    ["a small table of it:", "a tiny overview:"],
    ["piece by piece:", "separately:"],
    ["what I have:", "my notes:"],
];

/// The part of a product that the tens of a factor give, with `{name}`.
pub const TENS_PART: Words = ["the tens part of {name}", "the share of {name} from the tens"];

/// The part that its ones give, with `{name}`.
pub const ONES_PART: Words = ["the ones part of {name}", "the share of {name} from the units"];

/// The beginning of a response after the chain.
pub const RESPONSE: [Words; 6] = [
    ["Here is the computation, step by step.", "The calculation runs as follows."],
    ["We work through the quantities in order.", "Taking the figures one by one:"],
    ["**Solution.** The needed values are:", "**Worked solution.** Required figures:"],
    ["Collecting the essential steps:", "The decisive lines are:"],
    ["The result follows in a few lines.", "A short derivation suffices."],
    ["Let us list what is needed:", "These figures are required:"],
];

/// A line of a response, with `{name}`, `{expr}`, `{value}`, `{unit}`.
pub const RESPONSE_LINE: [Words; 4] = [
    ["- {name}: {expr} = {value}{unit}", "- {name} → {expr} = {value}{unit}"],
    ["- {expr} = {value}, which is {name}", "- {expr} = {value} ({name})"],
    ["- we get {name} as {expr} = {value}", "- {name} results as {expr} = {value}"],
    ["- {name} equals {expr}, so {value}{unit}", "- {name} amounts to {expr}, i.e. {value}{unit}"],
];

/// The end of a response, with `{answer}`.
pub const RESPONSE_END: [Words; 6] = [
    ["The final answer is \\boxed{{answer}}.", "We report \\boxed{{answer}}."],
    ["Therefore the answer is \\(\\boxed{{answer}}\\).", "In conclusion: \\(\\boxed{{answer}}\\)."],
    ["**Final Answer**\n\n\\[\n\\boxed{{answer}}\n\\]", "**Outcome**\n\n\\[\n\\boxed{{answer}}\n\\]"],
    ["So the result is \\boxed{{answer}}.", "Consequently \\boxed{{answer}}."],
    ["Hence \\boxed{{answer}}.", "Solution: \\boxed{{answer}}."],
    ["This gives \\boxed{{answer}} as required.", "All told, \\boxed{{answer}}."],
];

/// A response that is a program, before its code block.
pub const RESPONSE_CODE: [Words; 6] = [
    [
        "The function applies the stages in the order of the statement.",
        "The routine performs what the description lists, in sequence.",
    ],
    [
        "Each stage becomes one line; the last line returns the number.",
        "One statement per stage, and the number is returned at the end.",
    ],
    [
        "This solution follows the description directly and is linear up to sorting.",
        "A direct translation of the description; sorting dominates its cost.",
    ],
    ["We go through the list stage by stage.", "The list passes through all stages in turn."],
    ["Below is the complete program.", "The complete routine follows."],
    ["The code keeps one intermediate list per stage.", "An intermediate list is held for every stage."],
];
