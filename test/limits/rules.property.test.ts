import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import type { Plan } from '../../src/engine/plan/candidates.ts'
import { requireService } from '../../src/engine/plan/constraints.ts'
import { planRoute } from '../../src/engine/plan.ts'
import type { RoutingPreferences } from '../../src/language/routing.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { EMPTY_FIELDS, readGuardrailFields } from '../../src/limits/guardrails.ts'
import type { Actor } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import type { Endpoint } from '../../src/resources/models/catalog.ts'
import { buildTextCall } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'
import { LONG } from '../support/random.ts'

const COMBINATIONS = LONG ? 50_000 : 3_000
const CATALOGUES = 25
const SERVICES = LONG ? 10_000 : 1_000

/** Providers by the names that a list may use, in the oracle's own words. */
const PROVIDERS: Record<string, string[]> = {
  anthropic: ['anthropic', 'Anthropic'],
  openai: ['openai', 'OPENAI'],
  azure: ['azure'],
  google: ['google-ai-studio', 'google'],
  xai: ['xai', 'xAI'],
  one: ['one'],
  two: ['two'],
}

/** Who is sent what a call says and serves no models, by the names that a list may use. */
const OTHERS: Record<string, string[]> = {
  mistral: ['mistral', 'Mistral'],
  exa: ['exa', 'Exa'],
  searxng: ['searxng'],
  mcp: ['mcp'],
  mcp_url: ['mcp_url'],
  web: ['web', 'WEB'],
}

const RECEIVERS = { ...PROVIDERS, ...OTHERS }

/** Models by the names that a call or a list may use. */
const MODELS: Record<string, string[]> = {
  'anthropic/claude-opus-4.5': [
    'anthropic/claude-opus-4.5',
    'anthropic/claude-opus-4-5',
    'anthropic/claude-opus-4-5-20251101',
  ],
  'openai/gpt-x': ['openai/gpt-x'],
  'openai/gpt-x:free': ['openai/gpt-x:free'],
  'google/gem': ['google/gem'],
  'x-ai/grok-x': ['x-ai/grok-x'],
  'acme/small': ['acme/small'],
  'acme/small:free': ['acme/small:free'],
}

const slugOf = (table: Record<string, string[]>, name: string) =>
  Object.keys(table).find(slug => table[slug]?.includes(name)) ?? 'none'

const someOf = (names: string[]) => fc.subarray(names, { minLength: 1 })
const listOf = (table: Record<string, string[]>) =>
  fc.option(someOf(Object.values(table).flat()), { freq: 2 })
const flag = fc.constantFrom(null, null, true, false)
const ZDR = { anthropic: 'anthropic', openai: 'openai', google: 'google', xai: 'x-ai' } as const

const guardrail = fc.record({
  allowed_models: listOf(MODELS),
  ignored_models: fc.option(
    fc.subarray(Object.values(MODELS).flat(), { minLength: 1, maxLength: 3 }),
    { freq: 2 },
  ),
  allowed_providers: listOf(RECEIVERS),
  ignored_providers: fc.option(
    fc.subarray(Object.values(RECEIVERS).flat(), { minLength: 1, maxLength: 3 }),
    { freq: 2 },
  ),
  enable_free_model_training: flag,
  enable_free_model_publication: flag,
  enable_paid_model_training: flag,
  enforce_zdr_anthropic: flag,
  enforce_zdr_openai: flag,
  enforce_zdr_google: flag,
  enforce_zdr_xai: flag,
  enforce_zdr_other: flag,
})

type Given = typeof guardrail extends fc.Arbitrary<infer T> ? T : never

const catalogue = fc.tuple(
  ...Object.keys(MODELS).map(id =>
    fc
      .uniqueArray(
        fc.record({
          provider: fc.constantFrom(...Object.keys(PROVIDERS)),
          price: fc.constantFrom(undefined, 0, 0, 1),
          training: fc.boolean(),
          retention_days: fc.constantFrom(undefined, 0, 0, 30),
        }),
        { minLength: 1, maxLength: 5, selector: one => one.provider },
      )
      .map(endpoints => ({
        id,
        endpoints: endpoints.map(({ provider, price, ...data_policy }) => ({
          provider,
          model: 'up',
          data_policy: JSON.parse(JSON.stringify(data_policy)),
          ...(price === undefined
            ? {}
            : { usd_per_million_tokens: { prompt: price, completion: price } }),
        })),
      })),
  ),
)

const combination = fc.record({
  catalogue: fc.nat(CATALOGUES - 1),
  // The workspace's default guardrail, the member's and the key's.
  guardrails: fc.tuple(fc.option(guardrail), fc.option(guardrail), fc.option(guardrail)),
  models: fc.uniqueArray(fc.constantFrom(...Object.values(MODELS).flat()), {
    minLength: 1,
    maxLength: 4,
  }),
  routing: fc.record(
    {
      zdr: fc.constant(true),
      data_collection: fc.constant('deny' as const),
      only: fc.subarray(Object.keys(RECEIVERS), { minLength: 4 }),
      ignore: fc.subarray(Object.keys(RECEIVERS), { maxLength: 2 }),
    },
    { requiredKeys: [] },
  ),
})

const openCatalogue = (models: object[]) => {
  const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
  return testGateway({
    config: {
      providers: Object.fromEntries(Object.keys(PROVIDERS).map(slug => [slug, provider])),
      models,
    },
  })
}

/** Puts the guardrails into force, as if they were read from the store. */
async function enforce(gateway: Gateway, actor: Actor, given: (Given | null)[]): Promise<void> {
  gateway.memory.guardrails.deleteWhere(() => true)
  gateway.memory.assignments.deleteWhere(() => true)
  gateway.memory.policies.clear()
  const ids = [getDefaultGuardrailId(actor.workspace_id), 'of-the-member', 'of-the-key']
  for (const [i, one] of given.entries()) {
    if (!one) continue
    const record = {
      id: ids[i] ?? '',
      workspace_id: actor.workspace_id,
      name: 'g',
      revision: 1,
      created_at: '',
      updated_at: null,
    }
    gateway.memory.guardrails.set({
      ...EMPTY_FIELDS,
      ...(await readGuardrailFields(gateway, one)),
      ...record,
    })
  }
  const assigned = (kind: 'key' | 'member', assignee: string, guardrail_id: string) =>
    gateway.memory.assignments.set({
      id: guardrail_id,
      guardrail_id,
      kind,
      assignee,
      assigned_by: null,
      created_at: '',
    })
  assigned('member', actor.user_id, 'of-the-member')
  assigned('key', actor.key_hash ?? '', 'of-the-key')
}

// The oracle: several guardrails by wire reference H.4, united and intersected by hand over the
// catalogue's plain facts.

const intersection = (lists: (string[] | null)[]) =>
  lists
    .filter(list => list !== null)
    .reduce<string[] | null>(
      (all, list) => (all ? all.filter(one => list.includes(one)) : list),
      null,
    )
const union = (lists: (string[] | null)[]) => lists.flatMap(list => list ?? [])

function oracle(given: Given[]) {
  const slugs = (table: Record<string, string[]>, list: string[] | null) =>
    list?.map(name => slugOf(table, name)) ?? null
  const models = intersection(given.map(one => slugs(MODELS, one.allowed_models)))
  const providers = intersection(given.map(one => slugs(RECEIVERS, one.allowed_providers)))
  const noModels = union(given.map(one => slugs(MODELS, one.ignored_models)))
  const noProviders = union(given.map(one => slugs(RECEIVERS, one.ignored_providers)))
  const any = (name: keyof Given, value: boolean) => given.some(one => one[name] === value)
  const noFree =
    any('enable_free_model_training', false) || any('enable_free_model_publication', false)
  const noPaid = any('enable_paid_model_training', false)

  return ({
    model,
    provider: { slug },
    prices,
    data_policy: { training, retention_days },
  }: Endpoint): boolean => {
    if (models && !models.includes(model)) return true
    if (providers && !providers.includes(slug)) return true
    if (
      noModels.includes(model) ||
      noModels.includes(model.split(':')[0] ?? '') ||
      noProviders.includes(slug)
    )
      return true
    if (training && noFree && (!prices || prices.prompt === 0n)) return true
    if (training && noPaid && (!prices || prices.prompt > 0n)) return true
    if (retention_days === 0) return false
    const author = model.split('/')[0]
    const group = Object.entries(ZDR).find(([, of]) => of === author)?.[0] ?? 'other'
    return (
      any(`enforce_zdr_${group}` as keyof Given, true) && !(group === 'openai' && slug === 'azure')
    )
  }
}

const wished =
  ({ zdr, data_collection, only, ignore = [] }: RoutingPreferences) =>
  ({ provider: { slug, configured }, data_policy }: Endpoint) =>
    configured &&
    (only?.includes(slug) ?? true) &&
    !ignore.includes(slug) &&
    !(zdr && data_policy.retention_days !== 0) &&
    !(data_collection === 'deny' && data_policy.training)

const nameOf = ({ model, provider, upstreamModel }: Endpoint) =>
  `${model} ${provider.slug} ${upstreamModel}`

function attempted(plan: () => Plan): Plan | GatewayError {
  try {
    return plan()
  } catch (thrown) {
    return GatewayError.from(thrown)
  }
}

test(`X-16 X-18 a plan has exactly the endpoints that no guardrail excludes (${COMBINATIONS}×)`, async () => {
  const gateways = await Promise.all(fc.sample(catalogue, CATALOGUES).map(openCatalogue))
  let refused = 0
  let planned = 0
  await fc.assert(
    fc.asyncProperty(combination, async ({ catalogue, guardrails, models, routing }) => {
      const gateway = gateways[catalogue] as Gateway
      const actor: Actor = {
        kind: 'inference',
        user_id: 'ada',
        workspace_id: gateway.memory.owner.workspace_id,
        key_hash: 'k',
      }
      await enforce(gateway, actor, guardrails)
      const { rules } = getPolicy(gateway, actor)
      const outcome = attempted(() =>
        planRoute(gateway, 'text', buildTextCall({ models, routing }), { rules }),
      )

      const isExcluded = oracle(guardrails.filter(one => one !== null))
      // Two names of one model count as one, by the first.
      const named = models.flatMap(name => gateway.catalog.models.get(name) ?? [])
      const all = named
        .filter(({ id }, i) => named.findIndex(one => one.id === id) === i)
        .flatMap(model => model.endpoints)
      const wanted = all.filter(wished(routing))
      const expected = wanted.filter(endpoint => !isExcluded(endpoint))

      if (outcome instanceof GatewayError) {
        refused += 1
        expect(expected.map(nameOf)).toEqual([])
        expect([outcome.status, 'guardrails' in outcome.metadata]).toEqual([404, wanted.length > 0])
        return
      }
      planned += 1
      expect(outcome.endpoints.map(nameOf)).toEqual(expected.map(nameOf))
      expect(
        [...outcome.endpoints, ...outcome.dropped.map(one => one.endpoint)].map(nameOf).sort(),
      ).toEqual(all.map(nameOf).sort())
      for (const { endpoint, rule } of outcome.dropped) {
        if (!rule) expect(wished(routing)(endpoint)).toBe(false)
        else expect(isExcluded(endpoint)).toBe(true)
      }
    }),
    { numRuns: COMBINATIONS },
  )
  // Both outcomes must occur, or the test has shown nothing.
  expect(Math.min(refused, planned)).toBeGreaterThan(COMBINATIONS / 20)
})

const service = fc.record({
  provider: fc.constantFrom(...Object.keys(OTHERS), ...Object.keys(PROVIDERS)),
  training: fc.constantFrom(undefined, false, false, true),
  retention_days: fc.constantFrom(undefined, 0, 0, 30),
})

/** What is public of the data of a provider: without it, it trains and keeps. */
const PUBLIC: Record<string, { training: boolean; retention_days: number | null }> = {
  anthropic: { training: false, retention_days: 30 },
  openai: { training: false, retention_days: 30 },
  azure: { training: false, retention_days: 30 },
  xai: { training: false, retention_days: 30 },
  mistral: { training: true, retention_days: 30 },
}

test(`judges, readers, engines, servers and sites are bound as endpoints are (${SERVICES}×)`, async () => {
  const [models = []] = fc.sample(catalogue, 1)
  const gateway = await openCatalogue(models)
  const actor: Actor = {
    kind: 'inference',
    user_id: 'ada',
    workspace_id: gateway.memory.owner.workspace_id,
    key_hash: 'k',
  }
  let [sent, kept] = [0, 0]
  const given = fc.record({ combination, service })
  await fc.assert(
    fc.asyncProperty(given, async ({ combination: { guardrails, models, routing }, service }) => {
      await enforce(gateway, actor, guardrails)
      const { provider, training, retention_days } = service
      const call = buildTextCall({ models, routing })
      const outcome = attempted(() => {
        const data_policy = JSON.parse(JSON.stringify({ training, retention_days }))
        const asked = { name: 'judge', model: 'm', provider, data_policy }
        requireService(gateway, { call, policy: getPolicy(gateway, actor) }, asked)
        return {} as Plan
      })

      const applied = guardrails.flatMap(one => one ?? [])
      const known = PUBLIC[provider] ?? { training: true, retention_days: null }
      const data_policy = {
        training: training ?? known.training,
        retention_days: retention_days ?? known.retention_days,
      }
      const endpoint = { provider: { slug: provider, configured: true }, data_policy, prices: null }
      const withoutModels = applied.map(one => ({
        ...one,
        allowed_models: null,
        ignored_models: null,
      }))
      // It keeps what a model may not keep that the call is for, whoever wrote that.
      const groups = models.map(model => {
        const author = model.split('/')[0]
        return Object.entries(ZDR).find(([, of]) => of === author)?.[0] ?? 'other'
      })
      const isForbidden =
        !wished(routing)(endpoint as Endpoint) ||
        oracle(withoutModels)({ ...endpoint, model: `${provider}/m` } as Endpoint) ||
        (data_policy.retention_days !== 0 &&
          groups.some(of => applied.some(one => one[`enforce_zdr_${of}` as keyof Given] === true)))
      if (isForbidden) kept += 1
      else sent += 1
      expect(outcome instanceof GatewayError ? outcome.status : 200).toBe(isForbidden ? 403 : 200)
    }),
    { numRuns: SERVICES },
  )
  expect(Math.min(sent, kept)).toBeGreaterThan(SERVICES / 20)
})
