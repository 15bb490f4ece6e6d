import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  type Body,
  Cast,
  type Name,
  PLAYERS,
  REASONER,
  REQUEST_FORMS,
} from '../support/preferences.ts'
import { LONG } from '../support/random.ts'

const order = (...names: string[]) => ({ order: names })
/** An order that puts the others first, unless another preference overrules it. */
const rather = { cheap: order('able', 'private'), private: order('able', 'cheap') }

/**
 * Preferences of calls in all dialects, the providers that are down, and the one that answers.
 * Without an order or a sort several could answer.
 */
const WISHES: [name: string, body: Body, down: Name[], answers: Name][] = [
  ['an order', { provider: order('able', 'private') }, [], 'able'],
  ['an order whose first is down', { provider: order('able', 'private') }, ['able'], 'private'],
  [
    'an order of which all are down',
    { provider: order('able', 'private') },
    ['able', 'private'],
    'cheap',
  ],
  ['an order by region', { provider: order('nobody', 'able/europe') }, [], 'able'],
  [
    'an order, and no others',
    { provider: { ...order('private'), allow_fallbacks: false } },
    [],
    'private',
  ],
  ['only one', { provider: { ...rather.private, only: ['private'] } }, [], 'private'],
  [
    'only quantizations of providers',
    { provider: { ...rather.cheap, only: ['cheap/fp8', 'able/fp8'] } },
    [],
    'cheap',
  ],
  ['to ignore two', { provider: { ...rather.private, ignore: ['cheap', 'able'] } }, [], 'private'],
  [
    'to ignore regions',
    { provider: { ...rather.private, ignore: ['cheap/us', 'able/europe'] } },
    [],
    'private',
  ],
  ['a quantization', { provider: { ...rather.cheap, quantizations: ['fp8'] } }, [], 'cheap'],
  ['the cheapest', { provider: { sort: 'price' } }, [], 'cheap'],
  ['the cheapest, which is down', { provider: { sort: 'price' } }, ['cheap'], 'private'],
  [
    'the cheapest, as an object',
    { provider: { sort: { by: 'price', partition: 'model' } } },
    ['cheap'],
    'private',
  ],
  ['the cheapest, by its model’s variant', { model: 'acme/small:floor' }, [], 'cheap'],
  [
    'the best at calling tools, the cheapest while none is known',
    { provider: { sort: 'exacto' } },
    [],
    'cheap',
  ],
  ['the same by its model’s variant', { model: 'acme/small:exacto' }, ['cheap'], 'private'],
  [
    'providers that do not train',
    { provider: { data_collection: 'deny', sort: 'price' } },
    [],
    'private',
  ],
  [
    'providers that may train',
    { provider: { data_collection: 'allow', sort: 'price' } },
    [],
    'cheap',
  ],
  ['providers that retain nothing', { provider: { ...rather.private, zdr: true } }, [], 'private'],
  [
    'distillable text',
    { model: 'acme/taught', provider: { enforce_distillable_text: true } },
    [],
    'able',
  ],
  [
    'a price of the prompt',
    { provider: { ...rather.cheap, max_price: { prompt: 1 } } },
    [],
    'cheap',
  ],
  [
    'the same as a string',
    { provider: { ...rather.cheap, max_price: { prompt: '1.5' } } },
    [],
    'cheap',
  ],
  [
    'a price of the completion',
    { provider: { ...rather.cheap, max_price: { completion: 1 } } },
    [],
    'cheap',
  ],
  [
    'the same as a string',
    { provider: { ...rather.cheap, max_price: { completion: '1' } } },
    [],
    'cheap',
  ],
  [
    'no price for a request',
    { provider: { max_price: { request: 0 }, sort: 'price' } },
    [],
    'private',
  ],
  [
    'the same as a string',
    { provider: { max_price: { request: '0.009' }, sort: 'price' } },
    [],
    'private',
  ],
  [
    'a price of an image',
    { model: 'acme/seeing', provider: { ...rather.cheap, max_price: { image: 0.005 } } },
    [],
    'cheap',
  ],
  [
    'the same as a string',
    { model: 'acme/seeing', provider: { ...rather.cheap, max_price: { image: '0.0048' } } },
    [],
    'cheap',
  ],
  [
    'a price of audio',
    { provider: { ...rather.cheap, max_price: { audio: 0.000001 } } },
    [],
    'cheap',
  ],
  [
    'the same as a string',
    { provider: { ...rather.cheap, max_price: { audio: '0.0000015' } } },
    [],
    'cheap',
  ],
  // Combinations without contradictions.
  [
    'an order of which only some are allowed',
    { provider: { ...order('able', 'cheap'), only: ['cheap', 'private'] } },
    [],
    'cheap',
  ],
  [
    'the cheapest of those that are not ignored',
    { provider: { sort: 'price', ignore: ['cheap'] } },
    [],
    'private',
  ],
  [
    'zero data retention, below a price',
    { provider: { zdr: true, max_price: { prompt: 2, completion: '2' } } },
    [],
    'private',
  ],
  [
    'an order without fallbacks, its first ignored',
    { provider: { ...order('able', 'private'), ignore: ['able'], allow_fallbacks: false } },
    [],
    'private',
  ],
  [
    'an order, which overrules a sort',
    { provider: { ...order('able'), sort: 'price' } },
    [],
    'able',
  ],
  [
    'a sort, which overrules its model’s variant',
    { model: 'acme/small:nitro', provider: { sort: 'price' } },
    [],
    'cheap',
  ],
  [
    'an order, which overrules its model’s variant',
    { model: 'acme/small:floor', provider: order('able') },
    [],
    'able',
  ],
  [
    'a quantization below a price',
    { provider: { quantizations: ['unknown'], max_price: { prompt: 2 } } },
    [],
    'private',
  ],
  [
    'the cheapest of those that do not train, one of them down',
    { provider: { sort: 'price', data_collection: 'deny' } },
    ['private'],
    'able',
  ],
]

/** Preferences that embeddings lack: other models, tools, parameters, sessions, variants. */
const WISHES_OF_TEXT: [name: string, body: Body, down: Name[], answers: Name][] = [
  [
    'the cheapest over all models',
    {
      models: ['acme/small'],
      model: 'acme/taught',
      provider: { sort: { by: 'price', partition: 'none' } },
    },
    [],
    'cheap',
  ],
  [
    'the same by its old name',
    { models: ['acme/small'], model: 'acme/taught', route: 'sort', provider: { sort: 'price' } },
    [],
    'cheap',
  ],
  [
    'one model after the other',
    {
      models: ['acme/small'],
      model: 'acme/taught',
      route: 'fallback',
      provider: { sort: 'price' },
    },
    [],
    'able',
  ],
  [
    'a fallback model, as the first is down',
    { models: ['acme/small'], model: 'acme/taught', provider: { sort: 'price' } },
    ['able'],
    'cheap',
  ],
  ['required parameters', { top_k: 5, provider: { require_parameters: true } }, [], 'able'],
  [
    'required parameters, at any price',
    { top_k: 5, provider: { require_parameters: true, sort: 'price' } },
    [],
    'able',
  ],
  ['nothing, but brings a tool', { tool: true }, [], 'able'],
  ['the cheapest, and brings a tool', { tool: true, provider: { sort: 'price' } }, [], 'cheap'],
  ['an order, and is in a session', { session_id: 's', provider: order('private') }, [], 'private'],
  ['a model that reasons', { model: `${REASONER}:thinking` }, [], 'able'],
  ['an answer from the web', { model: 'acme/small:online' }, [], 'able'],
  ['the same by the plugin', { plugins: [{ id: 'web', engine: 'native' }] }, [], 'able'],
  [
    'none from the web',
    { plugins: [{ id: 'web', enabled: false }], provider: { sort: 'price' } },
    [],
    'cheap',
  ],
]

/** Contradictions, and the error that names the preference which removed the last endpoint. */
const IMPOSSIBLE: [name: string, body: Body, named: string][] = [
  [
    'an unknown provider',
    { provider: { only: ['nobody'] } },
    'provider.only, provider.ignore and provider.order leave no provider that serves it; ' +
      'here it is served by cheap, private, able',
  ],
  [
    'only an ignored provider',
    { provider: { only: ['cheap'], ignore: ['cheap'] } },
    'provider.only, provider.ignore and provider.order',
  ],
  [
    'to ignore all providers',
    { provider: { ignore: ['cheap', 'private', 'able'] } },
    'provider.only, provider.ignore and provider.order',
  ],
  [
    'an order without fallbacks, all ignored',
    { provider: { ...order('able'), ignore: ['able'], allow_fallbacks: false } },
    'provider.order',
  ],
  [
    'an order of unknown providers, without fallbacks',
    { provider: { ...order('nobody'), allow_fallbacks: false } },
    'provider.order',
  ],
  [
    'a price below all',
    { provider: { max_price: { prompt: 0.5 } } },
    'provider.max_price is below every price',
  ],
  [
    'a price below that of the only one left',
    { provider: { zdr: true, max_price: { prompt: 1 } } },
    'provider.max_price',
  ],
  [
    'a price of 0 for images',
    { model: 'acme/seeing', provider: { max_price: { image: 0 } } },
    'provider.max_price',
  ],
  [
    'a quantization that no endpoint has',
    { provider: { quantizations: ['int4'] } },
    'provider.quantizations names none that is served',
  ],
  ['no quantization', { provider: { quantizations: [] } }, 'provider.quantizations'],
  [
    'a provider that trains, and none that trains',
    { provider: { only: ['cheap'], data_collection: 'deny' } },
    'provider.data_collection',
  ],
  [
    'a provider that retains data, and none that does',
    { provider: { only: ['able'], zdr: true } },
    'provider.zdr',
  ],
  [
    'distillable text, of a model without it',
    { provider: { enforce_distillable_text: true } },
    'provider.enforce_distillable_text',
  ],
]

const IMPOSSIBLE_FOR_TEXT: [name: string, body: Body, named: string][] = [
  [
    'parameters that the provider does not support',
    { top_k: 5, provider: { only: ['cheap'], require_parameters: true } },
    'provider.require_parameters',
  ],
  [
    'a search by a provider that cannot search',
    { model: 'acme/small:online', provider: { only: ['cheap'] } },
    ':online, the web plugin and web_search',
  ],
  [
    'reasoning of a provider that cannot enable it',
    { model: `${REASONER}:thinking`, provider: { only: ['cheap'] } },
    ':thinking asks for',
  ],
]

/** Invalid bodies, and the field that the error names. */
const WRONG: [name: string, body: Body, named: string][] = [
  ['an empty list', { provider: { only: [] } }, 'provider.only: expected at least one provider'],
  ['a string for a list', { provider: { order: 'able' } }, 'provider.order'],
  ['a number in a list', { provider: { ignore: [7] } }, 'provider.ignore'],
  [
    'too long a list',
    { provider: { only: Array.from({ length: 300 }, () => 'able') } },
    'provider.only',
  ],
  ['a string for a boolean', { provider: { zdr: 'yes' } }, 'provider.zdr'],
  ['a number for a boolean', { provider: { allow_fallbacks: 0 } }, 'provider.allow_fallbacks'],
  [
    'a string for another boolean',
    { provider: { require_parameters: 'true' } },
    'provider.require_parameters',
  ],
  ['an unknown collection', { provider: { data_collection: 'maybe' } }, 'provider.data_collection'],
  ['an unknown sort', { provider: { sort: 'beauty' } }, 'provider.sort'],
  [
    'an unknown partition',
    { provider: { sort: { by: 'price', partition: 'all' } } },
    'provider.sort',
  ],
  [
    'a price that is not a number',
    { provider: { max_price: { prompt: 'cheap' } } },
    'provider.max_price',
  ],
  ['a negative price', { provider: { max_price: { prompt: -1 } } }, 'provider.max_price'],
  [
    'a speed that is not a number',
    { provider: { preferred_min_throughput: 'fast' } },
    'provider.preferred_min_throughput',
  ],
  [
    'a percentile that is not a number',
    { provider: { preferred_max_latency: { p50: 'fast' } } },
    'provider.preferred_max_latency',
  ],
  ['a string for all preferences', { provider: 'able' }, 'provider'],
  ['an unknown variant', { model: 'acme/small:zzz' }, 'has no variant :zzz here'],
  ['two variants', { model: 'acme/small:nitro:floor' }, 'takes one variant, found :nitro:floor'],
  ['a variant of an unknown model', { model: 'acme/none:nitro' }, '"acme/none'],
]

const WRONG_IN_TEXT: [name: string, body: Body, named: string][] = [
  ['an unknown route', { route: 'around' }, 'route'],
  ['an unknown search engine', { plugins: [{ id: 'web', engine: 'exa' }] }, 'plugins.0.engine'],
  [
    'a number of search results',
    { plugins: [{ id: 'web', max_results: 3 }] },
    'plugins.0.max_results',
  ],
  [
    'reasoning of a model that has none',
    { model: 'acme/small:thinking' },
    'has no variant :thinking here, since it is not known to reason',
  ],
]

describe.each(Object.entries(PLAYERS))('at providers played by %s', (player, playedBy) => {
  let cast: Cast

  beforeAll(async () => {
    cast = await Cast.open(playedBy)
  })
  afterAll(() => cast.close())
  beforeEach(() => cast.play())

  // Every form at one of them, by turns.
  const turn = Object.keys(PLAYERS).indexOf(player)
  const forms = Object.entries(REQUEST_FORMS).filter(
    (_, i) => LONG || i % Object.keys(PLAYERS).length === turn,
  )
  describe.each(forms)('%s: a call', (_, way) => {
    const besides = <T>(all: T[], ofText: T[]) => (way.isOfVectors ? all : [...all, ...ofText])

    test.each(besides(WISHES, WISHES_OF_TEXT))(
      'that prefers %s',
      async (_, body, down, answers) => {
        cast.play(down)
        const { status, said, asked } = await cast.ask(way, body)
        expect([status, said]).toEqual([200, way.isOfVectors ? null : answers])
        expect(asked).toContain(answers)
        expect(asked.filter(name => name !== answers && !down.includes(name))).toEqual([])
      },
    )

    test.each(besides(IMPOSSIBLE, IMPOSSIBLE_FOR_TEXT))(
      'that wants %s gets the reason',
      async (_, body, named) => {
        const { status, error, asked } = await cast.ask(way, body)
        expect([status, asked]).toEqual([404, []])
        expect(error).toContain(named)
      },
    )

    test.each(besides(WRONG, WRONG_IN_TEXT))(
      'that has %s is a 400 that names it',
      async (_, body, named) => {
        const { status, error, asked } = await cast.ask(way, body)
        expect([status, asked]).toEqual([400, []])
        expect(error).toContain(named)
      },
    )

    test('without fallbacks gets the failure of the first', async () => {
      cast.play(['cheap'])
      for (const provider of [{ sort: 'price' }, order('cheap')]) {
        const { status, asked } = await cast.ask(way, {
          provider: { ...provider, allow_fallbacks: false },
        })
        expect([status, asked]).toEqual([502, ['cheap']])
      }
    })

    // Embeddings have no throughput, and whole answers no latency.
    const measured = { throughput: !way.isOfVectors, latency: way.isStreamed }

    test.each<[what: keyof typeof measured, wish: object]>([
      ['throughput', { preferred_min_throughput: 1e12 }],
      ['throughput', { preferred_min_throughput: { p90: 1e12 } }],
      ['latency', { preferred_max_latency: 1e-12 }],
      ['latency', { preferred_max_latency: { p50: null, p75: 1e-12 } }],
    ])(
      'puts endpoints that miss a preferred %s last, if it is measured: %j',
      async (what, wish) => {
        const model = cast.unmeasured()
        const askCheap = () => cast.ask(way, { model, provider: { ...wish, only: ['cheap'] } })
        expect((await askCheap()).status).toBe(200)
        const { asked } = await cast.ask(way, { model, provider: { ...wish, sort: 'price' } })
        expect(asked).toEqual(measured[what] ? ['able'] : ['cheap'])
        expect((await askCheap()).status).toBe(200)
      },
    )

    test.each(['throughput', 'latency'] as const)(
      'that sorts by %s goes to unmeasured endpoints first',
      async sort => {
        const model = cast.unmeasured()
        await cast.ask(way, { model, provider: { only: ['cheap'] } })
        expect((await cast.ask(way, { model, provider: { sort } })).asked).toEqual(
          measured[sort] ? ['able'] : ['cheap'],
        )
      },
    )

    test('does not forward its preferences to the provider', async () => {
      await cast.ask(way, {
        provider: { only: ['able'], sort: 'price', zdr: false, max_price: { prompt: 9 } },
        session_id: 's',
      })
      const received = Object.keys(cast.lastAt('able'))
      expect(received).toContain('model')
      for (const ours of [
        'provider',
        'models',
        'route',
        'plugins',
        'session_id',
        'webSearch',
        'needs',
      ])
        expect(received).not.toContain(ours)
    })
  })
})
