import { describe, expect, test } from 'bun:test'
import { deflateSync } from 'node:zlib'
import { checkPictures } from '../../../../src/engine/kinds/image.ts'
import type { ImageParams, Picture } from '../../../../src/language/image.ts'
import type { UpstreamWorld } from '../../../../src/network/world.ts'
import { buildEndpoint, buildImageCall } from '../../../support/call.ts'
import { measureBestLoopUse } from '../../../support/event-loop.ts'

/** A server that chooses the format itself, as models do that draw in a conversation. */
const endpoint = buildEndpoint({ output_modalities: ['image', 'text'] })
// Nothing is fetched: the world is not looked at.
const world = {} as UpstreamWorld

async function check(bytes: Uint8Array | string, params: ImageParams = {}): Promise<Picture> {
  const data = Buffer.from(bytes as string).toString('base64')
  const call = buildImageCall({ params })
  const asked = { call, endpoint, cancellation: null, enterRoom: async () => undefined }
  const [part] = await checkPictures(world, [{ type: 'picture', data }], asked)
  return part?.type === 'picture' ? part : expect.unreachable()
}

const crc = (bytes: Uint8Array) => {
  const buffer = Buffer.alloc(4)
  buffer.writeUInt32BE(Bun.hash.crc32(bytes) >>> 0)
  return buffer
}

function chunk(type: string, data: Uint8Array): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(data.length)
  const body = Buffer.concat([Buffer.from(type), data])
  return Buffer.concat([length, body, crc(body)])
}

/** A grey PNG. Its rows are what it says, unless `rows` says that it has fewer. */
function png(width: number, height: number, rows = height): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.writeUInt8(8, 8)
  const pixels = deflateSync(Buffer.alloc((width + 1) * rows, 0))
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', head),
    chunk('IDAT', pixels),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** A GIF of one pixel, as often as it says. */
function gif(frames: number): Buffer {
  const head = Buffer.from('474946383961010001008000000000 00ffffff'.replace(' ', ''), 'hex')
  const frame = Buffer.from('21f9040000000000' + '2c000000000100010000' + '02024401' + '00', 'hex')
  return Buffer.concat([head, ...Array.from({ length: frames }, () => frame), Buffer.from([0x3b])])
}

const REFUSED = { reason: { message: 'The answer of the provider is no picture' } }
/** Where the second slice of a text begins that is looked through. */
const SEAM = 64 * 1024
const svg = (inside: string) => `<svg xmlns="http://www.w3.org/2000/svg">${inside}</svg>`

describe('a picture in another format than the call asks for', () => {
  test.each(['png', 'jpeg', 'webp'] as const)('becomes %s', async format => {
    for (const given of [png(40, 20), await new Bun.Image(png(40, 20)).jpeg().bytes()]) {
      const picture = await check(given, { output_format: format })
      expect(picture).toMatchObject({
        media_type: `image/${format}`,
        pixels: { width: 40, height: 20 },
      })
      const metadata = await new Bun.Image(Buffer.from(picture.data, 'base64')).metadata()
      expect(metadata).toEqual({ width: 40, height: 20, format })
    }
  })

  test('is compressed as the call asks, although it has that format', async () => {
    const pixels = png(256, 256)
    const noise = await new Bun.Image(pixels).jpeg({ quality: 100 }).bytes()
    const sizes = []
    for (const output_compression of [0, 100]) {
      const params: ImageParams = { output_format: 'jpeg', output_compression }
      sizes.push((await check(noise, params)).data.length)
    }
    expect(sizes[0]).toBeLessThan(sizes[1] ?? 0)
  })

  test('stays byte for byte where it is as the call asks', async () => {
    const given = png(40, 20)
    for (const params of [{}, { output_format: 'png' }] as ImageParams[])
      expect((await check(given, params)).data).toBe(given.toString('base64'))
  })
})

describe('a picture that is', () => {
  test('X-44 a bomb by its pixels is none, whether it is converted or not', async () => {
    const bomb = png(30_000, 30_000, 1)
    await expect(check(bomb)).rejects.toMatchObject(REFUSED)
    await expect(check(bomb, { output_format: 'webp' })).rejects.toThrow()
  })

  test('larger than any tier is passed on, and not decoded', async () => {
    const large = png(9_000, 9_000, 1)
    expect((await check(large)).pixels).toEqual({ width: 9_000, height: 9_000 })
    await expect(check(large, { output_format: 'webp' })).rejects.toMatchObject(REFUSED)
  })

  test('cut off is not converted', async () => {
    const whole = png(256, 256)
    const jpeg = await new Bun.Image(whole).jpeg().bytes()
    for (const cut of [whole.subarray(0, 80), jpeg.subarray(0, jpeg.length / 2)])
      await expect(check(cut, { output_format: 'webp' })).rejects.toThrow()
  })

  test('a film of 10,000 frames becomes its first one', async () => {
    const film = gif(10_000)
    expect((await check(film)).media_type).toBe('image/gif')
    const still = await check(film, { output_format: 'png' })
    expect(still).toMatchObject({ media_type: 'image/png', pixels: { width: 1, height: 1 } })
    expect(still.data.length).toBeLessThan(1_000)
  })

  test.each([
    svg('<defs><g id="a"/></defs><use href="#a"/><use xlink:href=\'#a\'/>'),
    svg('<path fill="url(#a)" style="mask: url( \'#b\' )"/><text>A &amp; B = on x="1"</text>'),
    svg('<image href="data:image/png;base64,AAAA"/><style>path { fill: red }</style>'),
    svg('<set attributeName="fill" to="red"/><text>&#x4E2D;&#25991;</text>'),
    svg('<text>&#x10FFFF; and no character: &#x110000;</text>'),
    `<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
${svg('<path d="M0 0h9"/>')}`,
  ])('an SVG that draws is a picture: %s', async drawing => {
    expect((await check(drawing)).media_type).toBe('image/svg+xml')
  })

  test('an SVG that is costly to look through takes no long turn', async () => {
    const worst = ['\\6', '&#115;', ' a="b"', '<a', ' href', 'url( ', '<!DOCTYPE svg ', 'encoding ']
    for (const piece of worst) {
      const text = svg(piece.repeat((2 * 1024 * 1024) / piece.length))
      const { longest } = await measureBestLoopUse(50, () => check(text).catch(() => undefined))
      expect([piece, longest < 50]).toEqual([piece, true])
    }
    await expect(check(svg(' '.repeat(5 * 1024 * 1024)))).rejects.toThrow()
  })

  test('a drawing of lines stays one, and becomes no pixels', async () => {
    const lines = svg('<path d="M0 0h9"/>')
    expect((await check(lines)).media_type).toBe('image/svg+xml')
    await expect(check(lines, { output_format: 'png' })).rejects.toThrow()
  })

  test.each([
    svg('<script>alert(1)</script>'),
    svg('<g onload = "alert(1)"/>'),
    svg('<a href="javascript:alert(1)"><text>x</text></a>'),
    svg('<foreignObject><body xmlns="http://www.w3.org/1999/xhtml"/></foreignObject>'),
    '<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg>&a;</svg>',
    `<?xml version="1.0"?>${svg('<svg:script href="https://evil.example"/>')}`,
    `<?xml version="1.0"?><?xml-stylesheet href="https://evil.example/a.css"?>${svg('')}`,
    '<!DOCTYPE svg SYSTEM "https://evil.example/a.dtd"><svg>&a;</svg>',
    '<?xml version="1.0" encoding="UTF-7"?><svg>+ADw-script+AD4-</svg>',
    svg('<use href="https://evil.example/a.svg#b"/>'),
    svg('<use xlink:href="//evil.example/a.svg#b"/>'),
    svg('<image x="1" xlink:href = "https://evil.example/a.png"/>'),
    svg('<image href="data:image/svg+xml;base64,PHN2Zy8+"/>'),
    svg('<style>@import "https://evil.example/a.css";</style>'),
    svg('<style>@\\69mport "https://evil.example/a.css";</style>'),
    svg('<style>path{fill:url( https://evil.example/a.svg#b )}</style>'),
    svg('<path style="fill:u\\72l(https://evil.example/a.svg#b)"/>'),
    svg('<path fill="&#117;rl(https://evil.example/a)"/>'),
    svg('<a href="java&#x73;cript:alert(1)"/>'),
    svg(`<g onload${' '.repeat(9_999)}="alert(1)"/>`),
    svg(`<path fill="url(${'&#32;'.repeat(2_000)}https://evil.example/a)"/>`),
    svg(`<${'x'.repeat(99)}é:script/>`),
    svg('<set attributeName="xlink:href" to="https://evil.example/"/>'),
    svg('<animate attributeName="onload" values="alert(1)"/>'),
    ...[SEAM - 30, SEAM - 9, SEAM].map(before =>
      svg(`${'<path d="M0"/>'.repeat(before / 14)}<g onload="alert(1)"/>`),
    ),
  ])('an SVG that does more than draw is none: %.99s', async active => {
    await expect(check(active)).rejects.toThrow()
  })
})
