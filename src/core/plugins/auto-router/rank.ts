import type { Endpoint } from '../../catalog/models.ts'
import { type Prices, pricesFor } from '../../catalog/prices.ts'
import type { Choice, Needs } from '../../inference/plan/choices.ts'
import type { TextCall } from '../../language/call.ts'
import { COST_TIERS, type CostTier, type RouterWishes } from '../../language/routing.ts'
import { type Task, thinks } from './task.ts'

/** A choice with what the call would probably cost there, in atto-dollars; null where nobody knows. */
export interface Candidate extends Choice {
  price: number | null
}

/** A candidate among the others: how many percent of them are cheaper. */
export interface Ranked extends Candidate {
  percentile: number
}

/** The tokens that an answer to a task is taken to have: a share of the prompt's, and at least so many. */
const ANSWERS: Record<Task, { least: number; share: number }> = {
  chat: { least: 500, share: 0 },
  vision: { least: 500, share: 0 },
  agentic: { least: 500, share: 0 },
  extraction: { least: 300, share: 0.2 },
  'long-context': { least: 1_000, share: 0 },
  translation: { least: 100, share: 1 },
  summarization: { least: 300, share: 0.2 },
  'creative-writing': { least: 1_500, share: 0 },
  math: { least: 2_000, share: 0 },
  code: { least: 2_000, share: 0.5 },
  reasoning: { least: 2_000, share: 0 },
}

/** The choice with its price for this call, at the cheapest of its endpoints. */
export function priced(
  choice: Choice,
  task: Task,
  { tokens }: Needs,
  { params: { max_tokens } }: TextCall,
): Candidate {
  const { least, share } = ANSWERS[task]
  const answer = Math.min(Math.max(least, share * tokens), max_tokens ?? Number.POSITIVE_INFINITY)
  let price: number | null = null
  for (const { prices } of choice.endpoints) {
    const one = prices && costAt(prices, tokens, answer)
    if (one !== null && (price === null || one < price)) price = one
  }
  return { ...choice, price }
}

function costAt(prices: Prices, prompt: number, answer: number): number {
  const rates = pricesFor(prices, prompt)
  return (
    Number(rates.prompt) * prompt + Number(rates.completion) * answer + Number(rates.request ?? 0n)
  )
}

/** The candidates, the cheapest first. Those at one price have one percentile. */
export function ranked(candidates: Candidate[]): Ranked[] {
  const sorted = candidates.toSorted(
    (a, b) => (a.price ?? 0) - (b.price ?? 0) || compare(a.model.id, b.model.id),
  )
  let cheaper = 0
  return sorted.map((candidate, i) => {
    if (candidate.price !== sorted[cheaper]?.price) cheaper = i
    return { ...candidate, percentile: (100 * cheaper) / sorted.length }
  })
}

const compare = (a: string, b: string) => (a < b ? -1 : Number(a > b))

/** Candidates by what they may cost, and in words what that is. */
export interface Band {
  inside: Ranked[]
  /** Cheaper ones, which stand in where these fail; the dearest first. */
  below: Ranked[]
  tier?: CostTier
  /** The percentile that none is above. */
  ceiling?: number
}

/** What a call without any word of cost may cost, as the public service has it. */
const USUAL_TRADEOFF = 9

/**
 * The candidates of the tier that is asked for, or of the nearest that has any, cheaper ones before dearer ones; else those under the
 * ceiling.
 */
export function bandOf(all: Ranked[], { tier, tradeoff = USUAL_TRADEOFF }: RouterWishes): Band {
  // From 10, the cheapest tenth of the models, to 0, nine tenths.
  if (!tier) return ceilingOf(all, 90 - 8 * tradeoff)
  const wanted = COST_TIERS.indexOf(tier)
  const nearest = COST_TIERS.toSorted((a, b) => distance(a, wanted) - distance(b, wanted))
  const found = nearest.find(one => all.some(candidate => tierOf(candidate) === one)) ?? tier
  const least = COST_TIERS.indexOf(found)
  return {
    tier: found,
    inside: all.filter(candidate => tierOf(candidate) === found),
    below: all.filter(candidate => COST_TIERS.indexOf(tierOf(candidate)) < least).toReversed(),
  }
}

const ceilingOf = (all: Ranked[], ceiling: number): Band => ({
  ceiling,
  inside: all.filter(({ percentile }) => percentile <= ceiling),
  below: [],
})

const tierOf = ({ percentile }: Ranked): CostTier =>
  COST_TIERS[Math.min(Math.floor(percentile / 20), 4)] ?? 'max'

// Of two that are as far away the cheaper.
const distance = (tier: CostTier, wanted: number) => {
  const apart = COST_TIERS.indexOf(tier) - wanted
  return apart <= 0 ? -apart : apart + 0.5
}

/** Tasks that are better done by who thinks first, and those that need not be thought about. */
const THOUGHTFUL: Task[] = ['code', 'math', 'reasoning', 'agentic']
/** An answer that is as long as a story. */
const LONG_ANSWER = 16_000
/** Who is older than the newest by so many seconds is of another generation. */
const GENERATION = 365 * 86_400
/** A context in which a conversation may go on. */
const ROOMY = 100_000

/**
 * The fittest for the task first, by what is known of models and nothing else: who has room for the prompt even if it is as large as it may
 * be; who can do what the task is about, of this generation where anybody can; who has room for the conversation to go on; who is newer, as
 * far as it is known; who is cheaper.
 */
export function fittest(candidates: Ranked[], task: Task, needs: Needs, call: TextCall): Ranked[] {
  const latest = Math.max(...candidates.map(({ model }) => model.created ?? 0)) - GENERATION
  const scored = candidates.map(candidate => ({
    candidate,
    marks: marksOf(candidate, task, needs, call, latest),
  }))
  return scored
    .sort(
      (a, b) =>
        compareMarks(a.marks, b.marks) || compare(a.candidate.model.id, b.candidate.model.id),
    )
    .map(one => one.candidate)
}

/** What speaks for a candidate, the weightiest first; more is better. */
function marksOf(
  candidate: Ranked,
  task: Task,
  { tokens }: Needs,
  call: TextCall,
  latest: number,
): number[] {
  const context = largest(candidate.endpoints, ({ context_length }) => context_length)
  return [
    Number(context > tokens),
    suitability(candidate, task, context, call, latest),
    Number(context >= ROOMY),
    candidate.model.created ?? 0,
    -(candidate.price ?? 0),
  ]
}

function suitability(
  { model, endpoints }: Ranked,
  task: Task,
  context: number,
  call: TextCall,
  latest: number,
): number {
  const { reasoning, created } = model
  if (thinks(call) || (THOUGHTFUL.includes(task) && call.params.reasoning === undefined))
    return Number(reasoning !== null)
  switch (task) {
    case 'long-context':
      return context
    case 'creative-writing':
      return Number(largest(endpoints, endpoint => endpoint.max_completion_tokens) >= LONG_ANSWER)
    default:
      // Who must think first answers late, and yet better than who is long outdated.
      return Number((created ?? 0) >= latest) * 2 + Number(!reasoning?.mandatory)
  }
}

const largest = (endpoints: Endpoint[], of: (endpoint: Endpoint) => number | null) =>
  Math.max(...endpoints.map(endpoint => of(endpoint) ?? 0))

function compareMarks(a: number[], b: number[]): number {
  const at = a.findIndex((mark, i) => mark !== b[i])
  return at === -1 ? 0 : (b[at] ?? 0) - (a[at] ?? 0)
}
