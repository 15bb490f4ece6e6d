import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { createPlan, type Plan } from '../../src/engine/plan.ts'
import {
  addRoutingToError,
  buildRoutingMetadata,
  type RoutingOutcome,
  type RoutingSummary,
  renderRouting,
} from '../../src/engine/routing-metadata.ts'
import type { Attempt } from '../../src/engine/run.ts'
import type { Endpoint, Model } from '../../src/resources/models/catalog.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../support/call.ts'

const at = (name: string, more: Partial<Endpoint> = {}) =>
  buildEndpoint({ provider: buildProvider({ slug: name.toLowerCase(), name }), ...more })
const FIRST = at('First')
const SECOND = at('Second')
const OTHER = at('Other', { model: 'acme/other' })

const BUSY = new GatewayError('rate_limit_exceeded', 'busy')
const BROKEN = new GatewayError('provider_unavailable', 'broken')

const tried = (
  endpoint: Endpoint,
  error: GatewayError | null = null,
  status: number | null = error ? null : 200,
): Attempt => ({
  endpoint,
  latency: 1,
  status,
  request_id: null,
  error,
  sentAt: null,
  decidedAt: null,
  isTaken: false,
})

/** A plan of these endpoints, for `acme/small` as the first model. */
const planOf = (endpoints: Endpoint[], more: Partial<Plan> = {}): Plan => ({
  ...createPlan(endpoints),
  models: [
    {
      model: { id: 'acme/small' } as Model,
      sort: undefined,
      stages: [],
      effectiveCall: buildTextCall(),
    },
  ],
  ...more,
})

const WISH = { field: 'gateway_metadata', requestedModel: 'acme/small' }

const routed = (
  attempts: Attempt[],
  plan = planOf([FIRST, SECOND]),
  call = {},
): RoutingSummary => ({
  call: buildTextCall({ routingMetadata: WISH, ...call }),
  plan,
  attempts,
  filtering: null,
  toolLoop: null,
})

const good = (endpoint: Endpoint): RoutingOutcome => ({
  endpoint,
  isGood: true,
  error: null,
  generation_time: 12.4,
})

const failed = (error: GatewayError, endpoint: Endpoint | null = null): RoutingOutcome => ({
  endpoint,
  isGood: false,
  error,
  generation_time: null,
})

const told = (call: RoutingSummary, outcome: RoutingOutcome) =>
  buildRoutingMetadata('acme/small', call, outcome)

test('an answer at the first attempt', () => {
  expect(told(routed([tried(FIRST)]), good(FIRST))).toEqual({
    requested: 'acme/small',
    strategy: 'direct',
    region: 'global',
    summary: 'available=2, selected=First',
    attempt: 1,
    is_byok: false,
    endpoints: {
      total: 2,
      available: [
        { provider: 'First', model: 'acme/small', selected: true },
        { provider: 'Second', model: 'acme/small', selected: false },
      ],
    },
    attempts: [{ provider: 'First', model: 'acme/small', status: 200 }],
    generation_time: 12,
  })
})

describe('attempts', () => {
  test('that failed come first, each with the status that tells of it', () => {
    const attempts = [tried(FIRST, BUSY, 429), tried(SECOND)]
    expect(told(routed(attempts), good(SECOND))).toMatchObject({
      attempt: 2,
      summary: 'available=2, selected=Second',
      endpoints: { available: [{ selected: false }, { selected: true }] },
      attempts: [
        { provider: 'First', status: 429 },
        { provider: 'Second', status: 200 },
      ],
    })
  })

  test.each<[what: string, Attempt, status: number]>([
    [
      'without an answer has the status of its failure',
      tried(FIRST, new GatewayError('timeout', 'late')),
      524,
    ],
    ['with an error inside a good answer too', tried(FIRST, BROKEN, 200), 502],
    ['with a bad status has that', tried(FIRST, BROKEN, 401), 401],
  ])('one %s', (_, attempt, status) => {
    expect(told(routed([attempt]), failed(BROKEN))).toMatchObject({
      attempt: 1,
      attempts: [{ status }],
    })
  })

  test('of which one lost a race: the one that served is counted', () => {
    const left = new GatewayError('cancelled', 'Another was faster')
    expect(told(routed([tried(SECOND), tried(FIRST, left)]), good(SECOND))).toMatchObject({
      attempt: 1,
      attempts: [{ status: 200 }, { status: 499 }],
    })
  })

  test.each([null, 200])(
    'of which one still runs, with status %p: it counts as closed by the client',
    status => {
      const attempts = [tried(FIRST, null, status), tried(SECOND)]
      expect(told(routed(attempts), good(SECOND))).toMatchObject({
        attempt: 2,
        attempts: [{ status: 499 }, { status: 200 }],
      })
    },
  )

  test('none: nothing was sent', () => {
    const metadata = told(
      routed([], planOf([], { dropped: [{ endpoint: FIRST, excludedBy: 'quantization' }] })),
      failed(BROKEN),
    )
    expect(metadata).toMatchObject({
      attempt: 0,
      summary: 'available=0',
      endpoints: { total: 1, available: [] },
      is_byok: false,
    })
    expect(metadata).not.toHaveProperty('attempts')
    expect(metadata).not.toHaveProperty('generation_time')
  })
})

describe('an answer that breaks off', () => {
  test('has selected no endpoint, and its attempt has the status of the failure', () => {
    expect(told(routed([tried(FIRST)]), failed(BROKEN, FIRST))).toMatchObject({
      summary: 'available=2',
      attempt: 1,
      endpoints: { available: [{ selected: false }, { selected: false }] },
      attempts: [{ status: 502 }],
    })
  })

  test('by a content filter keeps the status that its provider gave', () => {
    const blocked = new GatewayError('permission_denied', 'Response blocked')
    expect(told(routed([tried(FIRST)]), failed(blocked, FIRST))).toMatchObject({
      attempt: 1,
      attempts: [{ status: 200 }],
    })
  })
})

describe('the strategy', () => {
  test.each(['direct', 'alias', 'latest'] as const)(
    '%s becomes fallback if a later model serves',
    strategy => {
      const plan = planOf([FIRST, OTHER], { strategy })
      expect(told(routed([tried(FIRST)], plan), good(FIRST)).strategy).toBe(strategy)
      expect(told(routed([tried(FIRST, BUSY), tried(OTHER)], plan), good(OTHER)).strategy).toBe(
        'fallback',
      )
      expect(told(routed([tried(FIRST, BUSY)], plan), failed(BUSY)).strategy).toBe(strategy)
    },
  )

  test.each(['auto', 'free'] as const)('%s stays, whichever model serves', strategy => {
    const call = routed([tried(OTHER)], planOf([OTHER], { strategy }), {
      models: [`gateway/${strategy}`],
    })
    expect(told(call, good(OTHER)).strategy).toBe(strategy)
  })
})

test('endpoints that were dropped, or not picked, are counted and not named', () => {
  const groups = [{ tiers: [[FIRST, SECOND], []], sort: undefined, stickyEndpointId: undefined }]
  const plan = planOf([FIRST], {
    groups,
    dropped: [{ endpoint: at('Secret'), excludedBy: 'max_price' }],
  })
  const metadata = told(routed([tried(FIRST)], plan), good(FIRST))
  expect(metadata.endpoints).toEqual({
    total: 3,
    available: [{ provider: 'First', model: 'acme/small', selected: true }],
  })
  expect(JSON.stringify(metadata)).not.toContain('Secret')
})

test('of a caller’s and the gateway’s endpoint, the one that served is selected', () => {
  const own = { ...FIRST, is_byok: true }
  const metadata = told(
    routed([tried(own, BUSY, 429), tried(FIRST)], planOf([own, FIRST])),
    good(FIRST),
  )
  expect(metadata).toMatchObject({
    is_byok: false,
    attempt: 2,
    endpoints: { available: [{ selected: false }, { selected: true }] },
  })
  expect(told(routed([tried(own)], planOf([own, FIRST])), good(own)).is_byok).toBe(true)
  expect(told(routed([tried(own, BUSY, 429)], planOf([own])), failed(BUSY)).is_byok).toBe(true)
})

describe('params', () => {
  test.each<[routing: object, params: Record<string, unknown> | undefined]>([
    [{}, undefined],
    [{ only: ['first'] }, undefined],
    [{ preferred_min_throughput: { p50: 40, p90: 10 } }, { throughput_floor: 40 }],
    [{ preferred_min_throughput: { p90: 10 } }, { throughput_floor: 10 }],
    [{ preferred_max_latency: { p50: 2 } }, { latencyCeiling: 2 }],
    [
      { sort: 'price', partition: 'none' },
      { sort: 'price', partition: 'none' },
    ],
  ])('of %j', (routing, params) => {
    expect(told(routed([tried(FIRST)], planOf([FIRST]), { routing }), good(FIRST)).params).toEqual(
      params,
    )
  })
})

test('what a router did is in the pipeline', () => {
  const stage = { type: 'plugin' as const, name: 'auto-router', data: { task_type: 'code' } }
  expect(
    told(routed([tried(FIRST)], planOf([FIRST], { stages: [stage] })), good(FIRST)).pipeline,
  ).toEqual([stage])
})

describe('it is shown', () => {
  const { routingMetadata: _, ...unasked } = buildTextCall({ routingMetadata: WISH })

  test('under the name that the caller asked for, and only to them', () => {
    const call = routed([tried(FIRST)])
    expect(renderRouting(call, good(FIRST))).toEqual({ gateway_metadata: told(call, good(FIRST)) })
    expect(renderRouting({ ...call, call: unasked }, good(FIRST))).toBeUndefined()
  })

  test('beside a copy of the failure, which may have ended other calls too', () => {
    const failure = addRoutingToError(BUSY, routed([tried(FIRST, BUSY)]))
    expect(failure).toMatchObject({
      type: BUSY.type,
      status: 429,
      message: 'busy',
      siblingFields: { gateway_metadata: { attempt: 1 } },
    })
    expect(BUSY.siblingFields).toBeUndefined()
    expect(addRoutingToError(BUSY, { ...routed([]), call: unasked })).toBe(BUSY)
  })

  test('L.1 and not beside a 500', () => {
    const bug = new GatewayError('server', 'Internal Server Error')
    expect(addRoutingToError(bug, routed([tried(FIRST, bug)]))).toBe(bug)
    expect(renderRouting(routed([tried(FIRST)]), failed(bug, FIRST))).toBeUndefined()
  })
})
