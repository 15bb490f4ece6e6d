import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import { MultipartReader, readBoundary } from '../../../src/server/body/multipart.ts'
import { createSeededRandom, LONG, SEED } from '../../support/random.ts'

/** A part as it was found. */
interface Part {
  name: string
  filename: string | undefined
  bytes: Buffer
}

/** Reads a form whose bytes come in these pieces. Throws what the reader throws. */
function readForm(boundary: string, pieces: Iterable<Uint8Array>): Part[] {
  const reader = new MultipartReader(boundary)
  const parts: Part[] = []
  let open = false
  for (const piece of pieces) {
    // As the server does: the memory of a piece is used again.
    const own = Buffer.from(piece)
    for (const event of reader.push(own)) {
      if (event.kind === 'part') {
        expect(open).toBe(false)
        open = true
        parts.push({ ...event.head, bytes: Buffer.alloc(0) })
      } else if (event.kind === 'partEnd') open = false
      else {
        const last = parts.at(-1) as Part
        last.bytes = Buffer.concat([last.bytes, event.bytes])
      }
    }
    own.fill(0xaa)
  }
  reader.finish()
  return parts
}

const renderPart = (boundary: string, head: string, bytes: Uint8Array | string) =>
  Buffer.concat([
    Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`),
    Buffer.from(bytes),
    Buffer.from('\r\n'),
  ])
const disposition = (more: string) => `Content-Disposition: form-data; ${more}`
const renderForm = (boundary: string, ...parts: Buffer[]) =>
  Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])

const statusOf = (work: () => unknown) => {
  try {
    work()
    return 200
  } catch (thrown) {
    return GatewayError.from(thrown).status
  }
}

const FORM = renderForm(
  'X',
  renderPart('X', disposition('name="purpose"'), 'user_data'),
  renderPart(
    'X',
    `${disposition('name="file"; filename="a b.txt"')}\r\nContent-Type: text/plain`,
    'one\r\n--Y\r\n--X-not\r\r\n--',
  ),
  renderPart('X', disposition('name="empty"'), ''),
)
const WANTED = [
  { name: 'purpose', filename: undefined, bytes: Buffer.from('user_data') },
  { name: 'file', filename: 'a b.txt', bytes: Buffer.from('one\r\n--Y\r\n--X-not\r\r\n--') },
  { name: 'empty', filename: undefined, bytes: Buffer.alloc(0) },
]

describe('C-12 a form', () => {
  // A boundary ends at a line end or two hyphens, so `--X-not` needs another one.
  const form = Buffer.from(
    FORM.toString('latin1').replaceAll('--X\r\n', '--XY\r\n').replace('--X--', '--XY--'),
    'latin1',
  )

  test('is the same however it is split', () => {
    for (let at = 0; at <= form.length; at++)
      expect(readForm('XY', [form.subarray(0, at), form.subarray(at)])).toEqual(WANTED)
    expect(
      readForm(
        'XY',
        Array.from(form, byte => Uint8Array.of(byte)),
      ),
    ).toEqual(WANTED)
  })

  test('of random contents that resemble boundaries is read as it was written', () => {
    const random = createSeededRandom(SEED)
    const cases = LONG ? 30_000 : 300
    const alphabet = ['\r', '\n', '-', 'X', 'Z', '\r\n--X', '\r\n--', '\r\n']
    const pick = <Item>(items: Item[]) => items[Math.floor(random() * items.length)] as Item
    for (let i = 0; i < cases; i++) {
      const draw = () =>
        Array.from({ length: Math.floor(random() * 30) }, () => pick(alphabet)).join('')
      // The boundary has a letter that no content has.
      const contents = Array.from({ length: 1 + Math.floor(random() * 4) }, draw)
      const whole = renderForm(
        'XbX',
        ...contents.map((text, n) => renderPart('XbX', disposition(`name="p${n}"`), text)),
      )
      const pieces: Buffer[] = []
      for (let at = 0; at < whole.length; ) {
        const end = at + 1 + Math.floor(random() * 12)
        pieces.push(whole.subarray(at, end))
        at = end
      }
      expect(readForm('XbX', pieces).map(({ bytes }) => bytes.toString())).toEqual(contents)
    }
  })

  test('may have a preamble, an epilogue and spaces after its boundaries', () => {
    const padded = Buffer.concat([
      Buffer.from('ignore me\r\n--X \t\r\nContent-Disposition: form-data; name=file\r\n\r\nhi'),
      Buffer.from('\r\n--X--\r\nand me\r\n--X\r\n'),
    ])
    expect(readForm('X', [padded])).toEqual([
      { name: 'file', filename: undefined, bytes: Buffer.from('hi') },
    ])
  })

  test.each([
    ['name="file"; filename="a.txt"', 'a.txt'],
    ['name=file; filename=a.txt', 'a.txt'],
    ['filename="ä 日本.txt";name="file"', 'ä 日本.txt'],
    ['name="file"; filename="a\\"b\\\\c"', 'a"b\\c'],
    ['name="file"; filename="a%22b%0D%0A"', 'a"b\r\n'],
    ['name="file"; filename="%2e%2e%2fx"', '%2e%2e%2fx'],
    ['name="file"; filename="../../x"', '../../x'],
    ['name="file"; filename=""', ''],
    ['name="file"; filename="a;b=c"', 'a;b=c'],
    ['name="file"; filename="a\\b"', 'a\\b'],
  ])('has the name that its head says: %s', (head, filename) => {
    const [part] = readForm('X', [renderForm('X', renderPart('X', disposition(head), 'x'))])
    expect(part).toMatchObject({ name: 'file', filename })
  })

  const bad: [string, Buffer][] = [
    ['nothing', Buffer.alloc(0)],
    ['no boundary', Buffer.from('hello')],
    ['a long preamble', Buffer.concat([Buffer.alloc(4_000, 'a'), FORM])],
    ['no last boundary', FORM.subarray(0, -6)],
    ['a cut head', Buffer.from('--X\r\nContent-Disposition: form-data; name="file"\r\n')],
    ['a part without a disposition', renderForm('X', renderPart('X', 'Content-Type: a/b', 'x'))],
    ['a part without a name', renderForm('X', renderPart('X', disposition('filename="x"'), 'x'))],
    ['two names', renderForm('X', renderPart('X', disposition('name=a; name=b'), 'x'))],
    [
      'two dispositions',
      renderForm('X', renderPart('X', `${disposition('name=a')}\r\n${disposition('name=b')}`, 'x')),
    ],
    [
      'another disposition',
      renderForm('X', renderPart('X', 'Content-Disposition: attachment; name=a', 'x')),
    ],
    ['an open quote', renderForm('X', renderPart('X', disposition('name="a'), 'x'))],
    [
      'a quote full of backslashes',
      renderForm('X', renderPart('X', disposition(`name="${'\\'.repeat(7_000)}`), 'x')),
    ],
    [
      'a head that is no UTF-8',
      renderForm('X', renderPart('X', disposition('name="a'), 'x')).fill(0xff, 45, 46),
    ],
    [
      'a head of a mebibyte',
      renderForm('X', renderPart('X', `A: ${'a'.repeat(1024 * 1024)}`, 'x')),
    ],
    ['a head without end', Buffer.concat([Buffer.from('--X\r\n'), Buffer.alloc(1024 * 1024, 'a')])],
    [
      '20,000 parts',
      renderForm(
        'X',
        ...Array.from({ length: 20_000 }, () => renderPart('X', disposition('name=a'), 'x')),
      ),
    ],
    ['text after a boundary', Buffer.from('--X hello\r\n\r\n')],
    ['spaces without end', Buffer.concat([Buffer.from('--X'), Buffer.alloc(4_000, ' ')])],
  ]
  test.each(bad)('is refused with %s, whole and byte by byte', (_, bytes) => {
    expect(statusOf(() => readForm('X', [bytes]))).toBe(400)
    const small = bytes.subarray(0, 20_000)
    if (small.length < bytes.length) return
    expect(
      statusOf(() =>
        readForm(
          'X',
          Array.from(small, byte => Uint8Array.of(byte)),
        ),
      ),
    ).toBe(400)
  })

  test('of hyphens, line ends and almost boundaries takes work that grows with its length', () => {
    const boundary = '-'.repeat(69)
    for (const unit of ['-', '\r\n-', '\r', `\r\n--${boundary.slice(1)}\n`]) {
      const content = Buffer.alloc(4 * 1024 * 1024, unit)
      const form = renderForm(boundary, renderPart(boundary, disposition('name=a'), content))
      const pieces = Array.from({ length: Math.ceil(form.length / 65_536) }, (_, i) =>
        form.subarray(i * 65_536, (i + 1) * 65_536),
      )
      expect(readForm(boundary, pieces).length).toBe(1)
    }
  })
})

describe('a media type', () => {
  test.each([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['Multipart/Form-Data; charset=utf-8; Boundary="a b"', 'a b'],
    [`multipart/form-data; boundary=${'a'.repeat(70)}`, 'a'.repeat(70)],
  ])('has a boundary: %s', (type, boundary) => expect(readBoundary(type)).toBe(boundary))

  test.each([
    null,
    '',
    'application/json',
    'multipart/form-data',
    'multipart/form-data; boundary=',
    'multipart/form-data; boundary=""',
    'multipart/form-data; boundary="a "',
    'multipart/form-data; boundary="a\u00e4"',
    `multipart/form-data; boundary=${'a'.repeat(71)}`,
    `multipart/form-data; boundary=${'a'.repeat(7_000)}`,
    'multipart/form-data; boundary=a; boundary=b',
    'multipart/mixed; boundary=a',
  ])('is refused without one: %p', type => expect(statusOf(() => readBoundary(type))).toBe(400))
})
