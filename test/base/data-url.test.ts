import { describe, expect, test } from 'bun:test'
import {
  Base64Pieces,
  isDataUrl,
  parseDataUrl,
  readPlainText,
  toTextUrl,
} from '../../src/base/data-url.ts'
import { GatewayError } from '../../src/base/errors.ts'

const base64 = (text: string) => Buffer.from(text).toString('base64')

describe('parseDataUrl', () => {
  test.each([
    ['data:image/png;base64,aGk=', 'image/png', 'aGk='],
    ['DATA:Image/PNG;BASE64,aGk=', 'image/png', 'aGk='],
    ['data:image/svg+xml;charset=utf-8;base64,aGk=', 'image/svg+xml', 'aGk='],
    ['data:image/png ; base64,aGk=', 'image/png', 'aGk='],
    ['data:;base64,aGk=', 'text/plain', 'aGk='],
    ['data:image/png;base64,aGk', 'image/png', 'aGk='],
    ['data:image/png;base64,aG\r\n k=\n', 'image/png', 'aGk='],
    ['data:image/png;base64,aGk%3D', 'image/png', 'aGk='],
    ['data:image/png;base64,%2F%2b8=', 'image/png', '/+8='],
    ['data:image/png;base64,_-8', 'image/png', '/+8='],
    ['data:image/png;base64,/+8', 'image/png', '/+8='],
    ['data:text/plain,hi', 'text/plain', base64('hi')],
    ['data:,hi', 'text/plain', base64('hi')],
    ['data:text/plain;charset=utf-8,a%20b%c3%A9,c', 'text/plain', base64('a bé,c')],
    ['data:text/plain,é😀', 'text/plain', base64('é😀')],
    ['data:text/plain,100%', 'text/plain', base64('100%')],
    ['data:text/plain,%4', 'text/plain', base64('%4')],
    ['data:text/plain,%zz%41', 'text/plain', base64('%zzA')],
    ['data:application/octet-stream,%00%ff', 'application/octet-stream', 'AP8='],
    ['data:text/plain;base64x,hi', 'text/plain', base64('hi')],
    ['data:text/plain;base64;charset=utf-8,hi', 'text/plain', base64('hi')],
  ])('parses %j as %s in base64', (url, media_type, data) => {
    expect(parseDataUrl(url)).toEqual({ media_type, data })
  })

  test.each([
    ['data:image/png;base64'],
    ['data:'],
    ['data:image/png;base64,'],
    ['data:image/png,'],
    ['data:image/png;base64,a'],
    ['data:image/png;base64,aGkaG'],
    ['data:image/png;base64,aG*k'],
    ['data:image/png;base64,aGk=aGk='],
    ['data:image/png;base64,aGk=='],
    ['data:image/png;base64,===='],
    ['data:image/png;base64,aGké'],
    ['data:image;base64,aGk='],
    ['data:image/p ng;base64,aGk='],
    ['data:image/"png";base64,aGk='],
    [`data:image/${'x'.repeat(2000)};base64,aGk=`],
    ['https://example.com/a.png,b'],
    ['xdata:image/png;base64,aGk='],
  ])('refuses %j as invalid_image', url => {
    const failure = (() => {
      try {
        return parseDataUrl(url, 'messages.0.content.1')
      } catch (thrown) {
        return thrown
      }
    })()
    expect(failure).toBeInstanceOf(GatewayError)
    expect(failure).toMatchObject({
      type: 'invalid_image',
      status: 400,
      metadata: { field: 'messages.0.content.1' },
    })
  })

  test('keeps existing base64 as it is, however large', () => {
    const data = Buffer.alloc(3 * 1024 * 1024, 7).toString('base64')
    expect(parseDataUrl(`data:image/png;base64,${data}`).data === data).toBe(true)
  })

  test('preserves content of every length and every byte', () => {
    const bytes = Uint8Array.from({ length: 300 }, (_, i) => i % 256)
    for (let length = 1; length <= bytes.length; length++) {
      const data = Buffer.from(bytes.subarray(0, length)).toString('base64')
      expect(parseDataUrl(`data:a/b;base64,${data}`).data).toBe(data)
      const url = `data:a/b;base64,${Buffer.from(bytes.subarray(0, length)).toString('base64url')}`
      expect(parseDataUrl(url).data).toBe(data)
    }
  })

  test('refuses base64 with any broken character', () => {
    const data = Buffer.from('what is in here').toString('base64')
    for (let at = 0; at < data.length; at++)
      for (const letter of ['!', '"', 'é', '\0']) {
        const broken = data.slice(0, at) + letter + data.slice(at + 1)
        expect(() => parseDataUrl(`data:a/b;base64,${broken}`)).toThrow(
          'The data URL cannot be read',
        )
      }
  })
})

test('isDataUrl looks at the scheme only', () => {
  expect(['data:', 'DaTa:x', 'data', 'http://data:', ' data:x'].map(isDataUrl)).toEqual([
    true,
    true,
    false,
    false,
    false,
  ])
})

test('trap 13: an image has the type of its bytes, whatever the URL says', () => {
  const typeOf = (said: string, bytes: string) =>
    parseDataUrl(`data:${said};base64,${Buffer.from(bytes, 'latin1').toString('base64')}`)
      .media_type
  expect(typeOf('image/jpeg', '\x89PNG\r\n\x1a\n....')).toBe('image/png')
  expect(typeOf('image/png', '\xff\xd8\xff\xe0....')).toBe('image/jpeg')
  expect(typeOf('image/png', 'GIF89a....')).toBe('image/gif')
  expect(typeOf('image/png', 'RIFF....WEBP')).toBe('image/webp')
  expect(typeOf('image/svg+xml', '<svg/>')).toBe('image/svg+xml')
  expect(typeOf('audio/wav', 'RIFF....WAVE')).toBe('audio/wav')
})

test('separately padded pieces of base64 are joined by their bytes', () => {
  const join = (pieces: string[]) => {
    const joined = new Base64Pieces()
    for (const piece of pieces) joined.add(piece)
    return joined.join()
  }
  const padded = ['a', 'bc', 'def', 'g'].map(base64)
  expect(Buffer.from(join(padded), 'base64').toString()).toBe('abcdefg')
  expect(join(['', 'YQ=='])).toBe('YQ==')
  expect(join(['YWJ', 'j', 'ZGVm'])).toBe('YWJjZGVm')
  expect(join([])).toBe('')
})

test.each([0, 1, 2, 3, 49_151, 49_152, 49_153, 98_304, 200_000])(
  'a text of %d units as a data URL is in one piece of base64, and comes back',
  size => {
    for (const unit of ['a', 'é漢']) {
      const text = unit.repeat(size)
      const url = toTextUrl(text)
      expect(url === `data:text/plain;base64,${base64(text)}`).toBe(true)
      if (size > 0) expect(readPlainText(url) === text).toBe(true)
    }
  },
)
