import { describe, expect, spyOn, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { AwsEventStreamScanner } from '../../src/network/part-stream.ts'
import type { Frame } from '../../src/translation/protocols/protocol.ts'
import {
  awsError,
  awsEvent,
  awsException,
  awsMessage,
  type HeaderBytes,
  textHeader,
} from '../support/aws-event-stream.ts'

const MiB = 1024 * 1024

/** Returns the frames of these chunks. */
function scan(...pieces: Uint8Array[]): Frame[] {
  const scanner = new AwsEventStreamScanner()
  const frames = pieces.flatMap(piece => scanner.feed(piece))
  return [...frames, ...scanner.end()]
}

const inPieces = (bytes: Uint8Array, size: number) =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  )

const bytesOf = (hex: string) => Uint8Array.from(Buffer.from(hex.replaceAll(' ', ''), 'hex'))

/** Returns the bytes with one of them changed. */
const broken = (bytes: Uint8Array, at: number) =>
  Uint8Array.from(bytes, (byte, i) => (i === at ? byte ^ 1 : byte))

function failureOf(act: () => unknown): unknown {
  try {
    act()
  } catch (thrown) {
    return thrown
  }
  return undefined
}

function expectUnreadable(act: () => unknown): void {
  const failure = failureOf(act)
  expect(failure).toBeInstanceOf(GatewayError)
  expect(failure).toMatchObject({
    type: 'provider_unavailable',
    message: 'Provider returned error',
  })
}

/** Headers with a value of every type. */
const EVERY_TYPE: HeaderBytes[] = [
  ['true', 0, new Uint8Array()],
  ['false', 1, new Uint8Array()],
  ['byte', 2, new Uint8Array(1)],
  ['short', 3, new Uint8Array(2)],
  ['integer', 4, new Uint8Array(4)],
  ['long', 5, new Uint8Array(8)],
  ['bytes', 6, Buffer.from(':event-type')],
  ['no bytes', 6, new Uint8Array()],
  ['timestamp', 8, new Uint8Array(8)],
  ['uuid', 9, new Uint8Array(16)],
]

const EVENT = [textHeader(':message-type', 'event'), textHeader(':event-type', 'chunk')]

describe('AwsEventStreamScanner', () => {
  test('the test’s encoder reproduces the vendor’s own test vectors', () => {
    expect(awsMessage([], '')).toEqual(bytesOf('00000010 00000000 05c248eb 7d98c8ff'))
    expect(awsMessage([textHeader('content-type', 'application/json')], "{'foo':'bar'}")).toEqual(
      bytesOf(
        `0000003d 00000020 07fd8396 0c ${Buffer.from('content-type').toString('hex')} 07 0010
        ${Buffer.from('application/json').toString('hex')} ${Buffer.from("{'foo':'bar'}").toString('hex')} 8d9c08b1`.replace(
          /\s+/g,
          '',
        ),
      ),
    )
  })

  test('an event gives its type and its payload', () => {
    expect(scan(awsEvent('messageStop', '{"stopReason":"end_turn"}'))).toEqual([
      { event: 'messageStop', data: '{"stopReason":"end_turn"}' },
    ])
    expect(scan(awsEvent('contentBlockDelta', '{"a":"é€😀"}'))).toEqual([
      { event: 'contentBlockDelta', data: '{"a":"é€😀"}' },
    ])
    expect(scan(awsMessage([textHeader(':message-type', 'event')], ''))).toEqual([
      { event: null, data: '' },
    ])
  })

  test('an exception gives its type and its payload', () => {
    expect(scan(awsException('throttlingException', '{"message":"Too many"}'))).toEqual([
      { event: 'throttlingException', data: '{"message":"Too many"}' },
    ])
  })

  test('an error gives its code and a payload with its message', () => {
    expect(scan(awsError('InternalError', 'It "broke"'))).toEqual([
      { event: 'InternalError', data: '{"message":"It \\"broke\\""}' },
    ])
    expect(scan(awsMessage([textHeader(':message-type', 'error')], ''))).toEqual([
      { event: null, data: '{"message":""}' },
    ])
  })

  test('headers of every type are skipped at any position', () => {
    expect(
      scan(awsMessage([...EVERY_TYPE, ...EVENT], 'a'), awsMessage([...EVENT, ...EVERY_TYPE], 'b')),
    ).toEqual([
      { event: 'chunk', data: 'a' },
      { event: 'chunk', data: 'b' },
    ])
  })

  test('a thousand messages in one read keep their order', () => {
    const messages = Array.from({ length: 1000 }, (_, i) => awsEvent('chunk', String(i)))
    expect(scan(Buffer.concat(messages)).map(frame => frame.data)).toEqual(
      messages.map((_, i) => String(i)),
    )
  })

  test('a message is emitted with its last byte', () => {
    const scanner = new AwsEventStreamScanner()
    const message = awsEvent('chunk', 'x'.repeat(100))
    expect(scanner.feed(message.subarray(0, -1))).toEqual([])
    expect(scanner.feed(message.subarray(-1))).toHaveLength(1)
    expect(scanner.end()).toEqual([])
  })

  const SAMPLE = Buffer.concat([
    awsEvent('a', '{"é":1}'),
    awsException('b', ''),
    awsError('c', 'd'),
    awsMessage([...EVERY_TYPE, ...EVENT], 'e'),
  ])

  test('gives the same frames wherever the bytes are split, and in chunks of any size', () => {
    const expected = scan(SAMPLE)
    expect(expected.map(frame => frame.event)).toEqual(['a', 'b', 'c', 'chunk'])
    for (let at = 0; at <= SAMPLE.length; at++)
      expect(scan(SAMPLE.subarray(0, at), SAMPLE.subarray(at))).toEqual(expected)
    for (let size = 1; size <= SAMPLE.length; size++)
      expect(scan(...inPieces(SAMPLE, size))).toEqual(expected)
  })

  test('only the view of a larger buffer is read', () => {
    const message = awsEvent('chunk', 'x')
    const larger = Buffer.concat([Buffer.from('before'), message, Buffer.from('after')])
    expect(scan(new Uint8Array(larger.buffer, larger.byteOffset + 6, message.length))).toEqual([
      { event: 'chunk', data: 'x' },
    ])
  })

  test('a payload that is not UTF-8 becomes replacement characters', () => {
    expect(scan(awsMessage(EVENT, Uint8Array.of(0xff, 0xc3)))).toEqual([
      { event: 'chunk', data: '\uFFFD\uFFFD' },
    ])
  })
})

describe('AwsEventStreamScanner refuses', () => {
  const message = awsEvent('chunk', '{"a":1}')

  test('a message with any byte changed', () => {
    for (let at = 0; at < message.length; at++) expectUnreadable(() => scan(broken(message, at)))
  })

  test('a message with any byte changed that arrives byte by byte', () => {
    for (let at = 0; at < message.length; at++)
      expectUnreadable(() => scan(...inPieces(broken(message, at), 1)))
  })

  test('a stream that ends anywhere within a message', () => {
    for (let length = 1; length < message.length; length++)
      expectUnreadable(() => scan(message.subarray(0, length)))
  })

  /** Returns a prelude with these lengths and the right checksum. */
  function preludeOf(total: number, headers: number): Uint8Array {
    const bytes = Buffer.alloc(12)
    bytes.writeUInt32BE(total, 0)
    bytes.writeUInt32BE(headers, 4)
    bytes.writeUInt32BE(Bun.hash.crc32(bytes.subarray(0, 8)), 8)
    return bytes
  }

  test.each([
    [0, 0],
    [15, 0],
    [16, 1],
    [100, 85],
    [100, 0xffffffff],
    [4 * MiB + 1, 0],
    [0xffffffff, 0],
    [0xffffffff, 0xffffffff],
  ])('a length of %p with headers of %p, before any of it comes', (total, headers) => {
    expectUnreadable(() => new AwsEventStreamScanner().feed(preludeOf(total, headers)))
    expectUnreadable(() =>
      inPieces(preludeOf(total, headers), 5).reduce(
        (scanner, piece) => fed(scanner, piece),
        new AwsEventStreamScanner(),
      ),
    )
  })

  function fed(scanner: AwsEventStreamScanner, piece: Uint8Array): AwsEventStreamScanner {
    scanner.feed(piece)
    return scanner
  }

  test.each<[string, HeaderBytes[]]>([
    ['of no known kind', [textHeader(':message-type', 'other')]],
    ['of no kind', [textHeader(':event-type', 'chunk')]],
    ['whose kind is no text', [[':message-type', 6, Buffer.from('event')]]],
    ['with a header of an unknown type', [...EVENT, ['x', 10, new Uint8Array()]]],
    ['with a header that is too short', [...EVENT, ['x', 9, new Uint8Array(15)]]],
    ['with a header without its value', [...EVENT, ['x', 5, new Uint8Array()]]],
  ])('a message %s', (_, headers) => {
    expectUnreadable(() => scan(awsMessage(headers, '')))
  })

  test('a message whose headers end within one of them', () => {
    const text = textHeader('name', 'value')
    const whole = awsMessage([text], '').subarray(12, -4)
    for (let length = 1; length < whole.length; length++) {
      // The incomplete header follows a complete one.
      const cut = awsMessage([...EVENT, ['', 0, whole.subarray(0, length)]], '')
      expectUnreadable(() => scan(cut))
    }
  })
})

describe('AwsEventStreamScanner limits', () => {
  const overhead = awsEvent('chunk', '').length

  test('a message may have 4 MiB in total', () => {
    const message = awsEvent('chunk', 'x'.repeat(4 * MiB - overhead))
    expect(message.length).toBe(4 * MiB)
    expect(scan(message)[0]?.data.length).toBe(4 * MiB - overhead)
    expect(scan(...inPieces(message, 64 * 1024))[0]?.data.length).toBe(4 * MiB - overhead)
  })

  /** Counts the bytes that are copied and checksummed while these arrive in chunks of `size`. */
  function workFor(bytes: Uint8Array, size: number): { copied: number; summed: number } {
    const copy = spyOn(Buffer.prototype, 'copy')
    const sum = spyOn(Bun.hash, 'crc32')
    try {
      scan(...inPieces(bytes, size))
      return {
        copied: copy.mock.results.reduce((total, { value }) => total + Number(value), 0),
        summed: sum.mock.calls.reduce((total, [data]) => total + (data as Uint8Array).length, 0),
      }
    } finally {
      copy.mockRestore()
      sum.mockRestore()
    }
  }

  test('each byte is copied and summed once, the prelude’s twice, in any number of reads', () => {
    const message = awsEvent('chunk', 'x'.repeat(MiB / 8))
    const { copied, summed } = workFor(message, 16)
    expect(copied).toBe(message.length + 12)
    expect(summed).toBe(message.length - 4 + 2 * 8)
  })

  test('a message that arrives in one read is not copied', () => {
    const messages = Buffer.concat([awsEvent('chunk', 'x'.repeat(1000)), awsEvent('chunk', 'y')])
    expect(workFor(messages, messages.length).copied).toBe(0)
  })
})
