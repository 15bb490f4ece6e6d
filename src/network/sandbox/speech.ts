import { yieldToEventLoop } from '../../base/clock.ts'
import { type Json, readString } from '../../base/json.ts'
import { writeWavHead } from '../../base/wav.ts'
import { PCM_RATE, PCM_WIDTH } from '../../language/speech.ts'

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
