import { expect, test } from 'bun:test'
import type { Task } from '../../../../src/extensions/plugins/auto-router.ts'
import {
  orderByFitness,
  type RankedCandidate,
  rankCandidates,
} from '../../../../src/extensions/plugins/auto-router.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Endpoint, Model } from '../../../../src/resources/models/catalog.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'

const candidate = (
  id: string,
  endpoint: Partial<Endpoint> = {},
  model: Partial<Model> = {},
  price = 1,
): RankedCandidate => {
  const endpoints = [
    buildEndpoint({
      model: id,
      context_length: 128_000,
      max_completion_tokens: 8_000,
      ...endpoint,
    }),
  ]
  const plain = {
    id,
    name: id,
    description: '',
    created: 1,
    context_length: null,
    input_modalities: ['text'],
    refused_modalities: [],
    output_modalities: ['text'],
  }
  return {
    model: { ...plain, reasoning: null, endpoints, ...model },
    endpoints,
    price,
    percentile: 0,
  }
}

/**
 * Orders two candidates by a task and the prompt’s tokens, in both input orders, so that their
 * position has no effect.
 */
function order(
  first: RankedCandidate,
  second: RankedCandidate,
  task: Task = 'chat',
  tokens = 1_000,
  call: Partial<TextCall> = {},
): string[] {
  const requirements = {
    tokens,
    contextLength: 1,
    leastTokens: 0,
    inputs: [],
    outputs: ['text'],
    parameters: [],
  }
  const [one, other] = [
    [first, second],
    [second, first],
  ].map(all =>
    orderByFitness(all, task, requirements, buildTextCall(call)).map(({ model }) => model.id),
  )
  expect(one).toEqual(other ?? [])
  return one ?? []
}

const thinker = (mandatory: boolean) => candidate('b', {}, { reasoning: { mandatory } })

const ROWS: [
  name: string,
  better: RankedCandidate,
  worse: RankedCandidate,
  task?: Task,
  tokens?: number,
][] = [
  [
    'who surely has room for the prompt',
    candidate('b', { context_length: 40_000 }),
    candidate('a', { context_length: 30_000 }, { created: 9 }),
    'chat',
    35_000,
  ],
  [
    'who has room for the conversation to go on',
    candidate('b'),
    candidate('a', { context_length: 99_999 }, { created: 9 }),
  ],
  [
    'whose context is known',
    candidate('b'),
    candidate('a', { context_length: null }, { created: 9 }),
  ],
  ['the newer', candidate('b', {}, { created: 2 }, 5), candidate('a')],
  ['whose release is known', candidate('b', {}, {}, 5), candidate('a', {}, { created: null })],
  ['the cheaper', candidate('b', {}, {}, 0.5), candidate('a')],
  ['who comes first by name', candidate('a'), candidate('b')],
  ['who thinks, for code', thinker(false), candidate('a', {}, { created: 9 }), 'code'],
  ['who thinks, even if he must', thinker(true), candidate('a', {}, { created: 9 }), 'math'],
  ['who thinks, for tools', thinker(false), candidate('a', {}, { created: 9 }), 'agentic'],
  [
    'who must think, before who is a year older',
    candidate('b', {}, { created: 40_000_000, reasoning: { mandatory: true } }),
    candidate('a'),
  ],
  [
    'who need not think, for a chat',
    candidate('b'),
    candidate('a', {}, { created: 9, reasoning: { mandatory: true } }),
  ],
  [
    'who reads the most, for a long prompt',
    candidate('b', { context_length: 900_000 }),
    candidate('a', { context_length: 800_000 }, { created: 9 }),
    'long-context',
  ],
  [
    'who writes much, for a story',
    candidate('b', { max_completion_tokens: 16_000 }),
    candidate('a', {}, { created: 9 }),
    'creative-writing',
  ],
]

// Not `test.each`, which would pass a callback to rows with missing fields.
for (const [name, better, worse, task, tokens] of ROWS)
  test(`${name} stands first`, () => {
    expect(order(better, worse, task, tokens)).toEqual([better.model.id, worse.model.id])
  })

test('the caller’s reasoning setting overrules the task’s', () => {
  const plain = candidate('a', {}, { created: 9 })
  expect(
    order(thinker(false), plain, 'chat', 1, { params: { reasoning: { effort: 'high' } } }),
  ).toEqual(['b', 'a'])
  expect(
    order(thinker(true), plain, 'code', 1, { params: { reasoning: { enabled: false } } }),
  ).toEqual(['a', 'b'])
})

test('models of the same price have the same percentile, the share that is cheaper', () => {
  const all = [3, 1, 1, 2].map((price, i) => candidate(`m${i}`, {}, {}, price))
  expect(rankCandidates(all).map(({ model, percentile }) => [model.id, percentile])).toEqual([
    ['m1', 0],
    ['m2', 0],
    ['m3', 50],
    ['m0', 75],
  ])
})
