import { deflateSync } from 'node:zlib'
import { yieldToEventLoop } from '../../base/clock.ts'
import { type Json, readString } from '../../base/json.ts'
import { type PixelSize, shrinkToSide } from '../../language/image.ts'
import { SANDBOX_SIDE } from '../../translation/protocols/images/capabilities.data.ts'
import { estimateByRuleOfThumb } from '../../translation/tokenizers/rule-of-thumb.ts'

/** The sides of a picture without a size. They are small, as it is only looked at once. */
const SIDE = 256

/**
 * Answers like an OpenAI image server: each picture is a PNG of colours that the prompt, the seed
 * and its position decide, in the size that is asked for or the largest of its ratio. The same
 * request always gets the same pictures. Others get their turn after each.
 */
export async function answerPictures({ prompt, n, size, seed }: Json) {
  const text = readString(prompt) ?? ''
  const data: { b64_json: string }[] = []
  for (let position = 0; position < readCount(n); position++) {
    const hash = Bun.hash.xxHash32(`${text}\n${seed ?? ''}\n${position}`)
    data.push({ b64_json: drawPattern(readSize(size), hash).toString('base64') })
    await yieldToEventLoop()
  }
  const input_tokens = estimateByRuleOfThumb([text])
  const output_tokens = 16 * data.length
  return {
    created: 0,
    data,
    usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens },
  }
}

const readCount = (n: unknown): number => (typeof n === 'number' ? n : 1)

function readSize(size: unknown): PixelSize {
  const [width = SIDE, height = SIDE] = typeof size === 'string' ? size.split('x').map(Number) : []
  return shrinkToSide({ width, height }, SANDBOX_SIDE)
}

/** A field of the pattern has this many pixels a side. */
const FIELD = 32

/** Draws fields in two colours as a PNG (RFC 2083): one bit a pixel, with a palette. */
export function drawPattern({ width, height }: PixelSize, hash: number): Buffer {
  const row = Math.ceil(width / 8)
  const pixels = Buffer.alloc((row + 1) * height)
  for (let y = 0; y < height; y++)
    if (y % FIELD > 0) pixels.copyWithin(y * (row + 1), (y - 1) * (row + 1), y * (row + 1))
    else
      for (let x = 0; x < row; x++)
        if (isFilled(Math.floor((x * 8) / FIELD), y / FIELD, hash))
          pixels[y * (row + 1) + 1 + x] = 0xff
  const palette = Buffer.alloc(6, 0xff)
  palette.writeUIntBE(hash & 0xffffff, 0, 3)
  return Buffer.concat([
    SIGNATURE,
    writeChunk('IHDR', writeHeader(width, height)),
    writeChunk('PLTE', palette),
    writeChunk('IDAT', deflateSync(pixels)),
    writeChunk('IEND', Buffer.alloc(0)),
  ])
}

const isFilled = (x: number, y: number, hash: number): boolean =>
  (Bun.hash.xxHash32(`${x} ${y}`, hash) & 1) === 1

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex')

/** One bit a pixel (1), from a palette (3); the other methods have no alternative. */
function writeHeader(width: number, height: number): Buffer {
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0])
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  return header
}

function writeChunk(type: string, data: Buffer): Buffer {
  const content = Buffer.concat([Buffer.from(type), data])
  const chunk = Buffer.alloc(content.length + 8)
  chunk.writeUInt32BE(data.length, 0)
  chunk.set(content, 4)
  chunk.writeUInt32BE(Bun.hash.crc32(content), content.length + 4)
  return chunk
}
