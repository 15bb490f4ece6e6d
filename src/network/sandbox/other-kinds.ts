import { deflateSync } from 'node:zlib'
import { yieldToEventLoop } from '../../base/clock.ts'
import { type Json, readString } from '../../base/json.ts'
import { writeWavHead } from '../../base/wav.ts'
import { type PixelSize, shrinkToSide } from '../../language/image.ts'
import { PCM_RATE, PCM_WIDTH } from '../../language/speech.ts'
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

/** The letters that are hummed; a longer text ends there. Together they take five minutes. */
const MOST_LETTERS = 5_000
/** A tone takes 60 ms. */
const SAMPLES = (PCM_RATE * 60) / 1_000
/** The tones of a read. */
const LETTERS_PER_PIECE = 16

/**
 * Answers like an OpenAI speech server: a tone for each letter, which the letter and the voice
 * decide, as 16-bit samples or as a WAV file. The file has the text in it as a comment, so that the
 * sandbox can read it again. The same request always gets the same sound.
 */
export function answerSpeech({ input, voice, response_format }: Json): Response {
  const text = (readString(input) ?? '').slice(0, MOST_LETTERS)
  const letters = [...text]
  const pitch = Bun.hash.xxHash32(readString(voice) ?? '') % 12
  const isWav = response_format === 'wav'
  const size = letters.length * SAMPLES * PCM_WIDTH
  let at = 0
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      if (isWav) controller.enqueue(writeWavHead(PCM_RATE, size, writeComment(text)))
    },
    async pull(controller) {
      await yieldToEventLoop()
      if (at >= letters.length) return controller.close()
      const piece = letters.slice(at, at + LETTERS_PER_PIECE)
      at += LETTERS_PER_PIECE
      controller.enqueue(Buffer.concat(piece.map(letter => hum(letter, pitch))))
    },
  })
  const type = isWav ? 'audio/wav' : 'audio/pcm'
  return new Response(stream, { headers: { 'content-type': type } })
}

/** The loudest sample of a tone. */
const AMPLITUDE = 8_000

/** Hums a letter: silence for a space, else one of 36 half tones. */
function hum(letter: string, pitch: number): Buffer {
  const samples = Buffer.alloc(SAMPLES * PCM_WIDTH)
  if (letter.trim() === '') return samples
  const halfTone = (letter.codePointAt(0) ?? 0) % 24
  const step = (2 * Math.PI * 220 * 2 ** ((halfTone + pitch) / 12)) / PCM_RATE
  for (let i = 0; i < SAMPLES; i++) {
    // It swells and fades, so that nothing clicks.
    const loudness = AMPLITUDE * Math.sin((Math.PI * i) / SAMPLES)
    samples.writeInt16LE(Math.round(loudness * Math.sin(step * i)), i * PCM_WIDTH)
  }
  return samples
}

/** Writes a text as a comment of a RIFF file: `LIST INFO ICMT`. */
function writeComment(text: string): Buffer {
  const words = Buffer.from(`${text}\0`)
  const padded = Buffer.alloc(words.length + (words.length % 2))
  padded.set(words)
  const head = Buffer.alloc(20)
  head.write('LIST', 0, 'latin1')
  head.writeUInt32LE(12 + padded.length, 4)
  head.write('INFOICMT', 8, 'latin1')
  head.writeUInt32LE(words.length, 16)
  return Buffer.concat([head, padded])
}

const DIMENSIONS = 8
const MAX_DIMENSIONS = 1024

/** The most numbers of one answer: its vectors times their dimensions. */
const MOST_NUMBERS = 256 * 1024
/** The most characters of all texts together, times the dimensions: every word is in each. */
const MOST_WORK = 16 * 1024 * 1024
/** How many words times dimensions are computed before others get their turn. */
const TERMS_PER_TURN = 64 * 1024

/**
 * Returns why the sandbox computes no vectors for this body, or undefined if it does: it costs
 * nothing, so it must not take much either.
 */
export function findEmbeddingsRefusal({ input, dimensions }: Json): string | undefined {
  const inputs = listInputs(input)
  const size = typeof dimensions === 'number' ? dimensions : DIMENSIONS
  if (size > MAX_DIMENSIONS) return `The sandbox has at most ${MAX_DIMENSIONS} dimensions`
  if (inputs.length * size > MOST_NUMBERS)
    return `The sandbox computes at most ${MOST_NUMBERS} numbers in one answer`
  const characters = inputs.reduce<number>((sum, one) => sum + renderInput(one).length, 0)
  const most = Math.floor(MOST_WORK / size)
  if (characters > most)
    return `The sandbox reads at most ${most} characters for vectors of ${size} dimensions`
  return undefined
}

/**
 * Answers like an OpenAI embeddings server, without any notion of meaning: each word has a
 * direction, and a text is the sum of its words, normalized to length 1. The same text always has
 * the same vector, and texts that share words lie near each other. Others get their turn while it
 * computes.
 */
export async function answerEmbeddings({ input, dimensions }: Json) {
  const inputs = listInputs(input).map(renderInput)
  const size = typeof dimensions === 'number' ? dimensions : DIMENSIONS
  const prompt_tokens = estimateByRuleOfThumb(inputs)
  return {
    object: 'list',
    model: 'embed',
    data: (await computeVectors(inputs, size)).map((embedding, index) => ({
      object: 'embedding',
      index,
      embedding,
    })),
    usage: { prompt_tokens, total_tokens: prompt_tokens },
  }
}

// The input is a text, a list of tokens, or a list of either.
const listInputs = (input: unknown): unknown[] =>
  Array.isArray(input) && typeof input[0] !== 'number' ? input : [input]

const renderInput = (input: unknown): string =>
  typeof input === 'string' ? input : JSON.stringify(input)

async function computeVectors(texts: string[], size: number): Promise<number[][]> {
  const vectors: number[][] = []
  let terms = 0
  for (const text of texts) {
    const sum = new Array<number>(size).fill(0)
    for (const word of splitWords(text)) {
      addWord(sum, word)
      terms += size
      if (terms < TERMS_PER_TURN) continue
      terms = 0
      await yieldToEventLoop()
    }
    vectors.push(normalize(sum))
  }
  return vectors
}

const splitWords = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text]

function addWord(sum: number[], word: string): void {
  for (let axis = 0; axis < sum.length; axis++)
    sum[axis] = (sum[axis] ?? 0) + computeCoordinate(word, axis)
}

function normalize(sum: number[]): number[] {
  const length = Math.sqrt(sum.reduce((squares, value) => squares + value * value, 0)) || 1
  return sum.map(value => Math.fround(value / length))
}

const HALF = 2 ** 31

/** Computes a word's coordinate on an axis, from -1 to 1, always the same. */
const computeCoordinate = (word: string, axis: number): number =>
  Bun.hash.xxHash32(word, axis) / HALF - 1
