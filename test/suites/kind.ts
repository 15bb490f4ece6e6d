import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/base/errors.ts'
import { isObject } from '../../src/base/json.ts'
import type { KindOfWork } from '../../src/engine/kind.ts'
import { ALL_PARAMETERS } from '../../src/language/parameters.ts'
import type { TextSegment } from '../../src/language/text-segment.ts'
import { countOutputTokens, createTextUsage, listUnits } from '../../src/language/usage.ts'
import type { AnswerPart, Kind, Work } from '../../src/language/work.ts'
import type { Endpoint } from '../../src/resources/models/catalog.ts'
import { buildEndpoint } from '../support/call.ts'
import { freezeDeep } from '../support/freeze.ts'
import { LONG } from '../support/random.ts'
import { MARK } from './kind/marked.ts'

/** What the suite must be told of a kind of work: its calls, and what its answers consist of. */
export interface KindSample<K extends Kind> {
  /** Calls of every form. Each text that may have been typed contains `MARK`, and nothing else. */
  calls: fc.Arbitrary<Work[K]['call']>
  /** Tells whether filters cannot read all of the call: they refuse it. */
  isUnreadable(call: Work[K]['call']): boolean
  /** The variants of models that change its calls. */
  variants: string[]
  /** Parts that a caller can use. Each is enough for an answer that delivered something. */
  content: Work[K]['part'][]
}

/** Endpoints that support any parameters and give any number of tokens. */
const endpoints: fc.Arbitrary<Endpoint> = fc
  .record({
    supported_parameters: fc.option(fc.subarray([...ALL_PARAMETERS]).map(names => new Set(names))),
    max_completion_tokens: fc.option(fc.integer({ min: 1, max: 100_000 })),
  })
  .map(buildEndpoint)

/** Parts that come before the content of an answer, of any kind. */
const PRELUDE: AnswerPart<Kind>[] = [
  { type: 'start', upstream_id: 'up-1', system_fingerprint: null, service_tier: null },
  { type: 'echo', provider: 'local', model: 'acme/small', body: {} },
  { type: 'usage', usage: createTextUsage(7, 0) },
  { type: 'error', error: new GatewayError('provider_unavailable', 'It broke off') },
]

/** Tests what every kind of work promises. Throws if there is no sample of it. */
export function testKind<K extends Kind>(
  name: K,
  kind: KindOfWork<K>,
  sample: KindSample<K> | undefined,
): void {
  if (!sample) throw new Error(`${name} has no sample in test/suites/kind`)
  const calls = sample.calls.map(call => freezeDeep(numberMarks(call)))
  describe(`${name}: its calls, which are never changed`, () => {
    testContents(kind, calls)
    testFit(kind, calls, sample.variants)
    testCosting(kind, calls)
    testRewrite(kind, calls, sample)
  })
  describe(`${name}: its answers`, () => testMetering(kind, calls, sample))
}

type Calls<K extends Kind> = fc.Arbitrary<Work[K]['call']>

function testContents<K extends Kind>(kind: KindOfWork<K>, calls: Calls<K>): void {
  const { understanding } = kind

  test('are the same once their contents are read and put back', () => {
    check(calls, call => {
      const contents = understanding.readContents(call)
      expect(understanding.replaceContents(call, contents)).toStrictEqual(call)
    })
  })

  test('are the same if no URL is replaced', () => {
    check(calls, call => expect(understanding.replaceUrls(call, new Map())).toStrictEqual(call))
  })

  test('refer to nothing else once every URL is replaced', () => {
    const here = 'data:image/png;base64,AAAA'
    check(calls, call => {
      const media = understanding.listMedia(call)
      const moved = understanding.replaceUrls(call, new Map(media.map(({ url }) => [url, here])))
      expect(understanding.listMedia(moved)).toEqual(media.map(one => ({ ...one, url: here })))
    })
  })

  test('lose their names once', () => {
    check(calls, call => {
      const nameless = freezeDeep(understanding.removeNames(call))
      expect(understanding.removeNames(nameless)).toStrictEqual(nameless)
    })
  })
}

function testFit<K extends Kind>(kind: KindOfWork<K>, calls: Calls<K>, variants: string[]): void {
  const { fitToEndpoint, listIgnored, applyVariant } = kind.understanding

  test('lose exactly what the endpoint is said to ignore, and that once', () => {
    check(fc.tuple(calls, endpoints), ([call, endpoint]) => {
      const fitted = freezeDeep(fitToEndpoint(call, endpoint))
      const left = new Set(listParameters(fitted))
      const lost = [
        ...listParameters(call).filter(parameter => !left.has(parameter)),
        ...listChangedBeside(call, fitted),
      ]
      // The nearest that an endpoint has is named too.
      const changed = [
        ...Object.entries(call.params as object).flatMap(([name, value]) =>
          Bun.deepEquals(value, Object(fitted.params)[name]) ? [] : [name],
        ),
        ...listChangedBeside(call, fitted),
      ]
      const ignored = listIgnored(call, endpoint)
      expect(lost.filter(name => !ignored.includes(name))).toEqual([])
      expect(ignored.filter(name => ![...lost, ...changed].includes(name))).toEqual([])
      expect(omitParameters(fitted)).toStrictEqual(omitParameters(call))
      expect(fitToEndpoint(fitted, endpoint)).toStrictEqual(fitted)
      expect(listIgnored(fitted, endpoint)).toEqual([])
    })
  })

  test('are the call itself without a variant, and change once with one', () => {
    check(calls, call => {
      expect(applyVariant(call, '')).toBe(call)
      for (const variant of variants) {
        const changed = freezeDeep(applyVariant(call, variant))
        expect(applyVariant(changed, variant)).toStrictEqual(changed)
      }
    })
  })
}

type AnyCall = Work[Kind]['call']

/** Lists the parameters of a call, and `tools` if it has any. */
const listParameters = (call: AnyCall): string[] => [
  ...Object.keys(call.params),
  ...('tools' in call && call.tools.length > 0 ? ['tools'] : []),
]

/** What an endpoint may ignore beside the parameters: the field of a call, and its wire name. */
const BESIDE: Partial<Record<Kind, Record<string, string>>> = {
  speech: { instructions: 'instructions', sample: 'input_references.text' },
  transcription: { prompt: 'prompt' },
  video: { references: 'input_references' },
}

const listChangedBeside = (call: AnyCall, fitted: AnyCall): string[] =>
  Object.entries(BESIDE[call.kind] ?? {}).flatMap(([field, name]) =>
    Bun.deepEquals(Object(call)[field], Object(fitted)[field]) ? [] : [name],
  )

/** Returns everything but the parameters that an endpoint may ignore, and their values. */
function omitParameters(call: AnyCall): object {
  const beside = Object.keys(BESIDE[call.kind] ?? {})
  return Object.fromEntries(
    Object.entries({ ...call, params: {}, tools: [] }).filter(([name]) => !beside.includes(name)),
  )
}

function testCosting<K extends Kind>(kind: KindOfWork<K>, calls: Calls<K>): void {
  const { costing } = kind

  test('are bounded by no less than they are estimated at', () => {
    check(calls, call => {
      const [input, largest] = [costing.estimateInput(call), costing.boundInput(call)]
      for (const modality of ['text', 'audio', 'video'] as const)
        expect(largest[modality]).toBeGreaterThanOrEqual(input[modality])
      const [units, most] = [costing.estimateUnits(call), costing.boundUnits(call, buildEndpoint())]
      for (const unit of listUnits(units))
        expect(most[unit] ?? 0).toBeGreaterThanOrEqual(units[unit] ?? 0)
    })
  })

  test('give no more than their limit, if the endpoint takes one', () => {
    const limits = fc.integer({ min: 1, max: 50_000 })
    check(fc.tuple(calls, endpoints, limits), ([call, endpoint, limit]) => {
      const least = costing.computeLeastOutput(call, endpoint)
      // Some work takes no limit: what it may come to is set aside whole.
      if (least === Number.POSITIVE_INFINITY && call.kind !== 'text') return
      fc.pre(limit >= least)
      const limited = freezeDeep(costing.limitOutput(call, limit))
      expect(costing.boundOutput(limited, endpoint) ?? Infinity).toBeLessThanOrEqual(limit)
      expect(costing.needsOutputLimit(limited, buildEndpoint())).toBe(false)
    })
  })
}

function testRewrite<K extends Kind>(
  kind: KindOfWork<K>,
  calls: Calls<K>,
  { isUnreadable }: KindSample<K>,
): void {
  const { rewriteTexts } = kind.filtering

  test('are the same if their texts are rewritten as themselves, each read once', async () => {
    await checkAsync(calls, async call => {
      const read: string[] = []
      const rewriting = rewriteTexts(call, async ({ pieces }: TextSegment) => {
        read.push(...pieces)
        return pieces
      })
      if (isUnreadable(call)) return expectRefusal(rewriting)
      expect(await rewriting).toStrictEqual(call)
      expect(listMarks(read.join('')).toSorted()).toEqual(listMarks(call).toSorted())
    })
  })

  test('have every text replaced by what it is rewritten as', async () => {
    await checkAsync(calls, async call => {
      fc.pre(!isUnreadable(call))
      const rewritten = await rewriteTexts(call, async ({ pieces }: TextSegment) =>
        pieces.map(piece => piece.replace(/⟦\d+⟧/g, '')),
      )
      expect(listMarks(rewritten)).toEqual([])
    })
  })
}

const expectRefusal = async (rewriting: Promise<unknown>) =>
  expect(await rewriting.catch(thrown => thrown)).toMatchObject({ status: 403 })

function testMetering<K extends Kind>(
  kind: KindOfWork<K>,
  calls: Calls<K>,
  { content }: KindSample<K>,
): void {
  const { isMeaningful, metering } = kind
  const prelude = PRELUDE as Work[K]['part'][]

  test('have delivered nothing before anything is read', async () => {
    await checkAsync(calls, async call => {
      const meter = metering.startMeter(call)
      expect([meter.delivered, meter.tokensSoFar]).toEqual([false, 0])
      expect([meter.usage, meter.finish]).toEqual([null, null])
      expect(countOutputTokens(await meter.estimate(countCharacters))).toBe(0)
    })
  })

  test('have delivered nothing with what comes before their content', () => {
    expect(prelude.map(part => isMeaningful(part))).toEqual(prelude.map(() => false))
    check(calls, call => {
      const meter = metering.startMeter(call)
      meter.read(freezeDeep(prelude.map(part => ({ ...part }))))
      expect([meter.delivered, meter.finish]).toEqual([false, null])
      expect(meter.start.upstream_id).toBe('up-1')
      expect(meter.usage?.input.text).toBe(7)
    })
  })

  test('have delivered something with any of their content', () => {
    expect(content.map(part => isMeaningful(part))).toEqual(content.map(() => true))
    check(calls, call => {
      for (const part of content) {
        const meter = metering.startMeter(call)
        meter.read([part])
        expect(meter.delivered).toBe(true)
      }
    })
  })

  test('are estimated at the input that is counted', async () => {
    await checkAsync(calls, async call => {
      const { input } = await metering.startMeter(call).estimate(countCharacters)
      expect(input).toMatchObject(await metering.countInput(call, countCharacters))
    })
  })
}

const countCharacters = async (texts: string[]) => texts.join('').length

/** Numbers every mark in the texts of a value, so that each is different. */
function numberMarks<T>(value: T): T {
  let count = 0
  const replace = (inner: unknown): unknown => {
    if (typeof inner === 'string') return inner.replaceAll(MARK, () => `⟦${++count}⟧`)
    if (Array.isArray(inner)) return inner.map(replace)
    if (!isObject(inner)) return inner
    return Object.fromEntries(Object.entries(inner).map(([name, one]) => [name, replace(one)]))
  }
  return replace(value) as T
}

const listMarks = (value: unknown): string[] => JSON.stringify(value).match(/⟦\d+⟧/g) ?? []

const NUM_RUNS = LONG ? 2_000 : 80

function check<T>(values: fc.Arbitrary<T>, predicate: (value: T) => void): void {
  fc.assert(fc.property(values, predicate), { numRuns: NUM_RUNS })
}

const checkAsync = <T>(
  values: fc.Arbitrary<T>,
  predicate: (value: T) => Promise<void>,
): Promise<void> => fc.assert(fc.asyncProperty(values, predicate), { numRuns: NUM_RUNS })
