import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Gateway } from '../../src/app/gateway.ts'
import { parseBody } from '../../src/base/body.ts'
import { GatewayError } from '../../src/base/errors.ts'
import type { Json } from '../../src/base/json.ts'
import { getRouterPluginId, MAX_ROUTER_MODELS } from '../../src/engine/plan/router-decision.ts'
import type { Plugin } from '../../src/extensions/plugin.ts'
import { ROUTERS } from '../../src/language/routing.ts'
import type { Rule } from '../../src/limits/policy-world.ts'
import { chat } from '../../src/translation/dialects/chat.ts'
import { PLUGIN_ENTRIES } from '../../src/translation/dialects/plugin-entries.ts'
import { readPlugins } from '../../src/translation/dialects/routing.ts'
import { buildEmbeddingCall, buildTextCall } from '../support/call.ts'
import { freezeDeep } from '../support/freeze.ts'
import { testGateway } from '../support/gateway.ts'
import { createSeededRandom } from '../support/random.ts'
import { messages } from './kind/text.ts'

/** What the suite must be told of a plugin: its options, and what it promises about its choice. */
export interface PluginSample {
  /** An entry with every option, without `id` and `enabled`. */
  entry: Json
  /** What is read of that entry. */
  options: unknown
  /** Whether a router decides the same for the same call; absent if the plugin is no router. */
  isDeterministic?: boolean
  /** The options that need not be whole numbers. */
  fractions?: string[]
}

/** Tests what every plugin promises. Throws if there is no sample of it. */
export function testPlugin(plugin: Plugin, sample: PluginSample | undefined): void {
  if (!sample) throw new Error(`${plugin.id} has no sample in test/suites/plugin`)
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await testGateway({ config: CONFIG, random: createSeededRandom(7) })
  })
  afterAll(() => gateway.close())

  describe(`${plugin.id}: its entry`, () => testEntry(() => gateway, plugin, sample))
  testBefore(plugin, sample)
  test(`${plugin.id}: leaves calls alone that neither name it nor have what it is for`, () =>
    checkIdle(gateway, plugin))

  test(`${plugin.id}: bodies are checked by its schema, if it has one`, () => {
    if (plugin.schema) expect(PLUGIN_ENTRIES).toContain(plugin.schema)
  })

  test(`${plugin.id}: decides if its sample says how`, () => {
    expect(plugin.decide === undefined).toBe(sample.isDeterministic === undefined)
  })
  if (plugin.decide)
    describe(`${plugin.id}: its decision`, () => testDecision(() => gateway, plugin, sample))
}

/** The calls of which no plugin is asked: it says the same of them. */
function checkIdle(gateway: Gateway, { imply, fit, fitsUnasked }: Plugin): void {
  const model = gateway.catalog.models.get('acme/m1')
  if (!model) throw new Error('The model is missing')
  const plain = fc.array(
    messages.filter(({ blocks }) => blocks.every(({ type }) => type !== 'file')),
    { maxLength: 3 },
  )
  fc.assert(
    fc.property(plain, conversation => {
      const call = freezeDeep(buildTextCall({ models: [model.id], messages: conversation }))
      expect(imply?.(gateway, call)).toBeUndefined()
      if (fit && !fitsUnasked?.(model)) expect(fit(call, model, undefined)).toEqual({ call })
    }),
    { numRuns: 50 },
  )
}

/** Values of every type; none of them is a text that an option has a meaning for. */
const VALUES: unknown[] = ['hologram', 7, true, ['hologram'], [7], { hologram: 1 }]
const COUNTS = [-1, -0.5, 1.5, 1e21, 1e308]

function testEntry(
  getGateway: () => Gateway,
  { id }: Plugin,
  { entry, options, fractions = [] }: PluginSample,
) {
  /** Reads an entry as a request has it: the schema first, then the plugin. */
  const read = (more: Json) => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    const plugins = [{ id, ...more }]
    const parsed = parseBody(chat.body, Buffer.from(JSON.stringify({ ...body, plugins })))
    return readPlugins(getGateway(), freezeDeep(parsed as Json & { plugins: unknown[] }).plugins)
  }

  test('is read to the last option, and not changed', () => {
    expect(read(entry)).toEqual({ plugins: { [id]: options } })
  })

  test('needs no option', () => {
    expect(Object.keys(read({}).plugins ?? {})).toEqual([id])
  })

  test('switches the plugin off, whatever its options', () => {
    expect(read({ ...entry, enabled: false })).toEqual({ plugins: { [id]: null } })
  })

  const cases = Object.entries({ ...entry, enabled: true }).flatMap(([name, value]) => [
    ...VALUES.filter(other => getShape(other) !== getShape(value)).map(other => [name, other]),
    ...(typeof value === 'number'
      ? COUNTS.filter(count => count !== 1.5 || !fractions.includes(name)).map(count => [
          name,
          count,
        ])
      : []),
  ]) as [name: string, value: unknown][]
  test.each(cases)('with %s: %j is a 400 that names the field', (name, value) => {
    const thrown = catchError(() => read({ ...entry, [name]: value }))
    expect(thrown).toBeInstanceOf(GatewayError)
    const { status, metadata, message } = thrown as GatewayError
    const field = new RegExp(`^plugins\\.0\\.${name}(\\.|$)`)
    expect([status, metadata.field, message]).toEqual([
      400,
      expect.stringMatching(field),
      expect.stringContaining(`plugins.0.${name}`),
    ])
  })
}

/** Returns the type of a JSON value, and of what a list consists of. */
function getShape(value: unknown): string {
  return Array.isArray(value) ? `array of ${typeof value[0]}` : typeof value
}

function testBefore({ id, before }: Plugin, { options }: PluginSample): void {
  if (!before) return
  const search = { web_search_options: { max_uses: 7 } }
  const calls = [buildTextCall(), buildTextCall({ params: search }), buildEmbeddingCall()]

  test.each(calls)(`${id}: extends a call once, and does not change the one it gets`, call => {
    const extended = freezeDeep(
      before(freezeDeep(structuredClone(call)), freezeDeep({ ...(options as Json) })),
    )
    expect(before(extended, options)).toEqual(extended)
    expect(extended).toMatchObject({ id: call.id, kind: call.kind, models: call.models })
  })
}

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const buildModel = (id: string, usd: number, more: object = {}) => ({
  id,
  context_length: 200_000,
  endpoints: [
    {
      provider: 'one',
      model: 'up',
      usd_per_million_tokens: { prompt: usd, completion: usd },
      ...more,
    },
  ],
})

const FREE = Array.from({ length: 6 }, (_, i) => `acme/gift${i}`)
const PAID = Array.from({ length: 6 }, (_, i) => `acme/m${i}`)
const CONFIG = {
  providers: { one: provider },
  models: [
    ...FREE.map(id => buildModel(id, 0)),
    ...PAID.map((id, i) => buildModel(id, i + 1)),
    { ...buildModel('acme/vectors', 0), output_modalities: ['embeddings'] },
  ],
  web_search: { engines: { exa: { api_key: 'mock' } } },
  server_tools: { fusion: { presets: { 'general-fast': { analysis_models: ['acme/m0'] } } } },
  plugins: {
    moderation: { provider: 'one', model: 'judge' },
    coding_scores: Object.fromEntries([...FREE, ...PAID].map((id, i) => [id, 0.7 + i / 100])),
  },
}

function testDecision(
  getGateway: () => Gateway,
  { id, decide }: Plugin,
  { isDeterministic }: PluginSample,
): void {
  const router = ROUTERS.find(name => getRouterPluginId(name) === id)
  const call = freezeDeep(buildTextCall({ models: [`gateway/${router}`] }))
  const decideFor = (excluded: string[]) => {
    const inputs = { call, byokKeys: [], rules: [buildRule(excluded)], session: null }
    const decision = decide?.(getGateway(), inputs)
    if (!decision) throw new Error(`${id} did not decide`)
    return decision
  }

  test('names only models that exist and are allowed, each once, and no more than a few', () => {
    const { models: known } = getGateway().catalog
    fc.assert(
      fc.property(fc.subarray([...FREE, ...PAID]), excluded => {
        const { models, refusal, stage } = decideFor(excluded)
        expect(models.filter(model => known.get(model.id) !== model)).toEqual([])
        const names = models.map(model => model.id)
        expect(names.filter(name => excluded.includes(name) || name === 'acme/vectors')).toEqual([])
        expect(new Set(names).size).toBe(names.length)
        expect(names.length).toBeLessThanOrEqual(MAX_ROUTER_MODELS)
        expect(refusal === null).toBe(names.length > 0)
        expect([stage.type, stage.name]).toEqual(['plugin', id])
      }),
      { numRuns: 300 },
    )
  })

  test('is a refusal if nothing is allowed, and one model if one is', () => {
    const all = [...FREE, ...PAID]
    expect(decideFor(all)).toMatchObject({ models: [], refusal: { status: 404 } })
    const one = decideFor(all.filter(name => name !== 'acme/gift3'))
    expect(one.models.map(model => model.id)).toEqual(['acme/gift3'])
  })

  test(`is ${isDeterministic ? '' : 'not always '}the same for the same call`, () => {
    const decisions = Array.from({ length: 50 }, () =>
      decideFor(['acme/m0'])
        .models.map(model => model.id)
        .join(' '),
    )
    expect(new Set(decisions).size === 1).toBe(isDeterministic ?? false)
  })
}

const buildRule = (excluded: string[]): Rule => ({
  guardrail_id: 'g',
  field: 'ignored_models',
  excludedBy: 'allowed_models',
  excludes: ({ model }) => excluded.includes(model),
})

function catchError(act: () => unknown): unknown {
  try {
    return act()
  } catch (thrown) {
    return thrown
  }
}
