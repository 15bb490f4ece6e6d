import { afterEach, describe, expect, mock, spyOn, test } from 'bun:test'
import { isObject, type Json, readObject } from '../../src/base/json.ts'
import { toNanos } from '../../src/base/money.ts'
import type { UsdPerMillionTokens } from '../../src/config/prices.ts'
import { checkCounts } from '../../src/engine/kinds/text/understanding.ts'
import { kinds } from '../../src/engine/kinds.ts'
import {
  estimateCost,
  estimatePromptNanos,
  estimateUsage,
  limitToHold,
} from '../../src/engine/reserve.ts'
import type { TextCall } from '../../src/language/call.ts'
import type { EmbeddingCall } from '../../src/language/embedding.ts'
import type { Block } from '../../src/language/message.ts'
import type { Params } from '../../src/language/params.ts'
import type { Tool } from '../../src/language/tool.ts'
import { createTextUsage, type Usage } from '../../src/language/usage.ts'
import { openLedger } from '../../src/limits/ledger.ts'
import type { Endpoint } from '../../src/resources/models/catalog.ts'
import { computeCost, toExactPrices } from '../../src/resources/prices.ts'
import { protocols } from '../../src/translation/protocols/registry.ts'
import {
  buildEmbeddingCall,
  buildEndpoint,
  buildImageCall,
  buildRerankCall,
  buildTextCall,
} from '../support/call.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import { buildBound, buildPayer, createLedgerStore } from '../support/ledger.ts'
import { createSeededIntegers, SEED } from '../support/random.ts'

const gateway = await testGateway()
const strict = await testGateway({ config: { limits: { strict: true } } })

const at = (prices: UsdPerMillionTokens, more: Partial<Endpoint> = {}) =>
  buildEndpoint({ prices: toExactPrices(prices), ...more })
const saying = (...blocks: Block[]): TextCall =>
  buildTextCall({ messages: [{ role: 'user', blocks }] })

/** What is set aside for the call there, in nano-dollars. */
const heldFor = (call: TextCall, ...endpoints: Endpoint[]): bigint =>
  estimateCost(gateway, 'text', call, endpoints).maximum.own ?? -1n
const heldForVectors = (call: EmbeddingCall, endpoint: Endpoint): bigint =>
  estimateCost(gateway, 'embedding', call, [endpoint]).maximum.own ?? -1n

/** A dollar for a million tokens: a token is a thousand nano-dollars. */
const INPUT = { prompt: 1, completion: 0 }
const OUTPUT = { prompt: 0, completion: 1 }
const TOKEN = 1_000n

describe('the highest cost of a call', () => {
  test.each<[name: string, params: Params, extra: Json, tokens: bigint]>([
    ['as many tokens as it asks for', { max_tokens: 500 }, {}, 500n],
    ['no fewer than every provider accepts', { max_tokens: 1 }, {}, 16n],
    ['what the config says if nothing bounds it', {}, {}, 16_384n],
    [
      'a reasoning budget on top of them',
      { max_tokens: 500, reasoning: { max_tokens: 3_000 } },
      {},
      3_500n,
    ],
    [
      'the least budget for an effort',
      { max_tokens: 500, reasoning: { effort: 'high' } },
      {},
      1_524n,
    ],
    ['each of several answers', { max_tokens: 500 }, { n: 4 }, 2_000n],
    ['each of those that are discarded', { max_tokens: 500 }, { n: 1, best_of: 8 }, 4_000n],
    [
      'each of those in Google’s own field',
      { max_tokens: 500 },
      { generationConfig: { candidateCount: 8 } },
      4_000n,
    ],
    ['no fewer than one answer', { max_tokens: 500 }, { n: 0, best_of: 0 }, 500n],
    ['a bound under another server’s name', { max_tokens: 16 }, { n_predict: 9_000 }, 9_000n],
  ])('is %s', (_, params, extra, tokens) => {
    expect(heldFor(buildTextCall({ params, extra }), at(OUTPUT))).toBe(tokens * TOKEN)
  })

  test('includes a prediction, which is charged if it does not come true', () => {
    const prediction = { type: 'content', content: 'x'.repeat(30_000) }
    const held = heldFor(buildTextCall({ params: { max_tokens: 100, prediction } }), at(OUTPUT))
    expect(held).toBeGreaterThanOrEqual(10_100n * TOKEN)
    expect(held).toBeLessThan(10_200n * TOKEN)
  })

  test.each<[name: string, more: Partial<TextCall>, searches: bigint]>([
    ['none without a tool for it', {}, 0n],
    ['ten that the options ask for', { params: { max_tokens: 16, web_search_options: {} } }, 10n],
    [
      'as many as the tool says',
      { tools: [tool({ type: 'web_search_20250305', max_uses: 3 })] },
      3n,
    ],
    ['ten if it gives no number', { tools: [tool({ type: 'web_search' })] }, 10n],
  ])('includes the searches that it may make: %s', (_, more, searches) => {
    const call = buildTextCall({ params: { max_tokens: 16 }, ...more })
    const price = toNanos(0.01)
    const without = heldFor(call, at(INPUT))
    expect(heldFor(call, at({ ...INPUT, web_search: 0.01 })) - without).toBe(searches * price)
  })

  test('takes the highest price of the output: images always, audio if asked for', () => {
    const prices = { ...OUTPUT, reasoning: 2, image_output: 30, audio_output: 80 }
    const held = (params: Params) =>
      heldFor(buildTextCall({ params: { max_tokens: 100, ...params } }), at(prices)) / TOKEN
    expect([held({}), held({ modalities: ['text', 'audio'] })]).toEqual([3_000n, 8_000n])
  })

  test('takes the highest price tier that its input may reach, whatever the estimate', () => {
    const call = saying({ type: 'text', text: 'x'.repeat(3_000) })
    const held = (tiers: UsdPerMillionTokens['tiers']) =>
      heldFor(call, at({ prompt: 2, completion: 0, tiers: tiers ?? [] })) / TOKEN
    expect(held([{ above: 900, prompt: 1 }])).toBe(2n * 1_006n)
    expect(held([{ above: 900, prompt: 4 }])).toBe(4n * 1_006n)
    expect(held([{ above: 5_000, prompt: 4 }])).toBe(2n * 1_006n)
  })

  test('takes the most expensive of its endpoints', () => {
    const call = buildTextCall({ params: { max_tokens: 100 } })
    expect(
      heldFor(call, at(OUTPUT), at({ prompt: 0, completion: 7 }), at({ prompt: 0, completion: 3 })),
    ).toBe(700n * TOKEN)
  })

  test('is what is left at each endpoint’s own price, if that is less than all', () => {
    const call = buildTextCall({ params: { max_tokens: 10_000 } })
    const [cheap, dear] = [at(OUTPUT), at({ prompt: 0, completion: 10 })]
    const sent = (endpoint: Endpoint) =>
      limitToHold(strict, 'text', call, endpoint, { amounts: { own: 5_000n * TOKEN, byok: null } })
        .params.max_tokens
    expect([sent(cheap), sent(dear)]).toEqual([5_000, 500])
    expect(estimateCost(strict, 'text', call, [cheap, dear])).toEqual({
      maximum: { own: 100_000n * TOKEN, byok: null },
      minimum: { own: (16n + 256n) * 10n * TOKEN, byok: null },
      least: { own: 16n * 10n * TOKEN, byok: null },
    })
  })

  test('is rounded up: a price far below a nano-dollar is not zero', () => {
    const cheap = at({ prompt: 0, completion: 1e-12 })
    const call = buildTextCall({ params: { max_tokens: 1_000 } })
    const need = estimateCost(gateway, 'text', call, [cheap])
    expect(need.maximum.own).toBe(1n)
    expect(limitToHold(gateway, 'text', call, cheap, { amounts: need.maximum })).toEqual(call)
  })

  test('fits 64 bits, whatever the call asks for', () => {
    const call = buildTextCall({
      params: { max_tokens: Number.MAX_SAFE_INTEGER },
      extra: { n: Number.MAX_SAFE_INTEGER },
    })
    const held = heldFor(call, at({ prompt: 10_000, completion: 10_000 }))
    expect(held).toBe(BigInt.asIntN(64, held))
    expect(held).toBeGreaterThan(toNanos(1_000_000_000))
  })
})

describe('the units of a kind', () => {
  const IMAGES = { ...INPUT, per_image: 0.04, per_input_image: 0.001 }
  const call = buildEmbeddingCall({ inputs: [] })

  afterEach(() => {
    mock.restore()
  })

  test('are set aside at their most, and expected as many as are likely', () => {
    const { costing } = kinds.embedding
    spyOn(costing, 'boundUnits').mockReturnValue({ image: 10, input_image: 1 })
    spyOn(costing, 'estimateUnits').mockReturnValue({ image: 3, input_image: 2 })
    expect(heldForVectors(call, at(IMAGES))).toBe(toNanos(0.401))
    // What is put out has not been made yet.
    expect(estimatePromptNanos('embedding', call, at(IMAGES))).toBe(toNanos(0.002))
    expect(estimateUsage('embedding', call, 0)).toEqual({
      ...createTextUsage(0, 0),
      units: { image: 3, input_image: 2 },
    })
  })

  test('of a call for pictures is that of its references: none is drawn yet', () => {
    const prices = at({ prompt: 0, completion: 0, per_image: 0.04, per_input_image: 0.01 })
    const references = ['data:image/png;base64,AAAA', 'data:image/png;base64,AAAA']
    const call = buildImageCall({ references, params: { n: 3 } })
    expect(estimatePromptNanos('image', call, prices)).toBe(toNanos(0.02))
    // A request for each picture, as the endpoint draws one at once: each has the references.
    expect(estimateCost(gateway, 'image', call, [prices]).maximum.own).toBe(toNanos(0.18))
  })

  test('are absent if it has none', () => {
    expect(heldForVectors(call, at(IMAGES))).toBe(0n)
    expect(estimateUsage('embedding', call, 0)).toEqual(createTextUsage(0, 0))
  })
})

describe('inputs that are read apart', () => {
  const LONG = 'lorem ipsum '.repeat(500)
  const TOKENS = BigInt(LONG.length / 3)
  const small = at(INPUT, { context_length: 512 })

  test('are each set aside up to the context', () => {
    const call = buildEmbeddingCall({
      inputs: Array.from({ length: 50 }, () => ({ type: 'text' as const, text: LONG })),
    })
    expect(heldForVectors(call, small)).toBe(50n * 512n * TOKEN)
    expect(heldForVectors(call, at(INPUT))).toBe(50n * TOKENS * TOKEN)
  })

  test('are each set aside with the query, as rankings are counted', () => {
    const call = buildRerankCall({
      query: LONG,
      documents: Array.from({ length: 50 }, () => ({ text: 'Hi.' })),
    })
    const held = (endpoint: Endpoint) =>
      estimateCost(gateway, 'rerank', call, [endpoint]).maximum.own
    expect(held(at(INPUT))).toBe(50n * (TOKENS + 1n) * TOKEN)
    expect(held(small)).toBe(50n * 512n * TOKEN)
  })
})

describe('the largest prompt', () => {
  const LONG = 'lorem ipsum '.repeat(5_000)
  const LEAST = BigInt(Math.floor(LONG.length / 3)) * TOKEN
  const held = (call: TextCall) =>
    heldFor({ ...call, params: { max_tokens: 16, ...call.params } }, at(INPUT))
  const turn = buildTextCall().messages[0]

  test.each<[name: string, call: TextCall]>([
    ['the text', saying({ type: 'text', text: LONG })],
    ['a name', buildTextCall({ messages: [{ role: 'user', blocks: [], name: LONG }] })],
    ['the tools', buildTextCall({ tools: [{ type: 'function', name: 'f', description: LONG }] })],
    ['an unknown tool', buildTextCall({ tools: [tool({ type: 'custom', description: LONG })] })],
    [
      'the response format',
      buildTextCall({
        params: { response_format: { type: 'grammar', grammar: LONG } as { type: string } },
      }),
    ],
    ['unknown parameters', buildTextCall({ extra: { documents: [LONG] } })],
    [
      'unknown members of a message',
      buildTextCall({
        messages: [{ ...(turn as TextCall['messages'][number]), extra: { more: LONG } }],
      }),
    ],
    [
      'unknown members of content',
      saying({ type: 'text', text: 'Hi', extra: { citations: [LONG] } }),
    ],
    [
      'unknown content',
      saying({
        type: 'other',
        dialect: 'messages',
        value: { type: 'search_result', content: [LONG] },
      }),
    ],
    [
      'encrypted reasoning that comes back',
      saying({
        type: 'reasoning',
        text: null,
        details: [{ type: 'reasoning.encrypted', data: LONG }],
      }),
    ],
    ['arguments of a call', saying({ type: 'tool-call', id: '1', name: 'f', input: LONG })],
    [
      'a text in a file',
      saying({ type: 'file', file: { file_data: `data:text/plain;base64,${btoa(LONG)}` } }),
    ],
    [
      'a document',
      saying({ type: 'file', file: { file_data: `data:application/pdf;base64,${btoa(LONG)}` } }),
    ],
  ])('counts %s', (_, call) => {
    expect(held(call)).toBeGreaterThanOrEqual(LEAST)
    expect(held(call)).toBeLessThan(LEAST * 2n)
  })

  test('counts references as large as providers accept, at most the context', () => {
    const wide = at(INPUT, { context_length: 4_000_000 })
    const tokens = (block: Block, endpoint = wide) =>
      Number(heldFor(saying(block), endpoint) / TOKEN)
    const [file, film] = [
      { type: 'file', file: { file_data: 'https://example.com/a.pdf' } },
      { type: 'video', url: 'https://example.com/a.mp4' },
    ] as const
    expect(tokens(file)).toBeGreaterThanOrEqual(300_000)
    expect(tokens({ type: 'file', file: { file_id: 'file-1' } })).toBeGreaterThanOrEqual(300_000)
    expect(tokens(film)).toBeGreaterThanOrEqual(1_080_000)
    expect(tokens(file, at(INPUT))).toBe(128_000)
    expect(tokens(film, at(INPUT))).toBeLessThan(128_100)
  })

  test('counts token inputs as tokens, and every text of a list', () => {
    const tokens = { type: 'tokens' as const, tokens: Array.from({ length: 2_000 }, (_, i) => i) }
    expect(heldForVectors(buildEmbeddingCall({ inputs: [tokens, tokens] }), at(INPUT))).toBe(
      4_000n * TOKEN,
    )
    const texts = Array.from({ length: 100 }, () => ({
      type: 'text' as const,
      text: 'x'.repeat(300),
    }))
    expect(
      heldForVectors(buildEmbeddingCall({ inputs: texts }), at({ ...INPUT, request: 0.01 })),
    ).toBe(10_000n * TOKEN + toNanos(0.01))
  })

  test('is priced at the highest price of input, read, written or heard', () => {
    const text = saying({ type: 'text', text: 'x'.repeat(2_982) })
    const costs = (more: Partial<UsdPerMillionTokens>) =>
      Number(heldFor(text, at({ ...INPUT, ...more })) / (1_000n * TOKEN))
    expect([
      costs({}),
      costs({ cache_write: 2 }),
      costs({ cache_write_1h: 3 }),
      costs({ cache_read: 4 }),
    ]).toEqual([1, 2, 3, 4])
    const sound = saying({ type: 'audio', data: 'A'.repeat(64_000), format: 'mp3' })
    expect(heldFor(sound, at({ ...INPUT, audio: 10 }))).toBeGreaterThanOrEqual(7_680n * TOKEN)
    expect(heldFor(sound, at({ ...INPUT, audio: 0 }))).toBeGreaterThanOrEqual(768n * TOKEN)
  })
})

const CALLS = 1_500

/** How each model is called, and which field of the body bounds the answer. */
const SENT: Record<string, { models: string[]; bound(body: Json): unknown }> = {
  'openai-chat': { models: ['gpt-5', 'llama'], bound: body => body.max_tokens },
  'anthropic-messages': {
    models: ['claude-3-haiku', 'claude-sonnet-4-5', 'claude-opus-4-6', 'unknown'],
    bound: body => body.max_tokens,
  },
  'openai-responses': { models: ['gpt-4o', 'gpt-5', 'o3'], bound: body => body.max_output_tokens },
  gemini: {
    models: ['gemini-2.5-flash', 'gemini-3-pro', 'gemini-2.0-flash'],
    bound: body => readObject(body, 'generationConfig').maxOutputTokens,
  },
  'bedrock-converse': {
    models: [
      'anthropic.claude-sonnet-4-5',
      'amazon.nova-pro-v1:0',
      'openai.gpt-oss-120b',
      'meta.llama3',
    ],
    bound: body => readObject(body, 'inferenceConfig').maxTokens,
  },
  'cohere-chat': { models: ['command-a-reasoning', 'command-r'], bound: body => body.max_tokens },
}

describe.each(Object.entries(SENT))('what is sent by %s', (name, { models, bound }) => {
  for (const [mode, { config }] of Object.entries({ 'in full': gateway, strict }))
    test(`the answer never costs more than was set aside, ${mode} (seed ${SEED})`, async () => {
      const random = createSeededIntegers(SEED)
      const oneOf = <T>(...values: T[]): T => values[random(values.length)] as T
      const ledger = await openLedger(createLedgerStore(), new TestClock())
      let [sent, shortened, refused] = [0, 0, 0]
      for (let i = 0; i < CALLS; i++) {
        const call = buildTextCall({
          params: paramsOf(oneOf),
          extra: extraOf(oneOf),
        })
        if (refusedAs(() => kinds.text.understanding.checkCounts(call) ?? true) === undefined) {
          refused += 1
          continue
        }
        const endpoint = at(
          { prompt: oneOf(0, 3), completion: oneOf(0.07, 15), reasoning: oneOf(0.07, 20) },
          {
            protocol: name,
            upstreamModel: oneOf(...models),
            max_completion_tokens: oneOf(null, 4_096, 64_000),
          },
        )
        const need = estimateCost({ ...gateway, config }, 'text', call, [endpoint])
        const limit = mode === 'strict' ? BigInt(random(3_000_000_000)) : (need.maximum.own ?? 0n)
        const hold = refusedAs(() => ledger.reserve(buildPayer(), need, [buildBound({ limit })]))
        if (!hold) continue
        const held = limitToHold({ ...gateway, config }, 'text', call, endpoint, hold)
        const fitting = kinds.text.understanding.fitToEndpoint(held, endpoint)
        const { body } = protocols.text[name]?.buildRequest(fitting, endpoint) ?? { body: {} }
        const own = (bound(body) as number | undefined) ?? endpoint.max_completion_tokens
        const most =
          own === null
            ? null
            : Math.max(own, ...countsIn(body, BOUNDS)) +
              Math.max(0, ...countsIn(fitting.extra, BUDGETS))
        ledger.release(hold)
        sent += 1
        shortened += hold.amounts.own === need.maximum.own ? 0 : 1
        const cost =
          most === null ? null : dearest(most * Math.max(1, ...countsIn(body, ANSWERS)), endpoint)
        if (cost === null || cost > (hold.amounts.own ?? 0n))
          expect({
            cost,
            held: hold.amounts.own,
            params: call.params,
            extra: call.extra,
            endpoint: endpoint.upstreamModel,
            most,
            given: endpoint.max_completion_tokens,
          }).toBeUndefined()
      }
      expect(sent).toBeGreaterThan(CALLS / 6)
      expect(refused).toBeGreaterThan(CALLS / 60)
      if (mode === 'strict') expect(shortened).toBeGreaterThan(CALLS / 60)
    })
})

function paramsOf(oneOf: <T>(...values: T[]) => T): Params {
  const max_tokens = oneOf(undefined, 1, 15, 100, 1_024, 5_000, 70_000)
  const reasoning = oneOf<Params['reasoning']>(
    undefined,
    { enabled: true },
    { enabled: false },
    { effort: 'minimal' },
    { effort: 'high' },
    { effort: 'xhigh' },
    { max_tokens: 1 },
    { max_tokens: 3_000 },
    { max_tokens: 500_000 },
  )
  return {
    ...(max_tokens === undefined ? {} : { max_tokens }),
    ...(reasoning ? { reasoning } : {}),
  }
}

/** An answer that is all reasoning, or all text: whichever costs more. */
function dearest(tokens: number, { prices }: Endpoint): bigint {
  const thought: Usage = {
    ...createTextUsage(0, 0),
    output: { text: 0, reasoning: tokens, audio: 0, image: 0 },
  }
  return larger(
    computeCost(thought, prices).cost ?? 0n,
    computeCost(createTextUsage(0, tokens), prices).cost ?? 0n,
  )
}

const larger = (a: bigint, b: bigint) => (a > b ? a : b)

const ANSWERS = /^(n|best_of|num_generations|num_return_sequences|candidate_?count)$/i
const BOUNDS = /^(max_new_tokens|max_tokens_to_sample|n_predict|num_predict|max_output_?tokens)$/i
const BUDGETS = /^(thinking_?budget|reasoning_budget)$/i

/** Every value that a lenient provider may read as such a count, wherever it stands in the body. */
function countsIn(value: unknown, name: RegExp): number[] {
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, member]) => [
    ...(name.test(key) && !isObject(member) ? [Math.ceil(Number(member)) || 0] : []),
    ...countsIn(member, name),
  ])
}

const COUNTS = [
  ...['n', 'best_of', 'num_generations', 'num_return_sequences', 'candidate_count'],
  ...['max_output_tokens', 'maxOutputTokens', 'max_new_tokens', 'n_predict', 'num_predict'],
  ...['thinking_budget', 'reasoning_budget'],
]

const PLACES = [undefined, undefined, 'generationConfig', 'extra_body', 'options', 'thinking']
const VALUES = [-1, 0, 1, 2, 3, 9_000, 0.5, 9_000.5, 1e300, 2 ** 53, '1', '-1', 'NaN', [4], null]

/** Counts under names of other servers, good ones and bad ones. */
function extraOf(oneOf: <T>(...values: T[]) => T): Json {
  if (oneOf(true, false)) return {}
  const counts = { [oneOf(...COUNTS)]: oneOf<unknown>(...VALUES) }
  const place = oneOf(...PLACES)
  return place === undefined ? counts : { [place]: counts }
}

function refusedAs<T>(reserve: () => T): T | undefined {
  try {
    return reserve()
  } catch {
    return undefined
  }
}

function tool(value: Json): Tool {
  if (!isObject(value)) throw new TypeError('a tool is an object')
  return { type: 'other', dialect: 'chat', value }
}

test.each(['n', 'best_of', 'num_generations', 'candidate_count'])(
  'a call for no answer is refused: %s is 0',
  name => {
    expect(() => checkCounts(buildTextCall({ extra: { [name]: 0 } }))).toThrow(
      `${name}: expected a whole number from 1 to 1000000000`,
    )
    expect(() => checkCounts(buildTextCall({ extra: { n_predict: 0 } }))).not.toThrow()
  },
)
