//! Templates that are shared by all labels. They begin in lower case and end without a full stop.
//!
//! `{name}`, `{value}`, `{unit}` and `{expr}` are a quantity, its value, the unit after a space, and its formula. `{a}`
//! and `{b}` are the names of the two operands. `{what}`, `{code}` and `{result}` are a stage of a program, its line
//! and its result for the example. `{answer}` is an answer.

pub(crate) const ASIDES: [&str; 16] = [
    "okay,",
    "wait,",
    "hmm,",
    "actually,",
    "right,",
    "alright,",
    "well,",
    "hold on,",
    "ok —",
    "but",
    "now,",
    "and",
    "let's see:",
    "to be honest,",
    "yes,",
    "also,",
];

pub(crate) const LINKS: [&str; 16] = [
    "so",
    "then",
    "next,",
    "alternatively,",
    "first,",
    "therefore,",
    "thus",
    "again,",
    "finally,",
    "from that,",
    "in other words,",
    "to be careful,",
    "perhaps",
    "since we are here,",
    "here",
    "on the other hand,",
];

pub(crate) const OPENINGS: [&str; 10] = [
    "okay, let me read the question properly",
    "alright, there are a few things to keep apart here",
    "let me start by going through what is given",
    "I have to work this out from the text",
    "hmm, quite a few numbers. Let me order them",
    "first I want to understand what is asked",
    "okay, this looks like several small steps in a row",
    "let me try to do this slowly and in order",
    "right, one thing after another",
    "I will go through this piece by piece",
];

pub(crate) const MUSE: [&str; 36] = [
    "let me think about this for a second",
    "I want to be careful here",
    "this is getting long, but that is fine",
    "there may be a shorter way, I don't see it yet",
    "I keep going back and forth on this",
    "no need to rush",
    "let me slow down a bit",
    "the wording matters here, I think",
    "this kind of problem always looks harder than it is",
    "it helps to say it out loud",
    "I should keep track of what I have",
    "let me write that down properly",
    "maybe I am overthinking it",
    "that part of the text is easy to misread",
    "let me read that line once more",
    "one could probably do this in the head",
    "I always mix up the order in these",
    "a picture might help — or not",
    "let me keep the notation simple",
    "I wonder what the intended route is",
    "it is only arithmetic in the end",
    "there is nothing deep about this",
    "I feel like I'm close",
    "let me put the pieces next to each other",
    "the rest should follow from there",
    "it's easy to lose a factor in a place like this",
    "this deserves a second look",
    "I don't want to guess",
    "where was I?",
    "it would be nice to have a sanity bound, say something ≤ what we started with",
    "I'd rather do it by hand",
    "nothing surprising up to this point",
    "let me not skip anything",
    "the question is a bit long-winded",
    "each piece is simple when taken alone",
    "one more thought before moving on",
];

pub(crate) const DOUBT: [&str; 20] = [
    "is that really what is being asked?",
    "does that make sense?",
    "did I read the question correctly?",
    "could it be the other way round?",
    "am I missing something?",
    "that feels a bit small",
    "that feels a bit large",
    "am I sure about the order?",
    "is there a catch?",
    "I'm not fully convinced",
    "should I count that twice?",
    "is anything left out?",
    "what if I misread a number?",
    "is it meant differently?",
    "is that allowed?",
    "can that be right?",
    "I have some doubts about it",
    "is the unit the right one?",
    "why would they mention it otherwise?",
    "not sure that is the best use of it",
];

pub(crate) const APPROVE: [&str; 20] = [
    "that looks fine",
    "good",
    "that seems reasonable",
    "that fits so far",
    "no objection to that",
    "nice 🙂",
    "that works out",
    "a whole number, as it should be",
    "that agrees with what I expected",
    "that is consistent",
    "I'm happy with that",
    "that is about the size I had in mind",
    "that holds together",
    "great",
    "makes sense",
    "clean",
    "the arithmetic is fine",
    "that was easy enough",
    "looks correct to me",
    "this seems solid",
];

pub(crate) const DROP: [&str; 20] = [
    "that leads nowhere",
    "scrap that",
    "that is not what the text says, so back up",
    "let me drop this idea",
    "that was a detour",
    "I should go back to before that",
    "never mind that attempt",
    "that can't be what they mean",
    "forget it, this does not use the given facts",
    "not like that",
    "this road is closed",
    "wrong turn, let me return to where I was",
    "I'll leave that aside",
    "that idea is out",
    "that doesn't fit the story, so discard it",
    "no good",
    "that contradicts the question, back to the earlier line",
    "let me undo that",
    "the attempt fails",
    "I don't believe that any more",
];

pub(crate) const PLAN: [&str; 14] = [
    "next I need {name}",
    "what about {name}?",
    "the thing to find now is {name}",
    "let me look at {name}",
    "I'd like to know {name}",
    "that brings me to {name}",
    "the key seems to be {name}",
    "let me turn to {name}",
    "it all depends on {name}",
    "to go on I want {name}",
    "let me double-check {name}",
    "how do I get {name}?",
    "I still have to think about {name}",
    "about {name}",
];

pub(crate) const RESTATE: [&str; 14] = [
    "I know that {name} is {value}",
    "{name} is {value}{unit}",
    "remember that {name} is {value}",
    "we have {value} for {name}",
    "according to the text and what I have, {name} is {value}",
    "{name}: {value}{unit}",
    "as noted, {name} equals {value}",
    "{value} is {name}",
    "given {name} = {value}",
    "keep in mind {name} is {value}{unit}",
    "the {value} belongs to {name}",
    "I take {name} as {value}",
    "note that {name} was {value}{unit}",
    "here {name} stays {value}",
];

pub(crate) const DERIVE: [&str; 24] = [
    "{name} is {expr} = {value}",
    "{expr} = {value}, so {name} is {value}",
    "{name}: {expr} = {value}{unit}",
    "for {name} I get {expr}, which is {value}",
    "that makes {value} for {name}, since {expr} = {value}",
    "{expr} = {value}",
    "{name} = {expr} = {value}",
    "let me compute {name}: {expr} = {value}",
    "let me check {name}. {expr} comes to {value}",
    "I can write {name} as {expr}, and {expr} = {value}",
    "if I take {expr} I end up with {value}{unit}, and that is {name}",
    "{name} should be {expr}, i.e. {value}",
    "{name} comes out as {value} ({expr})",
    "\\[ {expr} = {value} \\]",
    "with {expr} = {value} in hand, {name} is settled — {value}",
    "{expr}... that's {value}. So {name} is {value}",
    "we have {name} = {expr}, giving {value}",
    "maybe {name} is just {expr}? That would be {value}{unit}",
    "it follows that {name} equals {expr}, or {value}",
    "{name} must be {value} because {expr} = {value}",
    "what is {name}? {expr}, so {value}",
    "counting it out, {expr} is {value}; that is {name}",
    "\\( {expr} = {value} \\), which I read as {name}",
    "suppose {name} is {expr}. Then it is {value}",
];

pub(crate) const ADD: [&str; 5] = [
    "adding {a} and {b} gives {expr} = {value}",
    "{a} plus {b}: {expr} = {value}",
    "{name} is {a} together with {b}, so {expr} = {value}{unit}",
    "put {a} and {b} together: {expr}, that is {value}",
    "I add up {a} and {b} and get {value}, because {expr} = {value}",
];

pub(crate) const SUBTRACT: [&str; 5] = [
    "taking {b} away from {a} leaves {expr} = {value}",
    "{a} minus {b}: {expr} = {value}",
    "{name} is what {a} has over {b}, so {expr} = {value}{unit}",
    "from {a} remove {b}: {expr}, that is {value}",
    "the gap between {a} and {b} is {value}, because {expr} = {value}",
];

pub(crate) const MULTIPLY: [&str; 5] = [
    "multiplying {a} by {b} gives {expr} = {value}",
    "{a} times {b}: {expr} = {value}",
    "{name} takes {a} as often as {b} says, so {expr} = {value}{unit}",
    "scale {a} by {b}: {expr}, that is {value}",
    "the product of {a} and {b} is {value}, because {expr} = {value}",
];

pub(crate) const DIVIDE: [&str; 5] = [
    "dividing {a} by {b} gives {expr} = {value}",
    "{a} over {b}: {expr} = {value}",
    "{name} is {a} cut into parts by {b}, so {expr} = {value}{unit}",
    "split {a} by {b}: {expr}, that is {value}",
    "the quotient of {a} and {b} is {value}, because {expr} = {value}",
];

pub(crate) const CONCLUDE: [&str; 14] = [
    "the answer is {answer}",
    "the answer would be {answer}",
    "that would make the answer \\boxed{{answer}}",
    "I get \\boxed{{answer}} for it",
    "that means the final answer is {answer}",
    "{answer} is what the question asks for",
    "**Answer: {answer}**",
    "this points to {answer} as the answer",
    "with that we land at \\( \\boxed{{answer}} \\)",
    "as a final value that is {answer}",
    "{answer} answers the question",
    "I arrive at {answer}",
    "it comes to {answer}",
    "the whole thing gives {answer}",
];

pub(crate) const INLINE_CODE: [&str; 16] = [
    "to {what} I can use {code}, and the example gives {result}",
    "{code} should {what}: {result}",
    "I {what} with {code}, so the example is now {result}",
    "{code} leaves {result}",
    "for the line that has to {what}, {code} works and gives {result}",
    "let me {what}: {code}, i.e. {result} on the example",
    "{what} — {code} — which yields {result}",
    "with {code} the example turns into {result}",
    "{what} by {code}; the example becomes {result}",
    "trying {code} on the example: {result}",
    "we {what} here: {code} → {result}",
    "if I {what} the example is {result}, so {code}",
    "{result} is what {code} returns",
    "let me check {code}: it has to {what}, and I see {result}",
    "I write {code} to {what}; result {result}",
    "{code} and I am at {result}",
];

pub(crate) const BLOCK_CODE: [&str; 8] = [
    "to {what}, the line is (example: {result})",
    "{what}. The example is then {result}",
    "in Python, to {what} and reach {result}",
    "this would {what} and leave {result}",
    "let me {what}; I expect {result}",
    "code to {what} ({result} for the example)",
    "we {what} like this, which gives {result}",
    "trying to {what}, example at {result}",
];

pub(crate) const BY_HAND: [&str; 8] = [
    "by hand: {what} and the example reads {result}",
    "when I {what} the example I see {result}",
    "{what} → {result}",
    "the example after that is {result}, since we {what}",
    "we {what} and hold {result}",
    "going through the example, I {what} and get {result}",
    "let me {what} on paper: {result}",
    "{result} is left once we {what}",
];

pub(crate) const PROGRAM: [&str; 10] = [
    "putting it together",
    "the whole function would be",
    "as one piece of code",
    "the program reads",
    "let me write out everything",
    "full code",
    "in Python this becomes",
    "collected into a function",
    "the function in one go",
    "here is how it looks as a program",
];

pub(crate) const TASK: [&str; 8] = [
    "the task says to {what}",
    "we are told to {what}",
    "somewhere we have to {what}",
    "the statement wants us to {what}",
    "I must not forget to {what}",
    "do we really have to {what}?",
    "one stage is to {what}",
    "it says we should {what}",
];

pub(crate) const LIST: [&str; 8] = [
    "in short:",
    "writing it as a list:",
    "two things:",
    "line by line:",
    "let me note:",
    "a small table of it:",
    "piece by piece:",
    "what I have:",
];

pub(crate) const TENS_PART: &str = "the tens part of {name}";

pub(crate) const ONES_PART: &str = "the ones part of {name}";

pub(crate) const RESPONSE: [&str; 6] = [
    "Here is the computation, step by step.",
    "We work through the quantities in order.",
    "**Solution.** The needed values are:",
    "Collecting the essential steps:",
    "The result follows in a few lines.",
    "Let us list what is needed:",
];

pub(crate) const RESPONSE_LINE: [&str; 4] = [
    "- {name}: {expr} = {value}{unit}",
    "- {expr} = {value}, which is {name}",
    "- we get {name} as {expr} = {value}",
    "- {name} equals {expr}, so {value}{unit}",
];

pub(crate) const RESPONSE_END: [&str; 6] = [
    "The final answer is \\boxed{{answer}}.",
    "Therefore the answer is \\(\\boxed{{answer}}\\).",
    "**Final Answer**\n\n\\[\n\\boxed{{answer}}\n\\]",
    "So the result is \\boxed{{answer}}.",
    "Hence \\boxed{{answer}}.",
    "This gives \\boxed{{answer}} as required.",
];

pub(crate) const RESPONSE_CODE: [&str; 6] = [
    "The function applies the stages in the order of the statement.",
    "Each stage becomes one line; the last line returns the number.",
    "This solution follows the description directly and is linear up to sorting.",
    "We go through the list stage by stage.",
    "Below is the complete program.",
    "The code keeps one intermediate list per stage.",
];
