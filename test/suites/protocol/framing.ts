import { describe, expect, test } from 'bun:test'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import type { TextPart } from '../../../src/language/part.ts'
import { Deadline } from '../../../src/network/answer.ts'
import type { IncomingResponse } from '../../../src/network/egress.ts'
import { PartStream } from '../../../src/network/part-stream.ts'
import type { Protocol } from '../../../src/translation/protocols/protocol.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'
import { collectParts } from '../../support/parts.ts'
import { LONG, takeTurns } from '../../support/random.ts'
import { hasRecordings, listRecordings, type Recording } from '../../support/recordings.ts'
import { renderWire } from '../../support/replay.ts'

/**
 * Tests that the recorded streams of a protocol are read alike, however they travel: a network cuts
 * bytes anywhere, and servers use the freedom that the standard leaves them.
 */
export function testFraming(name: string, protocol: Protocol<'text'>): void {
  describe(`${name} streams`, () => {
    if (!hasRecordings) {
      test.skip(`${name} recordings are not on this machine (GATEWAY_SHARED)`, () => {})
      return
    }
    const streams = listStreams(name)
    test('are recorded', () => expect(streams.length).toBeGreaterThan(0))
    const written = takeTurns(
      streams.flatMap(([name]) => Object.entries(SSE_VARIANTS).map(variant => ({ name, variant }))),
      Object.keys(SSE_VARIANTS).length,
      3,
    )
    describe.each(streams)('%s', (name, bytes) => {
      const own = written.filter(one => one.name === name).map(({ variant }) => variant)
      testStream(protocol, bytes, own)
    })
  })
}

const call = buildTextCall({ stream: true })
const LIMITS = { firstByte: 60_000, idle: 60_000, total: 60_000 }

/** Returns the parts of these pieces of one streamed answer. Throws what the stream throws. */
async function readParts(protocol: Protocol<'text'>, pieces: Uint8Array[]): Promise<TextPart[]> {
  const stream = new PartStream(
    buildResponse(pieces),
    protocol.createReader(call, buildEndpoint()),
    protocol.framing,
    new Deadline(new Cancellation(), LIMITS),
  )
  const parts: TextPart[] = []
  for (let next = await stream.next(); !next.done; next = await stream.next())
    parts.push(...next.value)
  return parts
}

function buildResponse(pieces: Uint8Array[]): IncomingResponse {
  let at = 0
  return {
    status: 200,
    header: () => null,
    text: () => Promise.reject(new Error('A stream is read in pieces')),
    read: async () => pieces[at++] ?? null,
  }
}

const cutInTwo = (bytes: Uint8Array, at: number) => [bytes.subarray(0, at), bytes.subarray(at)]
const cutEvery = (bytes: Uint8Array, size: number) =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  )

/**
 * Up to this length a stream is short. The long run cuts it at every byte, and a longer one at this
 * many places. A fifth of the streams are longer, with four fifths of the bytes: the events of
 * each are alike, so the other run cuts them at fewer places.
 */
const SHORT = 20_000
const MOST_CUTS = 500

/** Lists where a stream is cut: at a sample of its places, or at all if the tests may run long. */
const listCuts = (bytes: Uint8Array): number[] =>
  LONG ? listAllCuts(bytes) : listSampledCuts(bytes)

function listAllCuts({ length }: Uint8Array): number[] {
  const stride = length <= SHORT ? 1 : Math.ceil(length / MOST_CUTS)
  return Array.from({ length: Math.floor((length - 1) / stride) }, (_, i) => (i + 1) * stride)
}

/** Up to four cuts belong to each of these places, which are spread evenly. */
const PLACES = { short: 15, long: 4 }

/**
 * Cuts at each place, on both sides of the next end of a line, and within the next character of
 * several bytes: that is where a reader of frames has something to remember.
 */
function listSampledCuts(bytes: Uint8Array): number[] {
  const places = bytes.length <= SHORT ? PLACES.short : PLACES.long
  const cuts = Array.from({ length: places }, (_, i) => {
    const place = Math.floor(((i + 1) * bytes.length) / (places + 1))
    const lineEnd = bytes.indexOf(LINE_FEED, place)
    const character = bytes.findIndex((byte, at) => at >= place && byte >= FIRST_MULTI_BYTE)
    return [place, lineEnd, lineEnd + 1, character + 1]
  })
  return [...new Set(cuts.flat())].filter(at => at > 0 && at < bytes.length)
}

/** In bytes: what of a long stream is read byte by byte at each end, or wholly in the long run. */
const END = 5_000

const cutFinely = (bytes: Uint8Array): Uint8Array[] =>
  LONG || bytes.length <= SHORT
    ? cutEvery(bytes, 1)
    : [
        ...cutEvery(bytes.subarray(0, END), 1),
        ...cutEvery(bytes.subarray(END, -END), 7),
        ...cutEvery(bytes.subarray(-END), 1),
      ]

const LINE_FEED = 0x0a
/** The lowest first byte of a character of several bytes in UTF-8. */
const FIRST_MULTI_BYTE = 0xc0

/**
 * The same events, written in other ways that the standard allows (WHATWG HTML, 9.2.5 and 9.2.6) or
 * that servers use.
 */
const splitData = (text: string) => text.replaceAll('data: {', 'data: {\ndata: ')
const SSE_VARIANTS: Record<string, (text: string) => string> = {
  'lines that end in CRLF': text => text.replaceAll('\n', '\r\n'),
  'lines that end in CR': text => text.replaceAll('\n', '\r'),
  'a byte order mark in front': text => `\uFEFF${text}`,
  'comments between the events': text => text.replaceAll('\n\n', '\n\n: keep-alive\n\n:\n'),
  'a comment within each event': text => text.replaceAll('data: ', ': still here\ndata: '),
  'the data of each event on two lines': splitData,
  'the data of each event on two lines that end in CRLF': text =>
    splitData(text).replaceAll('\n', '\r\n'),
  'fields of no interest': text => text.replaceAll('data: ', 'id: 7\nretry: 1000\ndata: '),
  'no space after the colon': text => text.replace(/^(data|event): /gm, '$1:'),
  'no newline at the end': text => text.trimEnd(),
}

const getErrorType = (thrown: unknown) => (thrown instanceof GatewayError ? thrown.type : thrown)

function listStreams(protocol: string): [string, Uint8Array][] {
  const streamed = (recording: Recording) => recording.mode === 'streamed'
  return listRecordings(protocol)
    .filter(streamed)
    .map(recording => [recording.name, renderWire(recording).bytes])
}

function testStream(
  protocol: Protocol<'text'>,
  bytes: Uint8Array,
  variants: [string, (text: string) => string][],
): void {
  test('has content and ends', async () => {
    const { finish } = collectParts(await readParts(protocol, [bytes]))
    expect(finish).not.toBeNull()
  })

  test('trap 76: reads the same parts wherever it is cut in two', async () => {
    const whole = await readParts(protocol, [bytes])
    const different: number[] = []
    for (const at of listCuts(bytes))
      if (!Bun.deepEquals(await readParts(protocol, cutInTwo(bytes, at)), whole)) different.push(at)
    expect(different).toEqual([])
  }, 60_000)

  test('fails if it breaks off anywhere in its first half', async () => {
    const half = listCuts(bytes.subarray(0, bytes.length / 2))
    const ends = await Promise.all(
      half.map(at =>
        readParts(protocol, [bytes.subarray(0, at)]).then(() => 'whole', getErrorType),
      ),
    )
    expect(new Set(ends)).toEqual(new Set(['provider_unavailable']))
  })

  test('reads the same parts byte by byte', async () => {
    expect(await readParts(protocol, cutFinely(bytes))).toEqual(await readParts(protocol, [bytes]))
  })

  test.each(protocol.framing === 'sse' ? variants : [])(
    'reads the same with %s',
    async (_name, written) => {
      const whole = await readParts(protocol, [bytes])
      const variant = new TextEncoder().encode(written(new TextDecoder().decode(bytes)))
      for (const size of LONG ? [variant.length, 1, 7, 1000] : [variant.length, 7])
        expect(await readParts(protocol, cutEvery(variant, size))).toEqual(whole)
    },
  )
}
