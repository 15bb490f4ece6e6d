import { describe, expect, test } from 'bun:test'
import { kinds } from '../../../src/engine/kinds.ts'
import type { Kind } from '../../../src/language/work.ts'
import { buildTrace } from '../../../src/observability/destinations/build-trace.ts'
import type {
  ExportedAttempt,
  ExportedCall,
  ExportedStep,
} from '../../../src/observability/destinations/exported-call.ts'
import { KINDS } from '../../../src/observability/destinations/registry.ts'
import type { Trace, TraceFacts } from '../../../src/observability/destinations/trace.ts'
import { SAMPLES, WORLD } from '../../support/destination-samples.ts'
import { createSeededIntegers, SEED } from '../../support/random.ts'
import { listMistold } from '../../support/told-fields.ts'
import { FACTS, TRACE } from '../../support/trace-samples.ts'

const UNPRICED = { inputCost: null, outputCost: null, totalCost: null }
const FREE = { inputCost: 0, outputCost: 0, totalCost: 0 }
const FAILED = { error: { type: 'timeout', message: 'Too late' }, finishReason: null }

const VARIATIONS: [what: string, more: Partial<TraceFacts>][] = [
  ...(Object.keys(kinds) as Kind[]).map((kind): [string, Partial<TraceFacts>] => [kind, { kind }]),
  ['a model without a price', UNPRICED],
  ['a call by the caller’s own key', FREE],
  ['a failure', FAILED],
  ['a call that its client left', { error: { type: 'cancelled', message: 'Left' } }],
  ['no user and no session', { userId: null, sessionId: null }],
]

/** A trace of these facts, whose spans fail as they do. */
const toTrace = (facts: TraceFacts): Trace => ({
  ...TRACE,
  facts,
  spans: TRACE.spans.map(span => (span.role === 'root' ? { ...span, error: facts.error } : span)),
})

describe.each(KINDS.map(kind => [kind.type, kind] as const))('%s', (type, kind) => {
  test.each(VARIATIONS)('has every field of the record: %s', (_, more) => {
    const facts = { ...FACTS, ...more }
    const { body } = kind.render(WORLD, SAMPLES[type].least as never, [toTrace(facts)])
    expect(listMistold(kind, body, facts)).toEqual([])
  })
})

const ALL = {
  ...{ broadcast_generation_cost: false, broadcast_generation_identity: false },
  ...{ broadcast_generation_request_context: false, privacy_mode: true },
}

/** A call whose times are any: clocks go back, and events come in any order. */
function createAnyCall(draw: (below: number) => number): ExportedCall {
  const moment = () => 1_000_000 + draw(2_000) + draw(1_000) / 1_000
  const error = () => (draw(2) === 0 ? null : { type: 'timeout', message: 'Too late' })
  const steps = Array.from(
    { length: draw(4) },
    (_, i): ExportedStep => ({
      ...{ type: draw(2) === 0 ? 'model' : 'tool', name: 'x', error: error() },
      within: i > 0 && draw(2) === 0 ? draw(i) : null,
      ...{ startedAt: moment(), endedAt: moment(), promptTokens: 1, completionTokens: 1 },
    }),
  )
  const attempts = Array.from(
    { length: draw(4) },
    (): ExportedAttempt => ({
      ...{ step: draw(Math.max(1, steps.length)), provider: 'p', slug: 'p', model: 'm' },
      ...{ endpoint_id: 'p/m', is_byok: false, status: 200, request_id: null, error: error() },
      ...{ latency: 5, startedAt: moment(), answeredAt: moment() },
      endedAt: draw(2) === 0 ? null : moment(),
    }),
  )
  const trace = draw(2) === 0 ? null : { span_name: 'mine' }
  const facts = { ...FACTS, startedAt: moment(), endedAt: moment() }
  return {
    ...{ id: 'gen-1', workspace_id: '', key_hash: null, region: 'global', session_id: null },
    ...{ facts, input: null, output: null, trace, attempts, steps, groups: {} },
  }
}

test('a child lies inside its parent, whatever the times of its call are', () => {
  const draw = createSeededIntegers(SEED)
  for (let i = 0; i < 2_000; i++) {
    const { spans } = buildTrace(createAnyCall(draw), ALL)
    const known = new Map(spans.map(span => [span.spanId, span]))
    for (const { parentSpanId, startedAt, endedAt, role } of spans) {
      expect(endedAt).toBeGreaterThanOrEqual(startedAt)
      const parent = known.get(parentSpanId ?? '')
      expect(parent === undefined).toBe(role === 'root')
      if (!parent) continue
      expect(startedAt).toBeGreaterThanOrEqual(parent.startedAt)
      expect(endedAt).toBeLessThanOrEqual(parent.endedAt)
    }
  }
})
