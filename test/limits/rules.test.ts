import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { planRoute } from '../../src/engine/plan.ts'
import type { TextCall } from '../../src/language/call.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import type { GuardrailChange } from '../../src/limits/guardrails/schema.ts'
import { deleteGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createByokKey, listUsableByokKeys } from '../../src/resources/byok.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { listCallableModels } from '../../src/resources/models.ts'
import { buildTextCall } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'own' }
const endpoint = (
  provider: string,
  retention_days: number | undefined,
  training: boolean,
  price: number | null = 1,
) => ({
  provider,
  model: 'up',
  ...(price === null ? {} : { usd_per_million_tokens: { prompt: price, completion: price } }),
  data_policy: { training, ...(retention_days === undefined ? {} : { retention_days }) },
})
const kept = (slug: string) => endpoint(slug, 30, false)

const CONFIG = {
  providers: Object.fromEntries(
    [
      'anthropic',
      'openai',
      'azure',
      'google',
      'xai',
      'bedrock',
      'vertex',
      'vertex-anthropic',
      'groq',
      'one',
      'two',
    ].map(slug => [slug, provider]),
  ),
  models: [
    {
      id: 'anthropic/claude-opus-4.5',
      endpoints: [
        kept('anthropic'),
        kept('bedrock'),
        kept('vertex-anthropic'),
        kept('one'),
        endpoint('two', 0, false),
      ],
    },
    {
      id: 'openai/gpt',
      endpoints: [kept('openai'), kept('azure'), kept('groq'), endpoint('two', 0, false)],
    },
    { id: 'google/gem', endpoints: [kept('google'), kept('vertex'), endpoint('two', 0, false)] },
    { id: 'x-ai/grok', endpoints: [kept('xai'), endpoint('two', 0, false)] },
    { id: 'acme/small', endpoints: [kept('one'), endpoint('two', 0, false)] },
    { id: 'acme/small:free', endpoints: [endpoint('one', 0, true, 0)] },
    {
      id: 'acme/data',
      endpoints: [
        endpoint('one', 0, true, 0),
        endpoint('two', 0, true, 1),
        endpoint('groq', 0, true, null),
        endpoint('azure', 0, false, 0),
      ],
    },
  ],
}

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway({ config: CONFIG })
})

const id = () => getDefaultGuardrailId(gateway.memory.owner.workspace_id)

beforeEach(async () => {
  if (gateway.memory.guardrails.has(id()))
    await deleteGuardrail(gateway, getOperator(gateway), id())
})

const rule = (change: GuardrailChange) =>
  updateGuardrail(gateway, getOperator(gateway), id(), change)
const plan = (call: Partial<TextCall>) =>
  planRoute(gateway, 'text', buildTextCall(call), {
    byokKeys: listUsableByokKeys(gateway, getOperator(gateway)),
    rules: getPolicy(gateway, getOperator(gateway)).rules,
  })

/**
 * Returns the endpoints that may serve the model under this name, or the message of the refusal.
 */
function serving(model: string, more: Partial<TextCall> = {}): string[] | string {
  try {
    return plan({ models: [model], ...more }).endpoints.map(one => one.provider.slug)
  } catch (thrown) {
    return GatewayError.from(thrown).message
  }
}

function refusal(call: Partial<TextCall>): GatewayError {
  try {
    plan(call)
  } catch (thrown) {
    return GatewayError.from(thrown)
  }
  throw new Error('It was planned')
}

describe('models', () => {
  const NAMES = [
    'anthropic/claude-opus-4.5',
    'anthropic/claude-opus-4-5',
    'anthropic/claude-opus-4-5-20251101',
  ]

  test.each(NAMES)('listed as %s match every name', async name => {
    await rule({ allowed_models: [name] })
    for (const said of NAMES) expect(serving(said)).toContain('anthropic')
    expect(serving('acme/small')).toBe(
      'No endpoints found for acme/small: excluded by allowed_models of a guardrail.',
    )
    await rule({ allowed_models: null, ignored_models: [name] })
    for (const said of NAMES)
      expect(serving(said)).toBe(
        `No endpoints found for ${said}: excluded by ignored_models of a guardrail.`,
      )
  })

  test('that are ignored include their variants; an allowlist allows what it names', async () => {
    await rule({ ignored_models: ['acme/small'] })
    expect([serving('acme/small'), serving('acme/small:free')]).toEqual([
      expect.stringContaining('ignored_models'),
      expect.stringContaining('ignored_models'),
    ])
    await rule({ ignored_models: ['acme/small:free'] })
    expect([serving('acme/small'), serving('acme/small:free')]).toEqual([
      ['one', 'two'],
      expect.stringContaining('ignored_models'),
    ])
    await rule({ ignored_models: null, allowed_models: ['acme/small'] })
    expect([serving('acme/small'), serving('acme/small:free')]).toEqual([
      ['one', 'two'],
      expect.stringContaining('allowed_models'),
    ])
  })

  test('follow the same rules as fallbacks', async () => {
    await rule({ ignored_models: ['acme/small'] })
    expect(plan({ models: ['acme/small', 'x-ai/grok'] }).endpoints.map(one => one.model)).toEqual([
      'x-ai/grok',
      'x-ai/grok',
    ])
  })
})

describe('providers', () => {
  test.each(['google', 'google-ai-studio', 'Google AI Studio', 'GOOGLE'])(
    'match %s',
    async name => {
      await rule({ ignored_providers: [name] })
      expect(serving('google/gem')).toEqual(['vertex', 'two'])
      await rule({ ignored_providers: null, allowed_providers: [name] })
      expect(serving('google/gem')).toEqual(['google'])
    },
  )

  test('match all variants of a base slug', async () => {
    await rule({ ignored_providers: ['google-vertex'] })
    expect([serving('google/gem'), serving('anthropic/claude-opus-4.5')]).toEqual([
      ['google', 'two'],
      ['anthropic', 'bedrock', 'one', 'two'],
    ])
  })

  test('that are not configured allow nothing', async () => {
    await rule({ allowed_providers: ['ai21'] })
    expect(refusal({})).toMatchObject({
      status: 404,
      type: 'not_found',
      message: 'No endpoints found for acme/small: excluded by allowed_providers of a guardrail.',
      metadata: {
        excluded_by: ['allowed_providers'],
        guardrails: [{ guardrail_id: id(), field: 'allowed_providers' }],
      },
    })
  })

  test('with a caller’s own key follow them as well', async () => {
    const { data } = await createByokKey(gateway, getOperator(gateway), {
      provider: 'one',
      key: 'sk-mine-0123456789',
    })
    expect(plan({}).endpoints.map(one => `${one.provider.slug} ${one.is_byok}`)).toEqual([
      'one true',
      'one false',
      'two false',
    ])
    await rule({ ignored_providers: ['one'] })
    expect(serving('acme/small')).toEqual(['two'])
    gateway.memory.byok.delete(data.id)
  })
})

describe('X-18 zero data retention', () => {
  const MODELS = [
    'anthropic/claude-opus-4.5',
    'openai/gpt',
    'google/gem',
    'x-ai/grok',
    'acme/small',
  ]
  const all = {
    'anthropic/claude-opus-4.5': ['anthropic', 'bedrock', 'vertex-anthropic', 'one', 'two'],
    'openai/gpt': ['openai', 'azure', 'groq', 'two'],
    'google/gem': ['google', 'vertex', 'two'],
    'x-ai/grok': ['xai', 'two'],
    'acme/small': ['one', 'two'],
  }

  test.each([
    ['anthropic', { 'anthropic/claude-opus-4.5': ['bedrock', 'vertex-anthropic', 'two'] }],
    ['openai', { 'openai/gpt': ['azure', 'two'] }],
    ['google', { 'google/gem': ['vertex', 'two'] }],
    ['xai', { 'x-ai/grok': ['two'] }],
    ['other', { 'acme/small': ['two'] }],
  ])('of %s leaves endpoints without retention, and the exempt clouds', async (group, left) => {
    await rule({ [`enforce_zdr_${group}`]: true })
    expect(Object.fromEntries(MODELS.map(model => [model, serving(model)]))).toEqual({
      ...all,
      ...left,
    })
    await rule({ [`enforce_zdr_${group}`]: false })
    expect(Object.fromEntries(MODELS.map(model => [model, serving(model)]))).toEqual(all)
  })

  test('is reported under the group that requires it', async () => {
    await rule({ enforce_zdr: true, ignored_providers: ['two'] })
    expect(refusal({ models: ['x-ai/grok'] })).toMatchObject({
      status: 404,
      message:
        'No endpoints found for x-ai/grok: ' +
        'excluded by enforce_zdr_xai and ignored_providers of guardrails.',
      metadata: { excluded_by: ['data_policy:zdr', 'allowed_providers'] },
    })
  })

  test('is required by either the call or a guardrail', async () => {
    await rule({ enforce_zdr_anthropic: true })
    expect(serving('anthropic/claude-opus-4.5', { routing: { zdr: true } })).toEqual(['two'])
    expect(serving('acme/small', { routing: { zdr: true } })).toEqual(['two'])
  })
})

describe('X-18 training', () => {
  test.each([
    [{ enable_free_model_training: false }, ['two', 'azure']],
    [{ enable_free_model_publication: false }, ['two', 'azure']],
    [{ enable_paid_model_training: false }, ['one', 'azure']],
    [{ enable_paid_model_training: false, enable_free_model_training: false }, ['azure']],
    [
      { enable_paid_model_training: true, enable_free_model_training: null },
      ['one', 'two', 'groq', 'azure'],
    ],
  ])('%j leaves %j: without a price an endpoint may be free or paid', async (change, left) => {
    await rule(change)
    expect(serving('acme/data')).toEqual(left)
  })
})

describe('the reasons', () => {
  test('name a guardrail only if the call had an endpoint without it', async () => {
    await rule({ ignored_providers: ['two'] })
    expect(serving('acme/small', { routing: { only: ['two'] } })).toContain(
      'ignored_providers of a guardrail',
    )
    expect(serving('acme/small', { routing: { only: ['azure'] } })).toContain('provider.only')
    const { metadata } = refusal({ routing: { only: ['azure'] } })
    expect([metadata.excluded_by, metadata.guardrails]).toEqual([['allowed_providers'], undefined])
  })

  test('name the rule of every excluded endpoint', async () => {
    await rule({ allowed_providers: ['two'], enforce_zdr_other: true })
    expect(
      plan({}).dropped.map(({ endpoint, excludedBy, rule }) => [
        endpoint.provider.slug,
        excludedBy,
        rule?.field,
        rule?.guardrail_id,
      ]),
    ).toEqual([['one', 'allowed_providers', 'allowed_providers', id()]])
  })

  test('the listed models are those that the rules leave', async () => {
    await rule({
      allowed_models: ['acme/small', 'acme/small:free', 'openai/gpt'],
      enforce_zdr_openai: true,
      ignored_providers: ['two', 'azure'],
    })
    const { data } = listCallableModels(gateway, {}, getPolicy(gateway, getOperator(gateway)).rules)
    const routers = [
      'gateway/auto',
      'gateway/auto-beta',
      'gateway/free',
      'gateway/switchyard',
      'gateway/bodybuilder',
    ]
    expect(data.map(model => model.id)).toEqual(['acme/small', 'acme/small:free', ...routers])
  })
})
