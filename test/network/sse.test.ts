import { describe, expect, spyOn, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { SseScanner } from '../../src/network/sse.ts'
import type { Frame } from '../../src/translation/protocols/protocol.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)

/** Returns the frames of these chunks, including one that the server left open. */
function scan(pieces: Uint8Array[]): Frame[] {
  const scanner = new SseScanner()
  const frames = pieces.flatMap(piece => scanner.feed(piece))
  return [...frames, ...scanner.end()]
}

const framesOf = (text: string) => scan([bytesOf(text)])
const dataOf = (text: string) => framesOf(text).map(frame => frame.data)

/**
 * A byte order mark, comments, all three line ends, several data lines, letters of two to four
 * bytes, no last newline.
 */
const SAMPLE = [
  '\uFEFF: a comment\r\n\r\n',
  'data: {"a":"é€😀"}\n\n',
  'event: delta\r\ndata:no space\r\n\r\n',
  'data: one\ndata:  two\ndata:\n\n',
  'id: 7\nretry: 10\nevent:x\rdata: old mac\r\r',
  ':\n\n\n',
  'data: [DONE]',
].join('')

const EXPECTED: Frame[] = [
  { event: null, data: '{"a":"é€😀"}' },
  { event: 'delta', data: 'no space' },
  { event: null, data: 'one\n two\n' },
  { event: 'x', data: 'old mac' },
  { event: null, data: '[DONE]' },
]

describe('SseScanner', () => {
  test('reads all line ends, comments, data lines, a byte order mark and an open event', () => {
    expect(framesOf(SAMPLE)).toEqual(EXPECTED)
  })

  test('gives the same frames wherever the bytes are split', () => {
    const bytes = bytesOf(SAMPLE)
    const wrong = Array.from({ length: bytes.length + 1 }, (_, at) => at).filter(
      at => !Bun.deepEquals(scan([bytes.subarray(0, at), bytes.subarray(at)]), EXPECTED),
    )
    expect(wrong).toEqual([])
  })

  test('gives the same frames in chunks of any size, down to single bytes', () => {
    const bytes = bytesOf(SAMPLE)
    const inPieces = (size: number) =>
      scan(
        Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
          bytes.subarray(i * size, (i + 1) * size),
        ),
      )
    const wrong = [1, 2, 3, 5, 7, 11, 64].filter(size => !Bun.deepEquals(inPieces(size), EXPECTED))
    expect(wrong).toEqual([])
  })

  test('empty chunks change nothing', () => {
    const bytes = bytesOf('data: a\r\n\r\ndata: b\r\n\r\n')
    const pieces = [...bytes].flatMap(byte => [Uint8Array.of(byte), new Uint8Array()])
    expect(scan(pieces).map(frame => frame.data)).toEqual(['a', 'b'])
  })

  test('an event is emitted as soon as its blank line arrives', () => {
    const scanner = new SseScanner()
    expect(scanner.feed(bytesOf('data: a\n'))).toEqual([])
    expect(scanner.feed(bytesOf('\n'))).toEqual([{ event: null, data: 'a' }])
    expect(scanner.feed(bytesOf('data: b\r\n\r'))).toEqual([{ event: null, data: 'b' }])
    expect(scanner.feed(bytesOf('\n'))).toEqual([])
  })

  test('an event without data is dropped, and its name does not apply to the next', () => {
    expect(framesOf('event: ping\n\ndata: a\n\n')).toEqual([{ event: null, data: 'a' }])
  })

  test('only the first space after the colon is removed', () => {
    expect(dataOf('data:  a\n\ndata: b:c\n\n')).toEqual([' a', 'b:c'])
  })

  test('a field without a colon has an empty value', () => {
    expect(dataOf('data\n\ndata: a\ndata\ndata: b\n\ndata\ndata\n\n')).toEqual(['', 'a\n\nb', '\n'])
    expect(framesOf('event: x\nevent\ndata: a\n\n')).toEqual([{ event: '', data: 'a' }])
  })

  test('an unknown field is ignored', () => {
    expect(dataOf('database: a\nDATA: b\n data: c\ndata: d\n\n')).toEqual(['d'])
  })

  test('bytes that are not UTF-8 become replacement characters', () => {
    expect(
      scan([Uint8Array.of(0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0xc3, 0x0a, 0x0a)]).map(
        frame => frame.data,
      ),
    ).toEqual(['\uFFFD\uFFFD'])
  })
})

describe('SseScanner limits', () => {
  const MiB = 1024 * 1024
  const tooLarge = (feed: (scanner: SseScanner) => void) => () => feed(new SseScanner())

  test('an event may have just under 4 MiB', () => {
    const text = 'x'.repeat(4 * MiB - 10)
    expect(dataOf(`data: ${text}\n\n`)[0]?.length).toBe(text.length)
  })

  test('an event past 4 MiB is refused: in one line, over many lines, in endless bytes', () => {
    const line = bytesOf(`data: ${'x'.repeat(64 * 1024)}\n`)
    const piece = bytesOf('x'.repeat(64 * 1024))
    const endless = (bytes: Uint8Array) =>
      tooLarge(scanner => {
        for (let i = 0; i < 70; i++) scanner.feed(bytes)
      })
    expect(tooLarge(scanner => scanner.feed(bytesOf(`data: ${'x'.repeat(4 * MiB)}\n\n`)))).toThrow(
      GatewayError,
    )
    expect(endless(line)).toThrow(GatewayError)
    expect(endless(piece)).toThrow(GatewayError)
  })

  test('comments between events never add up', () => {
    const scanner = new SseScanner()
    const comment = bytesOf(`: ${'x'.repeat(64 * 1024)}\n\n`)
    for (let i = 0; i < 100; i++) expect(scanner.feed(comment)).toEqual([])
  })

  /** Counts the characters searched for line ends while an event arrives in chunks of 16 bytes. */
  function searchedFor(length: number): number {
    const event = bytesOf(`data: ${'x'.repeat(length - 8)}\n\n`)
    const scanner = new SseScanner()
    const search = spyOn(String.prototype, 'indexOf')
    try {
      for (let at = 0; at < event.length; at += 16) scanner.feed(event.subarray(at, at + 16))
      return search.mock.contexts.reduce<number>((sum, text) => sum + String(text).length, 0)
    } finally {
      search.mockRestore()
    }
  }

  test('no character is searched again because its line is long', () => {
    expect(searchedFor(MiB / 8)).toBeLessThan(MiB / 2)
  })
})
