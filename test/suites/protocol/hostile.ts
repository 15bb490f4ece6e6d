import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/base/errors.ts'
import { isObject, type Json, parseExact } from '../../../src/base/json.ts'
import type { TextCall } from '../../../src/language/call.ts'
import type { EmbeddingPart } from '../../../src/language/embedding.ts'
import type { ImagePart } from '../../../src/language/image.ts'
import type { TextPart } from '../../../src/language/part.ts'
import type { RerankPart } from '../../../src/language/rerank.ts'
import type { SpeechPart } from '../../../src/language/speech.ts'
import type { TranscriptionPart } from '../../../src/language/transcription.ts'
import type { Kind } from '../../../src/language/work.ts'
import { AwsEventStreamScanner } from '../../../src/network/part-stream.ts'
import { SseScanner } from '../../../src/network/sse.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import type { Frame, Protocol } from '../../../src/translation/protocols/protocol.ts'
import {
  buildEmbeddingCall,
  buildEndpoint,
  buildImageCall,
  buildProvider,
  buildRerankCall,
  buildSpeechCall,
  buildTextCall,
  buildTranscriptionCall,
} from '../../support/call.ts'
import type { FakeProvider, ScriptedAnswer } from '../../support/fake-providers/fake-provider.ts'
import {
  applyChanges,
  applyFrameChanges,
  changes,
  frameChanges,
  hostileValue,
} from '../../support/hostile.ts'
import { Grammar } from '../../support/language.ts'
import { LONG } from '../../support/random.ts'
import { hasRecordings, listRecordings } from '../../support/recordings.ts'
import { renderWire } from '../../support/replay.ts'

/*
 * Answers of providers are untrusted. Translating any of them returns parts or throws a
 * GatewayError: no other exception, no more content than was sent, and nothing after the end.
 */
const numRuns = LONG ? 10_000 : 120

type TextProtocol = Protocol<'text'>

const CALL_INPUT = '{"city":"Paris","id":12345678901234567890}'
const SAID: ScriptedAnswer[] = [
  { text: 'Hello there', finish: 'stop' },
  {
    text: 'Let me see.',
    thought: { text: 'Which city?', signature: 'c2lnbmVk' },
    calls: ['call_1', 'call_2'].map(id => ({ id, name: 'get_weather', input: CALL_INPUT })),
    finish: 'tool_calls',
  },
  { finish: 'refusal' },
]

const tools: TextCall['tools'] = [{ type: 'function', name: 'get_weather' }]
const schema = { type: 'object', properties: { city: { type: 'string' } } }
const CALLS = [
  buildTextCall({ stream: true }),
  buildTextCall({ stream: true, tools, dialect: 'messages' }),
  buildTextCall({
    tools,
    params: {
      response_format: { type: 'json_schema', json_schema: { name: 'city', schema } },
      logprobs: true,
    },
  }),
]

const ENDPOINTS = [false, true].map(think_tags => {
  const provider = buildProvider()
  return buildEndpoint({ provider: { ...provider, quirks: { ...provider.quirks, think_tags } } })
})

/** Which call is answered, and by which endpoint. By index. */
const situation = fc.record({
  call: fc.nat(CALLS.length - 1),
  endpoint: fc.nat(ENDPOINTS.length - 1),
})

interface Situation {
  call: number
  endpoint: number
}

const getCall = ({ call }: Situation) => CALLS[call] ?? buildTextCall()
const getEndpoint = ({ endpoint }: Situation) => ENDPOINTS[endpoint] ?? buildEndpoint()

/** Shortens a long stream to its beginning and its end. */
const MAX_FRAMES = 60
const shortenStream = <T>(frames: T[]): T[] =>
  frames.length <= MAX_FRAMES
    ? frames
    : [...frames.slice(0, MAX_FRAMES / 2), ...frames.slice(-MAX_FRAMES / 2)]

const readFrames = ({ framing }: TextProtocol, bytes: Uint8Array): Frame[] => {
  const scanner = framing === 'sse' ? new SseScanner() : new AwsEventStreamScanner()
  return [...scanner.feed(bytes), ...scanner.end()]
}

interface Answers {
  wholes: unknown[]
  streams: Frame[][]
}

function renderHandMade(protocol: TextProtocol, provider: FakeProvider): Answers {
  return {
    wholes: SAID.map(said => JSON.parse(JSON.stringify(provider.renderAnswer(said)))),
    streams: [
      ...SAID.map(said => provider.renderStream(said)),
      provider.renderBrokenStream('Hello th'),
    ].map(bytes => readFrames(protocol, bytes)),
  }
}

function listRecorded(name: string, protocol: TextProtocol): Answers {
  const all = listRecordings(name)
  return {
    wholes: all
      .filter(({ mode }) => mode === 'whole')
      .map(({ lines }) => JSON.parse(lines.join(''))),
    streams: all
      .filter(({ mode }) => mode === 'streamed')
      .map(one => shortenStream(readFrames(protocol, renderWire(one).bytes))),
  }
}

/** Tests that a protocol withstands whatever its providers answer. */
export function testHostileAnswers(
  name: string,
  protocol: TextProtocol,
  { fakeProvider, isRecorded }: { fakeProvider: FakeProvider; isRecorded: boolean },
): void {
  describe(name, () => {
    describe('hand-made answers', () =>
      testAnswers(protocol, renderHandMade(protocol, fakeProvider)))

    if (!hasRecordings)
      test.skip(`${name} recordings are not on this machine (GATEWAY_SHARED)`, () => {})
    else if (isRecorded)
      describe('recorded answers', () => testAnswers(protocol, listRecorded(name, protocol)))

    test('reads any JSON as an answer, or throws a GatewayError', () => {
      checkProperty(
        fc.property(situation, fc.jsonValue(), (at, body) => readWhole(protocol, at, body)),
      )
    })

    test('reads any JSON as a failure, whatever its status', () => {
      expectFailures(protocol)
    })
  })
}

/** Tests that a protocol testAnswers whatever its providers answer instead of vectors. */
export function testHostileVectors(
  name: string,
  protocol: Protocol<'embedding'>,
  endpoint: Endpoint,
  answer: Json,
): void {
  const call = buildEmbeddingCall()
  const read = (body: unknown) =>
    readSafely(() => protocol.parseAnswer(parseExact(JSON.stringify(body)), call, endpoint))

  describe(name, () => {
    test('reads its own answer: one vector, and its usage', () => {
      expect(read(answer).map(({ type }) => type)).toEqual(['start', 'embedding', 'usage'])
    })

    test('survives a whole answer with an error in it', () => {
      checkProperty(fc.property(changes, made => expectVectors(read(applyChanges(answer, made)))))
    })

    test('reads any JSON as an answer, or throws a GatewayError', () => {
      checkProperty(fc.property(fc.jsonValue(), body => expectVectors(read(body))))
    })

    test('reads any JSON as a failure, whatever its status', () => {
      expectFailures(protocol)
    })

    test('refuses a stream, which no provider sends', () => {
      expect(() => protocol.createReader(call, endpoint)).toThrow('Provider returned')
    })
  })
}

/** Expects no part at all, or one vector of numbers. */
function expectVectors(parts: EmbeddingPart[]): void {
  const vectors = parts.flatMap(part => (part.type === 'embedding' ? [part.vector] : []))
  expect(vectors).toHaveLength(parts.length === 0 ? 0 : 1)
  for (const vector of vectors)
    expect(typeof vector === 'string' || vector.every(Number.isFinite)).toBe(true)
}

/** Tests that a protocol withstands whatever its providers answer instead of rankings. */
export function testHostileRankings(
  name: string,
  protocol: Protocol<'rerank'>,
  endpoint: Endpoint,
  { answer, isCounted }: { answer: unknown; isCounted: boolean },
): void {
  const call = buildRerankCall()
  const read = (body: unknown) =>
    readSafely(() => protocol.parseAnswer(parseExact(JSON.stringify(body)), call, endpoint))

  describe(name, () => {
    test('reads its own answer: a score for each document, and its usage', () => {
      const parts = read(answer)
      const scores = parts.flatMap(part => (part.type === 'ranking' ? [part] : []))
      expect(scores.toSorted((a, b) => b.relevance_score - a.relevance_score)).toMatchObject([
        { index: 1 },
        { index: 0 },
      ])
      expect(parts.some(({ type }) => type === 'usage')).toBe(isCounted)
    })

    test('survives a whole answer with an error in it', () => {
      checkProperty(
        fc.property(changes, made => {
          const changed = applyChanges({ answer }, made)
          expectRankings(read((isObject(changed) ? changed.answer : changed) ?? null))
        }),
      )
    })

    test('reads any JSON as an answer, or throws a GatewayError', () => {
      checkProperty(fc.property(fc.jsonValue(), body => expectRankings(read(body))))
    })

    test('reads any JSON as a failure, whatever its status', () => {
      expectFailures(protocol)
    })

    test('refuses a stream, which no provider sends', () => {
      expect(() => protocol.createReader(call, endpoint)).toThrow('Provider returned')
    })
  })
}

/** Expects no part at all, or finite scores of different documents of the call. */
function expectRankings(parts: RerankPart[]): void {
  const rankings = parts.flatMap(part => (part.type === 'ranking' ? [part] : []))
  expect(rankings.length === 0).toBe(parts.length === 0)
  expect(new Set(rankings.map(({ index }) => index)).size).toBe(rankings.length)
  for (const { index, relevance_score } of rankings) {
    expect([0, 1]).toContain(index)
    expect(Number.isFinite(relevance_score)).toBe(true)
  }
}

/** Tests that a protocol withstands whatever its providers answer instead of pictures. */
export function testHostilePictures(
  name: string,
  protocol: Protocol<'image'>,
  endpoint: Endpoint,
  { answer, isCounted }: { answer: Json; isCounted: boolean },
): void {
  const call = buildImageCall()
  const read = (body: unknown) =>
    readSafely(() => protocol.parseAnswer(parseExact(JSON.stringify(body)), call, endpoint))

  describe(name, () => {
    test('reads its own answer: one picture, and its usage', () => {
      const parts = read(answer)
      expect(parts.filter(({ type }) => type === 'picture')).toMatchObject([{ data: 'aGk=' }])
      expect(parts.some(({ type }) => type === 'usage')).toBe(isCounted)
    })

    test('survives a whole answer with an error in it', () => {
      checkProperty(fc.property(changes, made => expectPictures(read(applyChanges(answer, made)))))
    })

    test('reads any JSON as an answer, or throws a GatewayError', () => {
      checkProperty(fc.property(fc.jsonValue(), body => expectPictures(read(body))))
    })

    test('reads any JSON as a failure, whatever its status', () => {
      expectFailures(protocol)
    })
  })
}

/** Samples that no other format begins with: the sound of the answers in `samples.ts`. */
export const SOUND = Buffer.alloc(64, 1)

/** Tests that a protocol withstands whatever its providers answer instead of a sound. */
export function testHostileSounds(
  name: string,
  protocol: Protocol<'speech'>,
  endpoint: Endpoint,
  { answer }: { answer: Json | null },
): void {
  const call = buildSpeechCall()
  const parse = (body: unknown) =>
    readSafely(() => protocol.parseAnswer(parseExact(JSON.stringify(body)), call, endpoint))

  describe(name, () => {
    test.skipIf(answer === null)('reads its own answer: the sound, and its end', () => {
      expect(joinSound(parse(answer))).toEqual(SOUND)
      expect(parse(answer).some(({ type }) => type === 'sound-end')).toBe(true)
    })

    test.skipIf(answer === null)('survives a whole answer with an error in it', () => {
      checkProperty(fc.property(changes, made => expectSound(parse(applyChanges(answer, made)))))
    })

    test('reads any JSON as an answer, or throws a GatewayError', () => {
      checkProperty(fc.property(fc.jsonValue(), body => expectSound(parse(body))))
    })

    test('reads bytes however they are divided, and refuses what is no sound', () => {
      if (!protocol.createByteReader) return
      const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 8 })
      checkProperty(
        fc.property(pieces, given => {
          const reader = protocol.createByteReader?.(call, endpoint)
          const read = () => [
            ...given.flatMap(bytes => reader?.read({ event: null, data: '', bytes }) ?? []),
            ...(reader?.end?.() ?? []),
          ]
          const parts = readSafely(read)
          expect(reader?.complete).toBe(parts.length > 0)
          expect(joinSound(parts)).toEqual(
            parts.length > 0 ? Buffer.concat(given) : Buffer.alloc(0),
          )
        }),
      )
      for (const said of ['<!DOCTYPE html><html></html>', '{"error":{"message":"no"}}', ''])
        expect(() => {
          const reader = protocol.createByteReader?.(call, endpoint)
          reader?.read({ event: null, data: '', bytes: Buffer.from(said) })
          reader?.end?.()
        }).toThrow(/Provider/)
    })

    test('reads any JSON as a failure, whatever its status', () => {
      expectFailures(protocol)
    })
  })
}

/** Tests that a protocol withstands whatever its providers answer instead of a transcript. */
export function testHostileTranscripts(
  name: string,
  protocol: Protocol<'transcription'>,
  endpoint: Endpoint,
  answer: Json,
): void {
  const call = buildTranscriptionCall({
    params: { response_format: 'verbose_json', timestamp_granularities: ['word', 'segment'] },
  })
  const read = (body: unknown) =>
    readSafely(() => protocol.parseAnswer(parseExact(JSON.stringify(body)), call, endpoint))

  describe(name, () => {
    test('reads its own answer: the text', () => {
      expect(read(answer).find(({ type }) => type === 'transcript')).toMatchObject({
        text: 'Hello there.',
      })
    })

    test('survives a whole answer with an error in it', () => {
      checkProperty(
        fc.property(changes, made => expectTranscript(read(applyChanges(answer, made)))),
      )
    })

    test('reads any JSON as an answer, or throws a GatewayError', () => {
      checkProperty(fc.property(fc.jsonValue(), body => expectTranscript(read(body))))
    })

    test('reads any JSON as a failure, whatever its status', () => {
      expectFailures(protocol)
    })
  })
}

/** Expects no part at all, or one text, whose times are numbers. */
function expectTranscript(parts: TranscriptionPart[]): void {
  if (parts.length === 0) return
  const transcripts = parts.flatMap(part => (part.type === 'transcript' ? [part] : []))
  expect(transcripts).toHaveLength(1)
  for (const { text, segments = [], words = [], duration = 0 } of transcripts) {
    expect(typeof text).toBe('string')
    for (const { start, end } of [...segments, ...words, { start: duration, end: 0 }])
      expect([Number.isFinite(start), Number.isFinite(end)]).toEqual([true, true])
  }
}

const joinSound = (parts: SpeechPart[]): Buffer =>
  Buffer.concat(parts.flatMap(part => (part.type === 'sound' ? [part.bytes] : [])))

/** Expects no part at all, or a sound with its end. */
function expectSound(parts: SpeechPart[]): void {
  if (parts.length === 0) return
  expect(joinSound(parts).length).toBeGreaterThan(0)
  expect(parts.filter(({ type }) => type === 'sound-end')).toHaveLength(1)
}

/** Expects no part at all, or one picture with its data or its URL. */
function expectPictures(parts: ImagePart[]): void {
  const pictures = parts.flatMap(part => (part.type === 'picture' ? [part] : []))
  expect(pictures).toHaveLength(parts.length === 0 ? 0 : 1)
  for (const { data, url } of pictures) expect(data !== '' || Boolean(url)).toBe(true)
}

function expectFailures<K extends Kind>(protocol: Protocol<K>): void {
  const status = fc.constantFrom(400, 401, 404, 422, 429, 500, 503, 200, 0)
  const body = fc.oneof(
    hostileValue,
    fc.record({ error: hostileValue }),
    fc.record({ message: hostileValue, __type: hostileValue }),
  )
  checkProperty(
    fc.property(status, body, (code, value) =>
      expect(protocol.readFailure(code, parseExact(JSON.stringify(value)))).toBeInstanceOf(
        GatewayError,
      ),
    ),
  )
}

function testAnswers(protocol: TextProtocol, { wholes, streams }: Answers): void {
  test.skipIf(wholes.length === 0)('survives a whole answer with an error in it', () => {
    const bodies = fc
      .tuple(fc.constantFrom(...wholes), changes)
      .map(([body, made]) => applyChanges(body, made))
    checkProperty(fc.property(situation, bodies, (at, body) => readWhole(protocol, at, body)))
  })

  test.skipIf(streams.length === 0)('survives a stream with an error in it', () => {
    const frames = fc
      .tuple(fc.constantFrom(...streams), frameChanges)
      .map(([given, made]) => applyFrameChanges(given, made))
    checkProperty(fc.property(situation, frames, (at, given) => readStream(protocol, at, given)))
  })

  test.skipIf(streams.length === 0)('survives the frames of all streams in any order', () => {
    const any = fc.array(fc.constantFrom(...streams.flat()), { maxLength: 40 })
    const frames = fc
      .tuple(any, frameChanges)
      .map(([given, made]) => applyFrameChanges(given, made))
    checkProperty(fc.property(situation, frames, (at, given) => readStream(protocol, at, given)))
  })
}

const SHOWN = 4_000

/** Throws with the smallest answer that breaks the property. */
function checkProperty<T>(property: fc.IProperty<T>): void {
  const { failed, errorInstance, counterexample, counterexamplePath, seed } = fc.check<T>(
    property,
    {
      numRuns,
    },
  )
  if (!failed) return
  throw new Error(
    `${errorInstance}\n${JSON.stringify(counterexample).slice(0, SHOWN)}\n` +
      `(seed ${seed}, path ${counterexamplePath})`,
  )
}

function readWhole(protocol: TextProtocol, at: Situation, body: unknown): void {
  const json = JSON.stringify(body)
  const parts = readSafely(() =>
    protocol.parseAnswer(parseExact(json), getCall(at), getEndpoint(at)),
  )
  new Grammar().read(parts)
  expectLinear(parts, json.length, 1)
}

function readStream(protocol: TextProtocol, at: Situation, frames: Frame[]): void {
  const reader = protocol.createReader(getCall(at), getEndpoint(at))
  const grammar = new Grammar()
  const all: TextPart[] = []
  const read = (parts: TextPart[]) => {
    grammar.read(parts)
    all.push(...parts)
  }
  for (const frame of frames) {
    const wasComplete = reader.complete
    const parts = readSafely(() => reader.read(frame))
    if (wasComplete) expect([parts, reader.complete]).toEqual([[], true])
    read(parts)
  }
  if (!reader.complete) read(readSafely(() => reader.end?.() ?? []))
  expectLinear(
    all,
    frames.reduce((sum, { data }) => sum + data.length, 0),
    frames.length,
  )
}

/** Returns the parts, or none for a GatewayError. Throws anything else. */
function readSafely<Part>(read: () => Part[]): Part[] {
  try {
    return read()
  } catch (thrown) {
    if (thrown instanceof GatewayError && thrown.type !== 'server') return []
    throw thrown
  }
}

/** Expects no more output than input, apart from the fields around each part. */
function expectLinear(parts: TextPart[], characters: number, frames: number): void {
  expect(parts.length).toBeLessThanOrEqual(8 * frames + characters / 2)
  expect(JSON.stringify(parts).length).toBeLessThanOrEqual(
    2 + 1_000 * frames + 100 * parts.length + 8 * characters,
  )
}
