import { writeWavHead } from '../../src/base/wav.ts'

/** Builds a WAV file of silence. */
export function buildWav(seconds: number, rate = 24_000): Buffer {
  const sound = Buffer.alloc(Math.round(seconds * rate) * 2)
  return Buffer.concat([writeWavHead(rate, sound.length), sound])
}

/** A tenth of a second of silence, as JSON bodies have it. */
export const INPUT_AUDIO = { data: buildWav(0.1).toString('base64'), format: 'wav' }
