import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/base/errors.ts'
import { infer } from '../../src/engine/infer.ts'
import { REGIONS, type WebSearch } from '../../src/language/call.ts'
import type { RoutingPreferences } from '../../src/language/routing.ts'
import type { Rule } from '../../src/limits/policy-world.ts'
import { type Send, toIncomingResponse } from '../../src/network/egress.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import type { Endpoint } from '../../src/resources/models/catalog.ts'
import { buildTextCall } from '../support/call.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { decodeOutgoing } from '../support/outgoing.ts'
import { createSeededRandom } from '../support/random.ts'

const CALLS = 3_000
const PROVIDERS = ['a', 'b', 'c', 'd', 'e', 'f']
// The last is known to reason.
const MODELS = ['acme/one', 'acme/two', 'anthropic/claude-haiku-4.5']

/**
 * Endpoints that differ in everything that a constraint can be about. Each is a row of plain facts,
 * which the oracle reads.
 */
const FACTS = MODELS.flatMap((model, m) =>
  PROVIDERS.map((provider, i) => ({
    model,
    provider,
    price: (i + m) % 4,
    region: i % 2 === 0 ? 'us' : 'europe',
    quantization: i % 3 === 0 ? 'fp8' : 'bf16',
    training: (i + m) % 2 === 0,
    retention: i % 3 === 1 ? 0 : 30,
    distillable: m === 1,
    searches: i % 2 === 1,
    reasons: (i + m) % 3 !== 0,
  })),
)

type Fact = (typeof FACTS)[number]

const CONFIG = {
  providers: Object.fromEntries(
    PROVIDERS.map((slug, i) => [
      slug,
      {
        protocol: 'openai-chat',
        base_url: `http://${slug}.test/v1`,
        api_key: 'mock',
        quirks: { web_search: i % 2 === 1 },
      },
    ]),
  ),
  models: MODELS.map(id => ({
    id,
    distillable: id === 'acme/two',
    endpoints: FACTS.filter(({ model }) => model === id).map(
      ({ model, provider, price, region, quantization, training, retention, reasons }) => ({
        provider,
        model,
        region,
        quantization,
        data_policy: { training, retention_days: retention },
        ...(reasons ? {} : { supported_parameters: ['tools', 'web_search_options'] }),
        usd_per_million_tokens: {
          prompt: price,
          completion: price,
          cache_read: price / 2,
          request: price / 1_000,
        },
      }),
    ),
  })),
}

const names = fc.subarray([...PROVIDERS, 'a/us', 'b/us', 'c/fp8', 'd/europe', 'e/bf16', 'nobody'], {
  minLength: 1,
  maxLength: 5,
})

const routing = fc.record(
  {
    order: names,
    only: names,
    ignore: names,
    allow_fallbacks: fc.boolean(),
    data_collection: fc.constantFrom('allow' as const, 'deny' as const),
    zdr: fc.boolean(),
    enforce_distillable_text: fc.boolean(),
    quantizations: fc.subarray(['fp8', 'bf16', 'int4'], { minLength: 1 }),
    max_price: fc.record(
      { prompt: fc.nat(4), completion: fc.nat(4), request: fc.constantFrom(0, 0.002) },
      { requiredKeys: [] },
    ),
    sort: fc.constantFrom(
      'price' as const,
      'throughput' as const,
      'latency' as const,
      'exacto' as const,
    ),
    partition: fc.constantFrom('model' as const, 'none' as const),
    preferred_min_throughput: fc.record({ p50: fc.nat(100) }),
    preferred_max_latency: fc.record({ p90: fc.nat(3) }),
  },
  { requiredKeys: [] },
)

const VARIANTS = [
  'acme/one:nitro',
  'acme/two:floor',
  'acme/one:exacto',
  'acme/two:online',
  ...[':thinking', ':online'].map(one => MODELS[2] + one),
]

const step = fc.record({
  models: fc.shuffledSubarray([...MODELS, ...VARIANTS], { minLength: 1, maxLength: 3 }),
  tools: fc.boolean(),
  webSearch: fc.constantFrom(undefined, undefined, undefined, null, {}, { max_uses: 1 }),
  // Mostly one constraint at a time: all of them at once leave hardly any endpoint.
  routing: fc.oneof(
    routing,
    fc.constant({}),
    fc.record({ only: names }),
    fc.record({ ignore: names, sort: fc.constant('price' as const) }),
  ),
  session_id: fc.constantFrom(null, 's1', 's2'),
  /** What a guardrail forbids: these providers of these models. */
  forbidden: fc.record({
    providers: fc.subarray(PROVIDERS, { maxLength: 3 }),
    models: fc.subarray(MODELS, { maxLength: 1 }),
  }),
  passing: fc.nat(20_000),
})

const ruleOf = ({ providers, models }: { providers: string[]; models: string[] }): Rule => ({
  guardrail_id: 'g',
  field: 'ignored_providers',
  excludedBy: 'allowed_providers',
  excludes: ({ provider, model }: Endpoint) =>
    providers.includes(provider.slug) || models.includes(model),
})

/** The oracle: tells whether the constraints leave the endpoint, by its plain facts. */
function isWished(fact: Fact, wishes: RoutingPreferences): boolean {
  const called = (list: string[]) =>
    [
      fact.provider,
      `${fact.provider}/${fact.region}`,
      `${fact.provider}/${fact.quantization}`,
    ].some(name => list.includes(name))
  const { prompt = 9, completion = 9, request = 9 } = wishes.max_price ?? {}
  return [
    !wishes.only || called(wishes.only),
    !wishes.ignore || !called(wishes.ignore),
    wishes.allow_fallbacks !== false || !wishes.order || called(wishes.order),
    wishes.data_collection !== 'deny' || !fact.training,
    !wishes.zdr || fact.retention === 0,
    !wishes.enforce_distillable_text || fact.distillable,
    !wishes.quantizations || wishes.quantizations.includes(fact.quantization),
    fact.price <= prompt && fact.price <= completion && fact.price / 1_000 <= request,
  ].every(Boolean)
}

/**
 * The variants of a model's first name, and the endpoints that support them: none supports a bound
 * of searches.
 */
function askedOf(fact: Fact, models: string[], webSearch: WebSearch | null | undefined) {
  const variant = models.find(slug => slug.startsWith(fact.model))?.slice(fact.model.length)
  const thinks = variant === ':thinking'
  const searches = webSearch === undefined ? variant === ':online' : webSearch !== null
  return {
    thinks,
    searches,
    isAble: (!thinks || fact.reasons) && (!searches || (fact.searches && !webSearch?.max_uses)),
  }
}

/** Upstreams whose answers are random: good, broken, busy or refusing. */
function drawnUpstreams(random: () => number) {
  const called: string[] = []
  const egress: Send = async ({ url, body }) => {
    const { model, reasoning_effort, web_search_options } = JSON.parse(decodeOutgoing(body))
    const asked = `${reasoning_effort ? ' thinking' : ''}${web_search_options ? ' online' : ''}`
    called.push(`${model} ${new URL(url).host.split('.')[0]}${asked}`)
    const lot = random()
    if (lot < 0.35) return toIncomingResponse(new Response('{}', { status: 500 }))
    if (lot < 0.45)
      return toIncomingResponse(
        new Response('{}', { status: 429, headers: { 'retry-after': '3' } }),
      )
    if (lot < 0.5) return toIncomingResponse(new Response('{}', { status: 400 }))
    if (lot < 0.55) throw new Error('refused')
    return toIncomingResponse(Response.json(lot < 0.75 ? ANSWER : CALLING))
  }
  return { called, egress }
}

const ANSWER = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 10, completion_tokens: 5 },
}

const BROKEN = [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{' } }]
const CALLING = {
  ...ANSWER,
  choices: [
    { index: 0, message: { role: 'assistant', tool_calls: BROKEN }, finish_reason: 'tool_calls' },
  ],
}

test(`in ${CALLS} calls no excluded endpoint is ever called`, async () => {
  const random = createSeededRandom(42)
  const clock = new TestClock()
  const { called, egress } = drawnUpstreams(random)
  const gateway = await testGateway({ config: CONFIG, clock, random, egress })
  const { hash } = await createTestKeys(gateway)
  const actor: Actor = { ...getOperator(gateway), kind: 'inference', key_hash: hash }
  const seen = { refused: 0, answered: 0, failed: 0, thinking: 0, online: 0 }
  await fc.assert(
    fc.asyncProperty(
      step,
      async ({ models, routing, session_id, forbidden, passing, tools, webSearch }) => {
        clock.pass(passing)
        called.length = 0
        gateway.memory.policies.set(hash, {
          bounds: [],
          rules: [ruleOf(forbidden)],
          regions: [...REGIONS],
        })
        const call = buildTextCall({
          id: gateway.ids.generation(clock.now()),
          ...{ models, routing, session_id },
          tools: tools ? [{ type: 'function', name: 'f' }] : [],
          ...(webSearch === undefined ? {} : { plugins: { web: webSearch } }),
        })
        const outcome = await infer(gateway, actor, 'text', call, new AbortController().signal)
          .then(answer => answer.parts.collect())
          .catch(thrown => GatewayError.from(thrown))

        const wanted = new Set(models.map(slug => slug.split(':')[0] ?? ''))
        const may = FACTS.filter(
          fact =>
            wanted.has(fact.model) &&
            isWished(fact, routing) &&
            askedOf(fact, models, webSearch).isAble &&
            !forbidden.providers.includes(fact.provider) &&
            !forbidden.models.includes(fact.model),
        ).map(fact => {
          const { thinks, searches } = askedOf(fact, models, webSearch)
          const variants = `${thinks ? ' thinking' : ''}${searches ? ' online' : ''}`
          return `${fact.model} ${fact.provider}${variants}`
        })

        expect(called.filter(one => !may.includes(one))).toEqual([])
        expect(new Set(called).size).toBe(called.length)
        // Every endpoint that may be called is: no cooldown excludes one for ever.
        expect(called.length > 0).toBe(may.length > 0)
        if (called.some(one => one.includes(' thinking'))) seen.thinking += 1
        if (called.some(one => one.includes(' online'))) seen.online += 1
        if (!(outcome instanceof GatewayError)) seen.answered += 1
        else if (may.length === 0) seen.refused += 1
        else seen.failed += 1
      },
    ),
    { numRuns: CALLS },
  )
  await gateway.close()
  // Each kind of end and of call occurred, or little would have been shown.
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(CALLS / 50)
})
